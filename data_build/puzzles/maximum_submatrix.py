"""Maximum Submatrix: the block of a given height and width whose numbers sum to the most.

Edit-Compass, appendix A.3.6: n from 6 to 10, numbers from -9 to 9, height and width from 2 to min(4, n - 1). Draws with
several best blocks are left out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from data_build.puzzles.changes import Change, Colour
from data_build.puzzles.grid import (
    RED,
    YELLOW,
    Cell,
    Layout,
    draw_grid,
    highlight,
    highlighted_cells,
    spoilt_cells,
)
from data_build.puzzles.puzzle import Outcome
from data_build.puzzles.settings import require_range
from gnomon.records import Record, Text


class NumberBlock(Record):
    """Numbers by row and column, and the size of the blocks."""

    numbers: list[list[int]]
    height: int
    width: int


@dataclass(frozen=True)
class MaximumSubmatrix:
    """The puzzle.

    Attributes:
        sizes: fewest and most cells per side.
        numbers: smallest and largest number.
        blocks: smallest and largest height and width of a block; less than the grid's.
    """

    sizes: tuple[int, int] = (6, 10)
    numbers: tuple[int, int] = (-9, 9)
    blocks: tuple[int, int] = (2, 4)

    def __post_init__(self) -> None:
        """Refuse settings that no grid can have.

        Raises:
            UserError: names the setting.
        """
        require_range("sizes", self.sizes, 2)
        require_range("numbers", self.numbers, -99, 99)
        require_range("blocks", self.blocks, 1, self.sizes[0] - 1)

    task = "maximum_submatrix"
    instance_class = NumberBlock

    def sample(self, rng: random.Random) -> NumberBlock | None:
        """Draw a grid with one best block."""
        size = rng.randint(*self.sizes)
        numbers = [[rng.randint(*self.numbers) for _ in range(size)] for _ in range(size)]
        height, width = (rng.randint(self.blocks[0], min(self.blocks[1], size - 1)) for _ in range(2))
        instance = NumberBlock(numbers=numbers, height=height, width=width)
        sums = _sums(instance)
        return instance if np.count_nonzero(sums == sums.max()) == 1 else None

    def solve(self, instance: NumberBlock) -> frozenset[Cell]:
        """Return the cells of the best block."""
        sums = _sums(instance)
        top, left = (int(number) for number in np.unravel_index(sums.argmax(), sums.shape))
        return _block(top, left, instance.height, instance.width)

    def render(
        self,
        instance: NumberBlock,
        resolution: int,
        answer: frozenset[Cell] | None = None,
        *,
        colour: Colour | None = None,
    ) -> Image.Image:
        """Draw the grid, negative numbers in red; the cells of an answer are highlighted."""
        layout = Layout(len(instance.numbers), resolution)
        texts = {(row, column): str(instance.numbers[row][column]) for row, column in layout.cells()}
        inks = {cell: RED if text.startswith("-") else (0, 0, 0) for cell, text in texts.items()}
        image = draw_grid(layout, texts=texts, inks=inks)
        return image if answer is None else highlight(image, layout, answer, colour or YELLOW)

    def instruct(self, instance: NumberBlock) -> Text:
        """Return the instruction."""
        height, width = instance.height, instance.width
        return Text(
            en=f"Find the block of {height} rows by {width} columns whose numbers have the largest sum, and highlight "
            "every cell of it in yellow. Change nothing else.",
            zh=f"找出数字之和最大的{height}行{width}列的矩形区域，并用黄色标出其中的每个格子。不要改动其他任何内容。",
        )

    def describe(self, instance: NumberBlock) -> str:
        """Return the best block and its sum."""
        (top, left), (bottom, right) = min(self.solve(instance)), max(self.solve(instance))
        return (
            f"The cells of rows {top + 1} to {bottom + 1} and columns {left + 1} to {right + 1} are highlighted in "
            f"yellow; their sum is {_sums(instance).max()}."
        )

    def markers(self, instance: NumberBlock) -> dict[str, Colour]:
        """Return the highlighter's colour."""
        return {"yellow": YELLOW}

    def read(self, instance: NumberBlock, change: Change) -> frozenset[Cell]:
        """Return the highlighted cells."""
        return highlighted_cells(change, len(instance.numbers))

    def spoil(self, instance: NumberBlock, rng: random.Random) -> dict[str, frozenset[Cell]]:
        """Return cells that are no block of this size, and the block with the smallest sum."""
        sums = _sums(instance)
        top, left = (int(number) for number in np.unravel_index(sums.argmin(), sums.shape))
        return spoilt_cells(self.solve(instance), len(instance.numbers), rng) | {
            "smallest_sum": _block(top, left, instance.height, instance.width),
        }

    def check(self, instance: NumberBlock, answer: frozenset[Cell]) -> Outcome:
        """Compare with the best sum."""
        if not answer:
            return Outcome("invalid", "no cell is highlighted")
        top, left = min(row for row, _ in answer), min(column for _, column in answer)
        if answer != _block(top, left, instance.height, instance.width):
            return Outcome("invalid", f"the highlighted cells are no block of {instance.height} by {instance.width}")
        best, total = int(_sums(instance).max()), sum(instance.numbers[row][column] for row, column in answer)
        if total < best:
            return Outcome("suboptimal", f"the block's sum is {total}, the best one's {best}")
        return Outcome("correct", f"the block has the largest sum, {best}")


def _block(top: int, left: int, height: int, width: int) -> frozenset[Cell]:
    return frozenset((row, column) for row in range(top, top + height) for column in range(left, left + width))


def _sums(instance: NumberBlock) -> NDArray[np.int64]:
    """Return the sum of every block, by its top and left."""
    windows = np.lib.stride_tricks.sliding_window_view(
        np.array(instance.numbers, dtype=np.int64), (instance.height, instance.width)
    )
    sums: NDArray[np.int64] = windows.sum(axis=(2, 3))
    return sums
