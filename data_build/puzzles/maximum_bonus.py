"""Maximum Bonus: the path of steps down and right from start to end whose numbers sum to the most.

Edit-Compass, appendix A.3.7: n from 5 to 12, numbers from -5 to 9, the end below and right of the start and at least
3 steps away. Both ends' numbers count. Draws with several best paths are left out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from PIL import Image

from data_build.puzzles.changes import Change, Colour
from data_build.puzzles.grid import (
    RED,
    START_FILL,
    YELLOW,
    Cell,
    Layout,
    draw_grid,
    highlight,
    highlighted_cells,
    name_of,
    spoilt_cells,
)
from data_build.puzzles.paths import best_monotone_paths, monotone_path, steps
from data_build.puzzles.puzzle import InvalidEditError, Outcome
from data_build.puzzles.settings import require_range
from gnomon.records import Record, Text

END_FILL: Colour = (185, 210, 250)


class BonusGrid(Record):
    """Numbers by row and column, and the two ends."""

    numbers: list[list[int]]
    start: Cell
    end: Cell


@dataclass(frozen=True)
class MaximumBonus:
    """The puzzle.

    Attributes:
        sizes: fewest and most cells per side.
        numbers: smallest and largest number.
        least_distance: steps from start to end, at least.
    """

    sizes: tuple[int, int] = (5, 12)
    numbers: tuple[int, int] = (-5, 9)
    least_distance: int = 3

    def __post_init__(self) -> None:
        """Refuse settings that no grid can have.

        Raises:
            UserError: names the setting.
        """
        require_range("sizes", self.sizes, 2)
        require_range("numbers", self.numbers, -99, 99)

    task = "maximum_bonus"
    instance_class = BonusGrid

    def sample(self, rng: random.Random) -> BonusGrid | None:
        """Draw a grid with one best path."""
        size = rng.randint(*self.sizes)
        numbers = [[rng.randint(*self.numbers) for _ in range(size)] for _ in range(size)]
        start, end = ((rng.randrange(size), rng.randrange(size)) for _ in range(2))
        down, right = end[0] - start[0], end[1] - start[1]
        if down < 1 or right < 1 or down + right < self.least_distance:
            return None
        instance = BonusGrid(numbers=numbers, start=start, end=end)
        return instance if _best_of(instance)[1] == 1 else None

    def solve(self, instance: BonusGrid) -> frozenset[Cell]:
        """Return the cells of the best path."""
        return frozenset(_best_of(instance)[2])

    def render(
        self,
        instance: BonusGrid,
        resolution: int,
        answer: frozenset[Cell] | None = None,
        *,
        colour: Colour | None = None,
    ) -> Image.Image:
        """Draw the grid, negative numbers in red; the cells of an answer are highlighted."""
        layout = Layout(len(instance.numbers), resolution)
        texts = {(row, column): str(instance.numbers[row][column]) for row, column in layout.cells()}
        inks = {cell: RED if text.startswith("-") else (0, 0, 0) for cell, text in texts.items()}
        fills = {instance.start: START_FILL, instance.end: END_FILL}
        image = draw_grid(layout, fills=fills, texts=texts, inks=inks)
        return image if answer is None else highlight(image, layout, answer, colour or YELLOW)

    def instruct(self, instance: BonusGrid) -> Text:
        """Return the instruction."""
        return Text(
            en="Starting at the green cell, move only down or right, one cell at a time, to the blue cell. Find the "
            "path whose numbers, those of both ends included, have the largest sum, and highlight every cell of it in "
            "yellow. Change nothing else.",
            zh="从绿色格子出发，每次只能向下或向右移动一格，到达蓝色格子。找出途经数字之和（包括起点和终点）最大的路径，"
            "并用黄色标出该路径上的每个格子。不要改动其他任何内容。",
        )

    def describe(self, instance: BonusGrid) -> str:
        """Return the best path and its sum."""
        total, _, path = _best_of(instance)
        return f"The cells (row, column) {steps(path)} are highlighted in yellow; their sum is {total}."

    def markers(self, instance: BonusGrid) -> dict[str, Colour]:
        """Return the highlighter's colour."""
        return {"yellow": YELLOW}

    def read(self, instance: BonusGrid, change: Change) -> frozenset[Cell]:
        """Return the highlighted cells."""
        return highlighted_cells(change, len(instance.numbers))

    def spoil(self, instance: BonusGrid, rng: random.Random) -> dict[str, frozenset[Cell]]:
        """Return cells that are no path, and a path with a smaller sum."""
        spoilt = spoilt_cells(self.solve(instance), len(instance.numbers), rng)
        # The ends stand out anyway: without them the answer is still right.
        ends = {instance.start, instance.end}
        return {kind: cells for kind, cells in spoilt.items() if cells | ends != self.solve(instance)} | {
            "smallest_sum": frozenset(_best_of(instance, -1)[2]),
        }

    def check(self, instance: BonusGrid, answer: frozenset[Cell]) -> Outcome:
        """Compare with the best sum; the ends themselves need not be highlighted, they stand out already."""
        if not answer - {instance.start, instance.end}:
            return Outcome("invalid", "no cell between start and end is highlighted")
        try:
            path = monotone_path(answer | {instance.start, instance.end})
        except InvalidEditError as error:
            return Outcome("invalid", str(error))
        if path[0] != instance.start or path[-1] != instance.end:
            return Outcome("invalid", f"the path goes from {name_of(path[0])} to {name_of(path[-1])}")
        best, total = _best_of(instance)[0], sum(instance.numbers[row][column] for row, column in path)
        if total < best:
            return Outcome("suboptimal", f"the path's sum is {total}, the best one's {best}")
        return Outcome("correct", f"the path has the largest sum, {best}")


def _best_of(instance: BonusGrid, sign: int = 1) -> tuple[int, int, list[Cell]]:
    """Return the largest sum (with -1 the smallest, negated), how many paths have it, and one."""
    return best_monotone_paths(instance.start, instance.end, lambda cell: sign * instance.numbers[cell[0]][cell[1]])
