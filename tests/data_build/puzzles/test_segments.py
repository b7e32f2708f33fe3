from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from data_build.puzzles.changes import Mask
from data_build.puzzles.segments import Line, Point, distance_to_segment, drawn_lines, marks_beside

UNIT = 40.0
ROW: list[Point] = [(1.0, 5.0), (5.0, 5.0), (9.0, 5.0), (5.0, 1.0)]


def strokes(*ends: tuple[Point, Point], width: int = 4) -> Mask:
    """A mask with straight strokes."""
    image = Image.new("1", (400, 400))
    for (x, y), (other_x, other_y) in ends:
        ImageDraw.Draw(image).line((x * UNIT, y * UNIT, other_x * UNIT, other_y * UNIT), 1, width)
    return np.array(image)


@pytest.mark.parametrize(
    ("point", "distance"), [((5.0, 2.0), 2.0), ((0.0, 4.0), 1.0), ((12.0, 8.0), 5.0), ((8.0, 4.0), 0.0)]
)
def test_distances_are_those_by_hand(point: Point, distance: float) -> None:
    assert distance_to_segment(point, (1.0, 4.0), (9.0, 4.0)) == pytest.approx(distance)


@given(*[st.tuples(st.floats(0, 10), st.floats(0, 10)) for _ in range(2)])
def test_ends_have_no_distance(first: Point, second: Point) -> None:
    if math.dist(first, second) > 0.1:
        assert distance_to_segment(first, first, second) == pytest.approx(0, abs=1e-9)
        assert distance_to_segment(second, first, second) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("lines", [set(), {(0, 1)}, {(0, 3), (1, 3)}, {(0, 1), (1, 2), (2, 3), (0, 3)}])
def test_drawn_lines_are_found(lines: set[Line]) -> None:
    mask = strokes(*((ROW[first], ROW[second]) for first, second in lines))

    assert drawn_lines(mask, ROW, UNIT) == lines
    assert not marks_beside(mask, ROW, frozenset(lines), UNIT).any()


def test_a_line_over_another_point_is_its_two_parts() -> None:
    assert drawn_lines(strokes((ROW[0], ROW[2])), ROW, UNIT) == {(0, 1), (1, 2)}


def test_half_a_line_and_a_line_beside_are_none() -> None:
    half = strokes((ROW[0], (3.0, 5.0)))
    beside = strokes(((1.0, 5.3), (9.0, 5.3)))

    for mask in (half, beside):
        assert drawn_lines(mask, ROW, UNIT) == frozenset()
        assert marks_beside(mask, ROW, frozenset(), UNIT).sum() == mask.sum()


def test_marks_beside_are_those_outside_of_a_band() -> None:
    mask = strokes((ROW[0], ROW[1]), ((2.0, 5.0), (2.0, 8.0)))
    beside = marks_beside(mask, ROW, frozenset({(0, 1)}), UNIT)

    rows, columns = beside.nonzero()
    assert rows.min() > 5.2 * UNIT - 2
    assert rows.max() >= 8 * UNIT - 1
    assert set(columns) <= set(range(77, 84))
