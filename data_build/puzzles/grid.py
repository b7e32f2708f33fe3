"""Square grids in pictures: where cells are, how they are drawn and marked, and which ones an edit marked."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFont

from data_build.puzzles.changes import Change, Colour, Mask
from data_build.puzzles.puzzle import InvalidEditError

Cell = tuple[int, int]
"""Row and column, from 0."""
Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels, right and bottom excluded."""

MARGIN = 1 / 16
"""Of the picture's side, on each side of the grid."""
INNER = 0.2
"""Share of a cell's side that is left out on each side when marks are looked for."""
LEAST_MARK = 0.1
"""Share of a cell's inner part that a mark covers at least: a thin line, a ring or a fill."""
MOST_OTHER = 0.04
"""Share of a cell's inner part that may change in other colours. A digit that is gone is more, and so are most
others in its place; one of nearly the same strokes (8 for 3), or a small one, may pass."""
LEAST_LINE = 0.05
"""The same where answers are lines, which only begin and end in some cells."""
LINE_COLOUR: Colour = (90, 90, 90)
YELLOW: Colour = (255, 225, 40)
RED: Colour = (220, 30, 40)
START_FILL: Colour = (185, 235, 190)
"""Of the cell that a path starts at."""


@dataclass(frozen=True)
class Layout:
    """Where the cells of an n x n grid lie in a square picture."""

    size: int
    resolution: int

    def box(self, cell: Cell, *, inset: float = 0.0) -> Box:
        """Return left, top, right and bottom of a cell in pixels, right and bottom excluded.

        Args:
            cell: row and column.
            inset: share of the side that is cut off on each side.
        """
        row, column = cell
        x, y, side = self._edge(column), self._edge(row), self.side
        return (
            round(x + inset * side),
            round(y + inset * side),
            round(x + (1 - inset) * side),
            round(y + (1 - inset) * side),
        )

    def centre(self, cell: Cell) -> tuple[float, float]:
        """Return x and y of a cell's centre."""
        row, column = cell
        return self._edge(column + 0.5), self._edge(row + 0.5)

    @property
    def side(self) -> float:
        """Pixels per side of a cell."""
        return self.resolution * (1 - 2 * MARGIN) / self.size

    def _edge(self, number: float) -> float:
        return self.resolution * MARGIN + number * self.side

    def cells(self) -> list[Cell]:
        """Return all cells, row by row."""
        return [(row, column) for row in range(self.size) for column in range(self.size)]


def name_of(cell: Cell) -> str:
    """Return a cell in words, counted from 1."""
    return f"row {cell[0] + 1}, column {cell[1] + 1}"


def neighbours(cell: Cell, size: int) -> list[Cell]:
    """Return the cells above, below, left and right."""
    row, column = cell
    around = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
    return [(r, c) for r, c in around if 0 <= r < size and 0 <= c < size]


def draw_grid(
    layout: Layout,
    *,
    fills: Mapping[Cell, Colour] | None = None,
    texts: Mapping[Cell, str] | None = None,
    inks: Mapping[Cell, Colour] | None = None,
) -> Image.Image:
    """Draw a grid with coloured cells and texts in them; white, and black ink, where nothing is said."""
    image = Image.new("RGB", (layout.resolution, layout.resolution), "white")
    pen = ImageDraw.Draw(image)
    for cell in layout.cells():
        left, top, right, bottom = layout.box(cell)
        width = max(1, layout.resolution // 256)
        pen.rectangle((left, top, right, bottom), (fills or {}).get(cell, "white"), LINE_COLOUR, width)
    for cell, text in (texts or {}).items():
        draw_text(image, layout.centre(cell), text, layout.side * 0.55, (inks or {}).get(cell, (0, 0, 0)))
    return image


def draw_text(image: Image.Image, centre: tuple[float, float], text: str, size: float, ink: Colour) -> None:
    """Write a short text around a point, `size` pixels high."""
    ImageDraw.Draw(image).text(centre, text, ink, font=_font(max(6, round(size))), anchor="mm")


@lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def highlight(image: Image.Image, layout: Layout, cells: Iterable[Cell], colour: Colour) -> Image.Image:
    """Return a picture whose cells are coloured as by a highlighter: what is written in them stays readable."""
    paint = Image.new("RGB", image.size, "white")
    pen = ImageDraw.Draw(paint)
    for cell in cells:
        left, top, right, bottom = layout.box(cell, inset=0.06)
        pen.rectangle((left, top, right - 1, bottom - 1), colour)
    return ImageChops.multiply(image, paint)


def draw_line(image: Image.Image, layout: Layout, cells: Sequence[Cell], colour: Colour, *, width: float = 0.2) -> None:
    """Draw a line through the centres of cells; `width` is in sides of a cell."""
    pen, thick = ImageDraw.Draw(image), max(1, round(layout.side * width))
    points = [layout.centre(cell) for cell in cells]
    pen.line(points, colour, thick, joint="curve")
    for x, y in points:
        radius = (thick - 1) / 2
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), colour)


