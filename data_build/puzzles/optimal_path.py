"""Optimal Path: the cheapest way over a map of roads, grass, water and walls.

Edit-Compass, appendix A.3.4: n from 6 to 10, costs 1, 3, 8 and infinity, steps to the four neighbours. Our choices,
where the paper is silent: the shares of terrain, ends at least n steps apart, and that cells are paid for when they are
entered, so that the start is free. Draws with several cheapest ways are left out.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from PIL import Image, ImageDraw

from data_build.puzzles.changes import Change, Colour
from data_build.puzzles.grid import (
    LEAST_LINE,
    RED,
    Cell,
    Layout,
    draw_grid,
    draw_line,
    draw_text,
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

COSTS = {"road": 1, "grass": 3, "water": 8}
"""Of entering a cell; walls cannot be entered."""
FILLS: dict[str, Colour] = {
    "road": (215, 210, 200),
    "grass": (125, 190, 95),
    "water": (95, 150, 225),
    "wall": (60, 60, 60),
}


class Terrain(Record):
    """Kinds of terrain by row and column, and the two ends."""

    kinds: list[list[str]]
    start: Cell
    end: Cell


@dataclass(frozen=True)
class OptimalPath:
    """The puzzle.

    Attributes:
        sizes: fewest and most cells per side.
        shares: of the kinds of terrain.
        least_distance: steps from start to end without walls, at least; None for the number of cells per side.
    """

    sizes: tuple[int, int] = (6, 10)
    shares: Mapping[str, float] = field(
        default_factory=lambda: {"road": 0.4, "grass": 0.25, "water": 0.15, "wall": 0.2}
    )
    least_distance: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings that no map can have.

        Raises:
            UserError: names the setting.
        """
        require_range("sizes", self.sizes, 2)
        kinds = (*COSTS, "wall")
        if (
            not set(self.shares) <= set(kinds)
            or min(self.shares.values(), default=0) < 0
            or not sum(self.shares.values())
        ):
            raise UserError(f"expected shares of {', '.join(kinds)}, at least one above 0, got {dict(self.shares)}")

    task = "optimal_path"
    instance_class = Terrain

    def sample(self, rng: random.Random) -> Terrain | None:
        """Draw a map with one cheapest way."""
        size = rng.randint(*self.sizes)
        kinds = [rng.choices(list(self.shares), list(self.shares.values()), k=size) for _ in range(size)]
        start, end = ((rng.randrange(size), rng.randrange(size)) for _ in range(2))
        distance = abs(end[0] - start[0]) + abs(end[1] - start[1])
        if distance < (self.least_distance or size) or "wall" in (kinds[start[0]][start[1]], kinds[end[0]][end[1]]):
            return None
        instance = Terrain(kinds=kinds, start=start, end=end)
        return instance if _cheapest(instance)[1] == 1 else None

    def solve(self, instance: Terrain) -> tuple[Cell, ...]:
        """Return the cheapest way, from start to end."""
        return _cheapest(instance)[2]

    def render(
        self,
        instance: Terrain,
        resolution: int,
        answer: tuple[Cell, ...] | None = None,
        *,
        colour: Colour | None = None,
    ) -> Image.Image:
        """Draw the map with S and E at the ends; an answer is a line."""
        layout = Layout(len(instance.kinds), resolution)
        fills = {(row, column): FILLS[instance.kinds[row][column]] for row, column in layout.cells()}
        image = draw_grid(layout, fills=fills)
        if answer:
            draw_line(image, layout, answer, colour or RED)
        for cell, letter in ((instance.start, "S"), (instance.end, "E")):
            x, y, radius = *layout.centre(cell), layout.side * 0.3
            rim = max(1, resolution // 170)  # wide enough to outlast a blur
            ImageDraw.Draw(image).ellipse((x - radius, y - radius, x + radius, y + radius), "white", "black", rim)
            draw_text(image, (x, y), letter, layout.side * 0.45, (0, 0, 0))
        return image

    def instruct(self, instance: Terrain) -> Text:
        """Return the instruction."""
        return Text(
            en="The map consists of road (light grey), grass (green), water (blue) and walls (black). Entering a cell "
            "of road costs 1, of grass 3, of water 8; walls cannot be entered. Moves go up, down, left or right. Draw "
            "the cheapest path from S to E as one continuous red line through the centres of its cells. Change "
            "nothing else.",
            zh="地图由道路（浅灰色）、草地（绿色）、水域（蓝色）和墙（黑色）组成。进入道路格的代价为1，草地为3，水域为8，"
            "墙不可进入。每步可向上、下、左、右移动一格。请用一条连续的红线，沿格子中心画出从S到E代价最小的路径。"
            "不要改动其他任何内容。",
        )

    def describe(self, instance: Terrain) -> str:
        """Return the cheapest way and its cost."""
        cost, _, path = _cheapest(instance)
        return f"A red line goes through the cells (row, column) {steps(path)}; it costs {cost}."

    def markers(self, instance: Terrain) -> dict[str, Colour]:
        """Return the line's colour."""
        return {"red": RED}

    def read(self, instance: Terrain, change: Change) -> tuple[Cell, ...]:
        """Return the line's cells, from start to end."""
        layout = Layout(len(instance.kinds), change.other.shape[0])
        refuse_other_changes(change, layout)
        mask = change.marked["red"]
        # The ends' discs may be drawn over the line.
        cells = marked_cells(mask, layout, least=LEAST_LINE)
        if not cells - {instance.start, instance.end}:
            raise InvalidEditError("no red line is drawn")
        cells |= {instance.start, instance.end}
        return tuple(linked_path(cells, links(mask, layout, cells), instance.start, instance.end))

    def spoil(self, instance: Terrain, rng: random.Random) -> dict[str, tuple[Cell, ...]]:
        """Return a dearer way, one through walls, one that stops early, and one to another cell."""
        best = self.solve(instance)
        blocked = rng.choice(best[1:-1])
        open_ = instance.model_copy(update={"kinds": _with(instance.kinds, blocked, "wall")})
        size = len(instance.kinds)
        bend = (instance.start[0], instance.end[1])
        spoilt = {
            "dearer": _cheapest(open_)[2],
            "through_walls": (*_straight(instance.start, bend), *_straight(bend, instance.end)[1:]),
            "stops_early": best[:-2],
            "too_far": (*best, rng.choice([cell for cell in neighbours(best[-1], size) if cell not in best])),
            "one_step_aside": tuple((row, (column + 1) % size) for row, column in best),
        }
        return {kind: answer for kind, answer in spoilt.items() if len(answer) > 1 and answer != best}

    def check(self, instance: Terrain, answer: tuple[Cell, ...]) -> Outcome:
        """Compare with the least cost."""
        if not answer or answer[0] != instance.start or answer[-1] != instance.end:
            return Outcome("invalid", "the line does not go from S to E")
        for before, cell in pairwise(answer):
            if cell not in neighbours(before, len(instance.kinds)):
                return Outcome("invalid", f"no step leads from {name_of(before)} to {name_of(cell)}")
            if _kind(instance, cell) == "wall":
                return Outcome("invalid", f"the line goes through the wall at {name_of(cell)}")
        least, cost = _cheapest(instance)[0], sum(COSTS[_kind(instance, cell)] for cell in answer[1:])
        if cost > least:
            return Outcome("suboptimal", f"the line costs {cost}, the cheapest one {least}")
        return Outcome("correct", f"the line has the least cost, {least}")


def _with(kinds: list[list[str]], cell: Cell, kind: str) -> list[list[str]]:
    return [[kind if (r, c) == cell else old for c, old in enumerate(row)] for r, row in enumerate(kinds)]


def _straight(first: Cell, last: Cell) -> list[Cell]:
    """Return the cells between two of one row or column, both included."""
    length = abs(last[0] - first[0]) + abs(last[1] - first[1])
    down, right = ((last[axis] > first[axis]) - (last[axis] < first[axis]) for axis in (0, 1))
    return [(first[0] + step * down, first[1] + step * right) for step in range(length + 1)]


def _kind(instance: Terrain, cell: Cell) -> str:
    return instance.kinds[cell[0]][cell[1]]


def _cheapest(instance: Terrain) -> tuple[int, int, tuple[Cell, ...]]:
    """Return the least cost (Dijkstra), the number of ways that have it, and one; no way is (0, 0, ())."""
    best: dict[Cell, int] = {instance.start: 0}
    ways: dict[Cell, int] = {instance.start: 1}
    before: dict[Cell, Cell] = {}
    queue, done = [(0, instance.start)], set()
    while queue:
        cost, here = heapq.heappop(queue)
        if here in done:
            continue
        done.add(here)
        for cell in neighbours(here, len(instance.kinds)):
            if (kind := _kind(instance, cell)) == "wall" or cell in done:
                continue
            reached = cost + COSTS[kind]
            if reached < best.get(cell, reached + 1):
                best[cell], ways[cell], before[cell] = reached, ways[here], here
                heapq.heappush(queue, (reached, cell))
            elif reached == best[cell]:
                ways[cell] += ways[here]
    if instance.end not in best:
        return 0, 0, ()
    path = [instance.end]
    while path[-1] != instance.start:
        path.append(before[path[-1]])
    return best[instance.end], ways[instance.end], tuple(path[::-1])
