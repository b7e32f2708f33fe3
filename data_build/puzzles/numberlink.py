"""Numberlink: join each pair of equal circles by a line of their colour, no two lines in one cell.

Edit-Compass, appendix A.3.8: n from 6 to 9, 3 to 5 pairs, made by random walks one after the other over free cells, of
which only the ends are shown. Our choices, where the paper is silent: a walk has at least 4 cells, goes on to a length
drawn from there to twice n, and its ends are no neighbours. Any solution is correct, not only the walks.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from PIL import Image, ImageDraw

from data_build.puzzles.changes import Change, Colour
from data_build.puzzles.grid import (
    LEAST_LINE,
    Cell,
    Layout,
    draw_grid,
    draw_line,
    links,
    marked_cells,
    name_of,
    neighbours,
    refuse_other_changes,
)
from data_build.puzzles.paths import linked_path, steps
from data_build.puzzles.puzzle import InvalidEditError, Outcome
from data_build.puzzles.settings import require_range
from gnomon.errors import UserError
from gnomon.records import Record, Text

Routes = dict[str, tuple[Cell, ...]]
"""The cells of each line from end to end, by its colour."""

COLOURS: dict[str, Colour] = {
    "red": (225, 25, 60),
    "yellow": (250, 215, 0),
    "green": (20, 175, 60),
    "blue": (40, 90, 220),
    "purple": (170, 40, 200),
}
"""Hues at least 57 degrees apart where marks are told apart, see `changes.HUE_TOLERANCE`."""
CHINESE = {"red": "红", "yellow": "黄", "green": "绿", "blue": "蓝", "purple": "紫"}
CIRCLE_RADIUS = 0.28
LINE_WIDTH = 0.2
"""In sides of a cell."""
TRIES = 20
"""Times that a walk is begun anew, and then all of them, so that sizes are as frequent as they are drawn."""


class Pairs(Record):
    """The walks that made the puzzle, by colour; their ends are what is shown."""

    size: int
    routes: dict[str, list[Cell]]


@dataclass(frozen=True)
class Numberlink:
    """The puzzle.

    Attributes:
        sizes: fewest and most cells per side.
        num_pairs: fewest and most pairs of circles.
        least_cells: of a walk, both ends included.

    Raises:
        UserError: for settings that admit no instance.
    """

    sizes: tuple[int, int] = (6, 9)
    num_pairs: tuple[int, int] = (3, 5)
    least_cells: int = 4

    task = "numberlink"
    instance_class = Pairs

    def __post_init__(self) -> None:
        """Refuse more pairs than there are colours or room for."""
        require_range("sizes", self.sizes, 2)
        require_range("num_pairs", self.num_pairs, 2, len(COLOURS))
        if self.least_cells < 3:
            raise UserError(f"expected least_cells >= 3, so that ends are no neighbours, got {self.least_cells}")
        if self.num_pairs[0] * self.least_cells > self.sizes[0] ** 2 or self.least_cells > 2 * self.sizes[0]:
            raise UserError(
                f"expected least_cells at which {self.num_pairs[0]} walks of up to {2 * self.sizes[0]} cells fit on "
                f"{self.sizes[0]} x {self.sizes[0]} cells, got {self.least_cells}"
            )

    def sample(self, rng: random.Random) -> Pairs | None:
        """Draw walks that share no cell."""
        size, count = rng.randint(*self.sizes), rng.randint(*self.num_pairs)
        for _ in range(TRIES):
            routes = self._walks(size, rng.sample(list(COLOURS), count), rng)
            if len(routes) == count:
                return Pairs(size=size, routes=routes)
        return None

    def _walks(self, size: int, names: Sequence[str], rng: random.Random) -> dict[str, list[Cell]]:
        """Draw walks one after the other; fewer where one finds no room."""
        free = {(row, column) for row in range(size) for column in range(size)}
        routes: dict[str, list[Cell]] = {}
        for name in names:
            for _ in range(TRIES):
                walk = _walk(free, size, rng.randint(self.least_cells, 2 * size), rng)
                if len(walk) >= self.least_cells and walk[-1] not in neighbours(walk[0], size):
                    routes[name] = walk
                    free -= set(walk)
                    break
            else:
                break
        return routes

    def solve(self, instance: Pairs) -> Routes:
        """Return the walks."""
        return {name: tuple(cells) for name, cells in instance.routes.items()}

    def render(
        self, instance: Pairs, resolution: int, answer: Routes | None = None, *, colour: Colour | None = None
    ) -> Image.Image:
        """Draw the circles; lines of an answer below them, with a gap where a cell is missing.

        Args:
            instance: what is drawn.
            resolution: pixels per side.
            answer: the lines.
            colour: of all lines, in place of those of their circles.
        """
        layout = Layout(instance.size, resolution)
        image = draw_grid(layout)
        for name, route in (answer or {}).items():
            for part in _unbroken(route, instance.size):
                draw_line(image, layout, part, colour or COLOURS[name], width=LINE_WIDTH)
        pen, radius = ImageDraw.Draw(image), layout.side * CIRCLE_RADIUS
        for name, cells in instance.routes.items():
            for x, y in (layout.centre(cell) for cell in (cells[0], cells[-1])):
                pen.ellipse((x - radius, y - radius, x + radius, y + radius), COLOURS[name])
        return image

    def instruct(self, instance: Pairs) -> Text:
        """Return the instruction."""
        names, chinese = ", ".join(instance.routes), "、".join(CHINESE[name] for name in instance.routes)
        return Text(
            en=f"Join the two circles of each colour ({names}) by one continuous line of the same colour. A line goes "
            "through the centres of cells and moves up, down, left or right, one cell at a time. No cell may be on two "
            "lines, no line may cross or touch itself in a cell, and none may pass through another pair's circle; "
            "cells may stay empty. Change nothing else.",
            zh=f"用与圆同色的一条连续线连接每种颜色（{chinese}）的两个圆。线须经过格子中心，每次向上、下、左或右移动一格。"
            "任何格子不得被两条线共用，线不得自相交，也不得穿过其他颜色的圆；允许有空格子。不要改动其他任何内容。",
        )

    def describe(self, instance: Pairs) -> str:
        """Return the walks, one solution among others."""
        routes = "; ".join(f"{name} {steps(cells)}" for name, cells in instance.routes.items())
        return (
            "The two circles of each colour are joined by a line of that colour from cell to neighbouring cell, and no "
            f"two lines share a cell. One solution, as cells (row, column): {routes}. Any other is right as well."
        )

    def markers(self, instance: Pairs) -> dict[str, Colour]:
        """Return the colours of the pairs."""
        return {name: COLOURS[name] for name in instance.routes}

    def read(self, instance: Pairs, change: Change) -> Routes:
        """Return the lines' cells, from one circle to the other."""
        layout = Layout(instance.size, change.other.shape[0])
        refuse_other_changes(change, layout)
        circles = _circles(instance)
        routes: Routes = {}
        for name, cells in instance.routes.items():
            mask = change.marked[name]
            # Circles may be drawn over the lines; those of other pairs are looked at too, to see what runs into them.
            marked = marked_cells(mask, layout, least=LEAST_LINE) | {cells[0], cells[-1]}
            found = links(mask, layout, marked | frozenset(circles))
            for cell in sorted(frozenset().union(*found) & frozenset(circles)):
                if circles[cell] != name:
                    raise InvalidEditError(f"the {name} line runs into the {circles[cell]} circle at {name_of(cell)}")
            try:
                routes[name] = tuple(linked_path(marked, found, cells[0], cells[-1]))
            except InvalidEditError as error:
                raise InvalidEditError(f"the {name} circles are not joined by one line: {error}") from error
        return routes

    def spoil(self, instance: Pairs, rng: random.Random) -> dict[str, Routes]:
        """Return lines that are missing, broken or of another colour, and lines that meet others."""
        best = self.solve(instance)
        name, other = rng.sample(list(best), 2)
        route, theirs = best[name], best[other]
        middle = rng.randrange(1, len(route) - 1)
        aside = [cell for cell in neighbours(route[middle], instance.size) if cell not in route]
        into = _straight_way(route[0], theirs[0])
        spoilt = {
            "one_missing": {key: cells for key, cells in best.items() if key != name},
            "only_one": {name: route},
            "two_colours_swapped": best | {name: theirs, other: route},
            "all_colours_moved_on": dict(zip(best, [*list(best.values())[1:], next(iter(best.values()))], strict=True)),
            "gap": best | {name: route[:middle] + route[middle + 1 :]},
            "circle_not_reached": best | {name: route[:-1]},
            "through_another_circle": best | {name: (*into, *_straight_way(theirs[0], route[-1])[1:])},
            "into_another_circle": best | {name: (*route, *_straight_way(route[-1], theirs[-1])[1:])},
            "straight_ways": {key: _straight_way(cells[0], cells[-1]) for key, cells in best.items()},
            "to_another_pair": best | {name: into},
        }
        back = _straight_way(route[-1], route[0])
        if not set(map(frozenset, pairwise(back))) <= set(map(frozenset, pairwise(route))):
            spoilt["closed_to_a_ring"] = best | {name: (*route, *back[1:])}
        if aside:
            # A branch is drawn by going there and back.
            spoilt["branch"] = best | {name: (*route[: middle + 1], rng.choice(aside), *route[middle:])}
        return {kind: routes for kind, routes in spoilt.items() if not self._holds(instance, routes)}

    def _holds(self, instance: Pairs, routes: Routes) -> bool:
        return self.check(instance, routes).value == "correct"

    def check(self, instance: Pairs, answer: Routes) -> Outcome:
        """Hold the lines against the rules."""
        circles = _circles(instance)
        owners: dict[Cell, str] = {}
        for name, ends in instance.routes.items():
            cells = answer.get(name, ())
            if not cells or {cells[0], cells[-1]} != {ends[0], ends[-1]}:
                return Outcome("invalid", f"the {name} circles are not joined")
            for before, cell in pairwise(cells):
                if cell not in neighbours(before, instance.size):
                    return Outcome("invalid", f"no step leads from {name_of(before)} to {name_of(cell)}")
            for cell in cells:
                if circles.get(cell, name) != name:
                    return Outcome(
                        "invalid", f"the {name} line runs into the {circles[cell]} circle at {name_of(cell)}"
                    )
                if cell in owners:
                    which = "meets itself" if owners[cell] == name else f"shares a cell with the {owners[cell]} one"
                    return Outcome("invalid", f"the {name} line {which} at {name_of(cell)}")
                owners[cell] = name
        return Outcome("correct", f"all {len(instance.routes)} pairs are joined, and no two lines share a cell")


