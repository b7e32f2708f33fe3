from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from data_build.puzzles.changes import HUE_TOLERANCE
from data_build.puzzles.grid import Cell, Layout, draw_line
from data_build.puzzles.numberlink import COLOURS, Numberlink, Pairs, Routes
from gnomon.errors import UserError
from tests.data_build.puzzles.examples import RESOLUTION, instances, jpeg, outcome_of, outcome_of_answer

PUZZLE = Numberlink()
SMALL = Pairs(
    size=4, routes={"red": [(0, 0), (0, 1), (0, 2), (1, 2)], "blue": [(1, 0), (2, 0), (3, 0), (3, 1), (3, 2)]}
)
BEST = PUZZLE.solve(SMALL)


def all_answers() -> Iterator[Routes]:
    """All ways to join the small grid's pairs, each for itself."""
    graph = networkx.grid_2d_graph(4, 4)
    ways = {
        name: [tuple(way) for way in networkx.all_simple_paths(graph, cells[0], cells[-1])]
        for name, cells in SMALL.routes.items()
    }
    for red, blue in product(*ways.values()):
        yield {"red": red, "blue": blue}


def is_solution(answer: Routes) -> bool:
    """By sets alone: no cell on two lines; circles are cells of their own lines."""
    return not set(answer["red"]) & set(answer["blue"])


@given(st.integers(0, 10_000))
def test_draws_keep_the_paper_s_ranges_and_are_paths_apart(seed: int) -> None:
    (instance,) = instances(PUZZLE, 1, seed)
    graph = networkx.grid_2d_graph(instance.size, instance.size)
    routes = list(instance.routes.values())

    assert 6 <= instance.size <= 9
    assert 3 <= len(routes) <= 5
    assert set(instance.routes) <= set(COLOURS)
    for cells in routes:
        assert 4 <= len(cells) <= 2 * instance.size
        assert networkx.is_simple_path(graph, cells)
        assert not graph.has_edge(cells[0], cells[-1])
    assert len(set().union(*routes)) == sum(map(len, routes))


def test_all_sizes_and_numbers_of_pairs_are_as_frequent() -> None:
    counts = Counter((instance.size, len(instance.routes)) for instance in instances(PUZZLE, 360))

    assert set(counts) == set(product(range(6, 10), range(3, 6)))
    assert min(counts.values()) > 12
    assert max(counts.values()) < 50


def test_exactly_the_solutions_of_a_small_grid_are_correct() -> None:
    answers = list(all_answers())
    solutions = [answer for answer in answers if is_solution(answer)]

    assert 1 < len(solutions) < len(answers)
    for answer in answers:
        assert (PUZZLE.check(SMALL, answer).value == "correct") == is_solution(answer), answer