def spoilt_cells(best: frozenset[Cell], size: int, rng: random.Random) -> dict[str, frozenset[Cell]]:
    """Return sets of cells that differ from the best ones, by how they do."""
    everything = frozenset((row, column) for row in range(size) for column in range(size))
    lost, won = rng.choice(sorted(best)), rng.choice(sorted(everything - best))
    ordered = sorted(best)
    spoilt = {
        "one_missing": best - {lost},
        "one_more": best | {won},
        "one_moved": best - {lost} | {won},
        "first_half": frozenset(ordered[: len(ordered) // 2]),
        "one_row_down": frozenset(((row + 1) % size, column) for row, column in best),
        "one_column_right": frozenset((row, (column + 1) % size) for row, column in best),
        "transposed": frozenset((column, row) for row, column in best),
        "all_others": everything - best,
        "all": everything,
        "at_random": frozenset(rng.sample(sorted(everything), len(best))),
    }
    return {kind: cells for kind, cells in spoilt.items() if cells and cells != best}


def share(mask: Mask, box: Box) -> float:
    """Return the share of a box's pixels that are in a mask."""
    left, top, right, bottom = box
    inside = mask[top:bottom, left:right]
    return np.count_nonzero(inside) / max(1, inside.size)


def marked_cells(mask: Mask, layout: Layout, *, least: float = LEAST_MARK) -> frozenset[Cell]:
    """Return the cells of whose inner part a share of `least` is marked."""
    return frozenset(cell for cell, box in _inner_boxes(layout) if share(mask, box) >= least)


@lru_cache(maxsize=64)
def _inner_boxes(layout: Layout) -> list[tuple[Cell, Box]]:
    """Return all cells with the part of each in which marks are looked for."""
    return [(cell, layout.box(cell, inset=INNER)) for cell in layout.cells()]


def highlighted_cells(change: Change, size: int) -> frozenset[Cell]:
    """Return the cells of a grid of `size` x `size` that an edit highlighted in yellow.

    Raises:
        InvalidEditError: when it changed something else as well.
    """
    layout = Layout(size, change.other.shape[0])
    refuse_other_changes(change, layout)
    return marked_cells(change.marked["yellow"], layout)


def refuse_other_changes(change: Change, layout: Layout) -> None:
    """Make sure that an edit did nothing else to the grid than marking.

    Raises:
        InvalidEditError: names the first cell that changed.
    """
    if not change.other.any():
        return
    for cell, box in _inner_boxes(layout):
        if share(change.other, box) > MOST_OTHER:
            raise InvalidEditError(f"{name_of(cell)} was changed in another way than by the mark that was asked for")


def links(mask: Mask, layout: Layout, cells: frozenset[Cell]) -> frozenset[frozenset[Cell]]:
    """Return the pairs of neighbouring cells between which a mark crosses the border."""
    found = set()
    for row, column in cells:
        for other in ((row + 1, column), (row, column + 1)):
            if other in cells and share(mask, _border_box(layout, (row, column), other)) >= LEAST_LINK:
                found.add(frozenset(((row, column), other)))
    return frozenset(found)


LEAST_LINK = 0.15
"""Share of the box around the middle of a border that a crossing line covers at least."""


def _border_box(layout: Layout, first: Cell, second: Cell) -> Box:
    (x, y), (other_x, other_y) = layout.centre(first), layout.centre(second)
    x, y, half = (x + other_x) / 2, (y + other_y) / 2, layout.side * 0.15
    return round(x - half), round(y - half), round(x + half), round(y + half)