def _walk(free: Iterable[Cell], size: int, length: int, rng: random.Random) -> list[Cell]:
    """Return a random walk over free cells that meets no cell twice, of `length` cells or until it cannot go on."""
    left = set(free)
    walk: list[Cell] = []
    onward = sorted(left)
    while onward and len(walk) < length:
        walk.append(rng.choice(onward))
        left.discard(walk[-1])
        onward = [cell for cell in neighbours(walk[-1], size) if cell in left]
    return walk


def _circles(instance: Pairs) -> dict[Cell, str]:
    """Return the circles' cells with their colours."""
    return {cell: name for name, cells in instance.routes.items() for cell in (cells[0], cells[-1])}


def _unbroken(cells: Sequence[Cell], size: int) -> list[list[Cell]]:
    """Split cells where one is no neighbour of the one before."""
    parts: list[list[Cell]] = []
    for cell in cells:
        if parts and cell in neighbours(parts[-1][-1], size):
            parts[-1].append(cell)
        else:
            parts.append([cell])
    return parts


def _straight_way(first: Cell, last: Cell) -> tuple[Cell, ...]:
    """Return the cells of a way along the row, then along the column, whatever is there."""
    across, down = ((last[axis] > first[axis]) - (last[axis] < first[axis]) for axis in (1, 0))
    cells = [(first[0], first[1] + step * across) for step in range(abs(last[1] - first[1]) + 1)]
    return tuple(cells + [(first[0] + step * down, last[1]) for step in range(1, abs(last[0] - first[0]) + 1)])
