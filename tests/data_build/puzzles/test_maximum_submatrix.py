from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_build.puzzles.grid import Cell
from data_build.puzzles.maximum_submatrix import MaximumSubmatrix, NumberBlock
from tests.data_build.puzzles.examples import instances, outcome_of_answer

PUZZLE = MaximumSubmatrix()
GRID = NumberBlock(numbers=[[1, 2, 0, -9], [3, 4, 5, 0], [-1, 6, 7, 0], [0, 0, 0, 9]], height=2, width=2)


def block(top: int, left: int, height: int = 2, width: int = 2) -> frozenset[Cell]:
    return frozenset((row, column) for row in range(top, top + height) for column in range(left, left + width))


def test_the_best_block_is_the_one_by_hand() -> None:
    assert PUZZLE.solve(GRID) == block(1, 1)
    assert PUZZLE.describe(GRID) == (
        "The cells of rows 2 to 3 and columns 2 to 3 are highlighted in yellow; their sum is 22."
    )


@given(st.integers(0, 10_000))
def test_draws_keep_the_paper_s_ranges_and_equal_brute_force(seed: int) -> None:
    (instance,) = instances(PUZZLE, 1, seed)
    size = len(instance.numbers)
    sums = {
        block(top, left, instance.height, instance.width): sum(
            instance.numbers[row][column] for row, column in block(top, left, instance.height, instance.width)
        )
        for top in range(size - instance.height + 1)
        for left in range(size - instance.width + 1)
    }

    assert 6 <= size <= 10
    assert all(len(row) == size and all(-9 <= number <= 9 for number in row) for row in instance.numbers)
    assert 2 <= instance.height <= 4
    assert 2 <= instance.width <= 4
    assert [cells for cells, total in sums.items() if total == max(sums.values())] == [PUZZLE.solve(instance)]


@pytest.mark.parametrize(
    ("cells", "value", "words"),
    [
        (block(1, 1), "correct", "largest sum, 22"),
        (block(0, 0), "suboptimal", "the block's sum is 10, the best one's 22"),
        (frozenset(), "invalid", "no cell is highlighted"),
        (block(1, 1) - {(2, 2)}, "invalid", "no block of 2 by 2"),
        (block(1, 1) | {(0, 0)}, "invalid", "no block of 2 by 2"),
        (block(1, 1, 3, 2), "invalid", "no block of 2 by 2"),
        (block(1, 1, 1, 2), "invalid", "no block of 2 by 2"),
    ],
)
def test_answers_are_checked_by_the_rules(cells: frozenset[Cell], value: str, words: str) -> None:
    outcome = PUZZLE.check(GRID, cells)

    assert outcome.value == value
    assert words in outcome.reason
    assert outcome_of_answer(PUZZLE, GRID, cells) == outcome
