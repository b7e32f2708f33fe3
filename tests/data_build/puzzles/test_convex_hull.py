from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw
from scipy.spatial import ConvexHull as ScipyHull

from data_build.puzzles.convex_hull import ConvexHull, Points
from data_build.puzzles.segments import Line, distance_to_segment
from gnomon.errors import UserError
from tests.data_build.puzzles.examples import RESOLUTION, instances, jpeg, outcome_of, outcome_of_answer

PUZZLE = ConvexHull()
UNIT = RESOLUTION / 10
HOUSE = Points(points=[(2.0, 8.0), (8.0, 8.0), (8.0, 4.0), (5.0, 1.5), (2.0, 4.0), (5.0, 5.0), (4.0, 6.5)])
"""Five corners around two inner points."""
WALLS: frozenset[Line] = frozenset({(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)})
FLAT = Points(points=[(1.0, 5.0), (5.0, 4.7), (9.0, 5.0), (5.0, 8.0), (5.0, 5.5)])
"""The upper corner is as flat as a draw may have it, 0.3 above the line between its neighbours."""
ROOF: frozenset[Line] = frozenset({(0, 1), (1, 2), (2, 3), (0, 3)})


def test_the_hull_is_the_one_by_hand() -> None:
    assert PUZZLE.solve(HOUSE) == WALLS
    assert PUZZLE.solve(FLAT) == ROOF
    assert "(0.20, 0.40) (0.50, 0.15) (0.80, 0.40) (0.80, 0.80) (0.20, 0.80)" in PUZZLE.describe(HOUSE)


@given(st.integers(0, 10_000))
def test_draws_keep_the_paper_s_ranges_and_equal_scipy(seed: int) -> None:
    (instance,) = instances(PUZZLE, 1, seed)
    points = instance.points
    hull = ScipyHull(np.array(points))

    assert 8 <= len(points) <= 15
    assert all(1 <= coordinate <= 9 for point in points for coordinate in point)
    assert PUZZLE.solve(instance) == {(min(pair), max(pair)) for pair in hull.simplices.tolist()}
    assert min(math.dist(*pair) for pair in combinations(points, 2)) >= 0.7
    for first, second in hull.simplices:
        others = [point for number, point in enumerate(points) if number not in (first, second)]
        assert min(distance_to_segment(point, points[first], points[second]) for point in others) >= 0.3


def test_all_numbers_of_points_are_as_frequent() -> None:
    counts = Counter(len(instance.points) for instance in instances(PUZZLE, 240))

    assert set(counts) == set(range(8, 16))
    assert min(counts.values()) > 15
    assert max(counts.values()) < 45


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (WALLS, "the outline is the hull, of 5 lines"),
        (set(), "no red line leads from point to point"),
        (WALLS - {(0, 1)}, "not closed: there is no line from (0.20, 0.80) to (0.80, 0.80)"),
        (WALLS | {(0, 2)}, "the line from (0.20, 0.80) to (0.80, 0.40) runs inside"),
        (WALLS | {(0, 6)}, "the line from (0.20, 0.80) to (0.40, 0.65) runs inside"),
        (WALLS - {(2, 3), (3, 4)} | {(2, 4)}, "the point at (0.50, 0.15) lies outside"),
        (WALLS - {(0, 1)} | {(0, 6), (1, 6)}, "the line from (0.20, 0.80) to (0.40, 0.65) runs inside"),
    ],
)
def test_answers_are_checked_by_the_rules(answer: set[Line], words: str) -> None:
    outcome = PUZZLE.check(HOUSE, frozenset(answer))

    assert outcome.value == ("correct" if answer == WALLS else "invalid")
    assert words in outcome.reason


@pytest.mark.parametrize("instance", [HOUSE, FLAT])
def test_what_is_read_is_what_was_drawn(instance: Points) -> None:
    lines = list(combinations(range(len(instance.points)), 2))
    best = PUZZLE.solve(instance)
    for line in lines:
        # Lines that pass over another point are the two from it.
        first, second = (instance.points[number] for number in line)
        others = [point for number, point in enumerate(instance.points) if number not in line]
        if min(distance_to_segment(point, first, second) for point in others) < 0.2:
            continue
        for answer in ({line}, best ^ {line}):
            assert outcome_of_answer(PUZZLE, instance, frozenset(answer)) == PUZZLE.check(instance, frozenset(answer))


