"""Cells are where they are drawn, and marks of any kind are found in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from data_build.puzzles.changes import Mask, Source, find_change
from data_build.puzzles.grid import (
    LEAST_LINE,
    RED,
    YELLOW,
    Cell,
    Layout,
    draw_grid,
    draw_line,
    highlight,
    links,
    marked_cells,
    neighbours,
    refuse_other_changes,
    spoilt_cells,
)
from data_build.puzzles.puzzle import InvalidEditError

LAYOUT = Layout(8, 512)
TEXTS = {cell: str((cell[0] * 3 + cell[1]) % 10) for cell in LAYOUT.cells()}
CELLS = frozenset({(0, 0), (3, 4), (3, 5), (7, 7)})


def mask_of(edited: Image.Image) -> Mask:
    return find_change(Source(draw_grid(LAYOUT, texts=TEXTS)), edited, {"mark": RED}).marked["mark"]


@given(st.integers(2, 12), st.sampled_from([64, 100, 512]))
def test_cells_tile_the_grid(size: int, resolution: int) -> None:
    layout = Layout(size, resolution)
    boxes = [layout.box(cell) for cell in layout.cells()]

    left, top, right, bottom = boxes[0][0], boxes[0][1], boxes[-1][2], boxes[-1][3]
    assert sum((r - x) * (b - y) for x, y, r, b in boxes) == (right - left) * (bottom - top)
    for cell, (x, y, r, b) in zip(layout.cells(), boxes, strict=True):
        centre = layout.centre(cell)
        assert x < centre[0] < r
        assert y < centre[1] < b


def ring(pen: ImageDraw.ImageDraw, box: tuple[int, int, int, int]) -> None:
    pen.ellipse(box, outline=RED, width=4)


def fill(pen: ImageDraw.ImageDraw, box: tuple[int, int, int, int]) -> None:
    pen.rectangle(box, RED)


def cross(pen: ImageDraw.ImageDraw, box: tuple[int, int, int, int]) -> None:
    pen.line(box, RED, 4)
    pen.line((box[0], box[3], box[2], box[1]), RED, 4)


def dot(pen: ImageDraw.ImageDraw, box: tuple[int, int, int, int]) -> None:
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    pen.ellipse((x - 9, y - 9, x + 9, y + 9), RED)


@pytest.mark.parametrize("draw", [ring, fill, cross, dot])
def test_a_cell_is_marked_by_a_ring_a_fill_a_cross_or_a_dot(
    draw: Callable[[ImageDraw.ImageDraw, tuple[int, int, int, int]], None],
) -> None:
    image = draw_grid(LAYOUT, texts=TEXTS)
    for cell in CELLS:
        draw(ImageDraw.Draw(image), LAYOUT.box(cell, inset=0.15))

    assert marked_cells(mask_of(image), LAYOUT) == CELLS


def test_a_highlighted_cell_keeps_its_text_and_is_marked() -> None:
    image = highlight(draw_grid(LAYOUT, texts=TEXTS), LAYOUT, CELLS, YELLOW)
    change = find_change(Source(draw_grid(LAYOUT, texts=TEXTS)), image, {"yellow": YELLOW})

    assert marked_cells(change.marked["yellow"], LAYOUT) == CELLS
    refuse_other_changes(change, LAYOUT)
    assert min(image.crop(LAYOUT.box((3, 4), inset=0.2)).convert("L").getextrema()) == 0


@pytest.mark.parametrize("text", ["", "-4", "W"])
def test_another_text_in_a_cell_is_named(text: str) -> None:
    image = draw_grid(LAYOUT, texts={**TEXTS, (2, 6): text})
    assert TEXTS[2, 6] == "2"

    with pytest.raises(InvalidEditError, match="row 3, column 7 was changed"):
        refuse_other_changes(find_change(Source(draw_grid(LAYOUT, texts=TEXTS)), image, {"mark": RED}), LAYOUT)


@pytest.mark.parametrize("width", [0.08, 0.2, 0.35])
def test_a_line_of_any_width_marks_its_cells_and_links_them_in_turn(width: float) -> None:
    path: list[Cell] = [(1, 1), (1, 2), (2, 2), (3, 2), (3, 3), (2, 3)]
    image = draw_grid(LAYOUT)
    draw_line(image, LAYOUT, path, RED, width=width)
    mask = mask_of(image)

    cells = marked_cells(mask, LAYOUT, least=LEAST_LINE)
    assert cells == frozenset(path)
    # (2, 2) and (2, 3) lie side by side, but no line crosses their border
    assert links(mask, LAYOUT, cells) == {frozenset(pair) for pair in pairwise(path)}


def test_neighbours_end_at_the_edge() -> None:
    assert sorted(neighbours((0, 0), 3)) == [(0, 1), (1, 0)]
    assert sorted(neighbours((1, 1), 3)) == [(0, 1), (1, 0), (1, 2), (2, 1)]


def test_spoilt_cells_differ_from_the_best() -> None:
    for kind, cells in spoilt_cells(CELLS, 8, random.Random(0)).items():
        assert cells != CELLS, kind
        assert all(0 <= row < 8 and 0 <= column < 8 for row, column in cells), kind