def test_every_drawn_solution_of_a_small_grid_is_correct_and_crossing_lines_are_not() -> None:
    answers = list(all_answers())
    solutions = [answer for answer in answers if is_solution(answer)]
    others = [answer for answer in answers if not is_solution(answer)]

    for answer in solutions[:: -(-len(solutions) // 20)]:
        assert outcome_of_answer(PUZZLE, SMALL, answer).value == "correct", answer
    for answer in others[:: -(-len(others) // 20)]:
        assert outcome_of_answer(PUZZLE, SMALL, answer).value == "invalid", answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({}, "the red circles are not joined"),
        ({"red": BEST["red"]}, "the blue circles are not joined"),
        (BEST | {"red": BEST["red"][:-1]}, "the red circles are not joined"),
        (BEST | {"red": BEST["red"][:1] + BEST["red"][2:]}, "no step leads from row 1, column 1 to row 1, column 3"),
        (BEST | {"red": ((0, 0), (1, 0), (1, 1), (1, 2))}, "the red line runs into the blue circle at row 2, column 1"),
        (
            BEST
            | {
                "red": ((0, 0), (0, 1), (1, 1), (2, 1), (2, 2), (1, 2)),
                "blue": ((1, 0), (1, 1), (2, 1), (3, 1), (3, 2)),
            },
            "the blue line shares a cell with the red one at row 2, column 2",
        ),
        (
            BEST | {"red": ((0, 0), (0, 1), (1, 1), (0, 1), (0, 2), (1, 2))},
            "the red line meets itself at row 1, column 2",
        ),
    ],
)
def test_answers_are_checked_by_the_rules(answer: Routes, words: str) -> None:
    outcome = PUZZLE.check(SMALL, answer)

    assert outcome.value == "invalid"
    assert words in outcome.reason
    assert outcome_of_answer(PUZZLE, SMALL, answer).value == "invalid"


def test_lines_are_right_in_either_direction() -> None:
    turned = {name: cells[::-1] for name, cells in BEST.items()}

    assert PUZZLE.check(SMALL, turned) == PUZZLE.check(SMALL, BEST)
    assert outcome_of_answer(PUZZLE, SMALL, turned) == PUZZLE.check(SMALL, BEST)


@pytest.mark.parametrize("width", [0.1, 0.3, 0.45])
@pytest.mark.parametrize("shade", [0.75, 1.0, 1.2])
def test_lines_of_any_width_and_shade_are_read(width: float, shade: float) -> None:
    for instance in instances(PUZZLE, 3):
        image = PUZZLE.render(instance, RESOLUTION)
        for name, cells in instance.routes.items():
            colour = tuple(min(255, round(level * shade)) for level in COLOURS[name])
            draw_line(image, Layout(instance.size, RESOLUTION), cells, colour, width=width)  # type: ignore[arg-type]
        assert outcome_of(PUZZLE, instance, image).value == "correct"
        assert outcome_of(PUZZLE, instance, jpeg(image)).value == "correct"


def test_gaps_branches_crossings_and_other_colours_are_invalid() -> None:
    layout = Layout(4, RESOLUTION)

    def with_line(cells: list[Cell], name: str) -> Image.Image:
        image = PUZZLE.render(SMALL, RESOLUTION, BEST)
        draw_line(image, layout, cells, COLOURS[name])
        return image

    gap = PUZZLE.render(SMALL, RESOLUTION, BEST)
    hole = layout.box((0, 1))
    gap.paste(PUZZLE.render(SMALL, RESOLUTION).crop(hole), hole)
    dot = PUZZLE.render(SMALL, RESOLUTION, BEST)
    ImageDraw.Draw(dot).ellipse(layout.box((3, 3), inset=0.25), COLOURS["blue"])
    for image, words in (
        (gap, "the red circles are not joined by one line: the line ends at row 1, column 1"),
        (with_line([(0, 1), (1, 1)], "red"), "the line branches at row 1, column 2"),
        (with_line([(2, 3), (3, 3)], "blue"), "marks beside the line, at row 3, column 4"),
        (dot, "marks beside the line, at row 4, column 4"),
        (with_line([(2, 2), (3, 2)], "red"), "the red line runs into the blue circle at row 4, column 3"),
        (with_line([(2, 1), (2, 2)], "green"), "row 3, column 2 was changed in another way"),
        (with_line([(2, 1), (2, 2)], "yellow"), "row 3, column 2 was changed in another way"),
    ):
        outcome = outcome_of(PUZZLE, SMALL, image)
        assert outcome.value == "invalid"
        assert words in outcome.reason


def test_a_line_to_another_circle_is_noticed_below_the_circle_and_above_it() -> None:
    answer = BEST | {"red": (*BEST["red"], (2, 2), (3, 2))}
    above = PUZZLE.render(SMALL, RESOLUTION, BEST)
    draw_line(above, Layout(4, RESOLUTION), answer["red"], COLOURS["red"])

    for image in (PUZZLE.render(SMALL, RESOLUTION, answer), above):
        assert "the red line runs into the blue circle at row 4, column 3" in outcome_of(PUZZLE, SMALL, image).reason


def test_colours_are_told_apart_by_their_hues() -> None:
    swatches = Image.new("RGB", (len(COLOURS), 1))
    swatches.putdata(list(COLOURS.values()))
    colour = np.asarray(swatches.convert("YCbCr"))[0, :, 1:].astype(float) - 128
    hues = np.degrees(np.arctan2(colour[:, 1], colour[:, 0]))

    apart = [abs((first - second + 180) % 360 - 180) for first, second in combinations(hues, 2)]
    assert min(apart) > 1.9 * HUE_TOLERANCE


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sizes": (9, 6)}, "sizes"),
        ({"num_pairs": (3, 6)}, "expected num_pairs to be a smallest and a largest number from 2 to 5, got 3 and 6"),
        ({"least_cells": 2}, "expected least_cells >= 3"),
        ({"least_cells": 13}, "expected least_cells at which 3 walks"),
    ],
)
def test_settings_that_cannot_be_drawn_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Numberlink(**settings)  # type: ignore[arg-type]