def drawn(instance: Points, corners: list[int], colour: tuple[int, int, int], width: int) -> Image.Image:
    """A closed outline by hand, drawn over the points."""
    image = PUZZLE.render(instance, RESOLUTION)
    places = [(instance.points[number][0] * UNIT, instance.points[number][1] * UNIT) for number in corners]
    ImageDraw.Draw(image).line([*places, places[0]], colour, width, joint="curve")
    return image


@pytest.mark.parametrize("width", [3, 7, 11])
@pytest.mark.parametrize("colour", [(220, 30, 40), (160, 0, 20), (255, 70, 70)])
def test_lines_of_any_width_and_shade_are_read(width: int, colour: tuple[int, int, int]) -> None:
    for instance, corners in ((HOUSE, [0, 1, 2, 3, 4]), (FLAT, [0, 1, 2, 3])):
        image = drawn(instance, corners, colour, width)
        assert outcome_of(PUZZLE, instance, image).value == "correct"
        assert outcome_of(PUZZLE, instance, jpeg(image)).value == "correct"


@pytest.mark.parametrize("width", [3, 5, 11])
def test_a_flat_corner_that_is_cut_off_lies_outside(width: int) -> None:
    outcome = outcome_of(PUZZLE, FLAT, drawn(FLAT, [0, 2, 3], (220, 30, 40), width))

    assert outcome.value == "invalid"
    assert "(0.50, 0.47) lies outside" in outcome.reason


def test_corners_may_be_dotted_in_red() -> None:
    image = PUZZLE.render(HOUSE, RESOLUTION, WALLS)
    for x, y in HOUSE.points[:5]:
        ImageDraw.Draw(image).ellipse((x * UNIT - 9, y * UNIT - 9, x * UNIT + 9, y * UNIT + 9), (220, 30, 40))

    assert outcome_of(PUZZLE, HOUSE, image).value == "correct"


def test_gaps_curves_and_strokes_elsewhere_are_invalid() -> None:
    red = (220, 30, 40)
    gap, stroke, inner, bow = (PUZZLE.render(HOUSE, RESOLUTION, WALLS) for _ in range(4))
    ImageDraw.Draw(gap).rectangle((230, 400, 260, 420), "white")
    ImageDraw.Draw(stroke).line((20, 20, 60, 40), red, 5)
    ImageDraw.Draw(inner).line((3 * UNIT, 7 * UNIT, 6.5 * UNIT, 6.8 * UNIT), red, 5)
    ImageDraw.Draw(bow).rectangle((110, 400, 400, 420), "white")
    ImageDraw.Draw(bow).arc((2 * UNIT, 7 * UNIT, 8 * UNIT, 9 * UNIT), 0, 180, red, 5)
    frame = PUZZLE.render(HOUSE, RESOLUTION)
    ImageDraw.Draw(frame).rectangle((90, 60, 420, 425), None, red, 5)

    for image in (gap, stroke, inner, bow, frame):
        outcome = outcome_of(PUZZLE, HOUSE, image)
        assert outcome.value == "invalid"
        assert "that belong to no line" in outcome.reason or "not closed" in outcome.reason
    assert "around (0.08, 0.06)" in outcome_of(PUZZLE, HOUSE, stroke).reason


def test_points_that_vanish_or_appear_are_invalid() -> None:
    gone, new = (PUZZLE.render(HOUSE, RESOLUTION, WALLS) for _ in range(2))
    ImageDraw.Draw(gone).rectangle((5 * UNIT - 8, 5 * UNIT - 8, 5 * UNIT + 8, 5 * UNIT + 8), "white")
    ImageDraw.Draw(new).ellipse((300, 300, 312, 312), "black")

    for image in (gone, new):
        assert "a point was changed" in outcome_of(PUZZLE, HOUSE, image).reason


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_points": (2, 8)}, "num_points"),
        ({"coordinates": (0, 10)}, "coordinates"),
        ({"least_clearance": 0.1}, "expected least_clearance >= 0.25"),
        ({"least_distance": 0.3}, "expected least_distance of at least twice least_clearance"),
        ({"num_points": (8, 400)}, "expected num_points and least_distance"),
    ],
)
def test_settings_that_cannot_be_drawn_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        ConvexHull(**settings)  # type: ignore[arg-type]
