from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_build.puzzles.grid import Cell
from data_build.puzzles.maximum_bonus import BonusGrid, MaximumBonus
from tests.data_build.puzzles.examples import instances, outcome_of_answer

PUZZLE = MaximumBonus()
GRID = BonusGrid(
    numbers=[[1, 9, 0, -5, 2], [0, 4, 3, 1, 1], [2, 2, -1, 8, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]],
    start=(0, 0),
    end=(2, 3),
)
BEST = frozenset({(0, 0), (0, 1), (1, 1), (1, 2), (1, 3), (2, 3)})


def test_the_best_path_is_the_one_by_hand() -> None:
    assert PUZZLE.solve(GRID) == BEST
    assert PUZZLE.describe(GRID).endswith("their sum is 26.")


@given(st.integers(0, 10_000))
def test_draws_keep_the_paper_s_ranges(seed: int) -> None:
    (instance,) = instances(PUZZLE, 1, seed)
    size = len(instance.numbers)
    down, right = instance.end[0] - instance.start[0], instance.end[1] - instance.start[1]

    assert 5 <= size <= 12
    assert all(len(row) == size and all(-5 <= number <= 9 for number in row) for row in instance.numbers)
    assert down >= 1
    assert right >= 1
    assert down + right >= 3


@pytest.mark.parametrize(
    ("cells", "value", "words"),
    [
        (BEST, "correct", "largest sum, 26"),
        (BEST - {(0, 0), (2, 3)}, "correct", "largest sum"),
        ({(0, 0), (0, 1), (1, 1), (2, 1), (2, 2), (2, 3)}, "suboptimal", "the path's sum is 23, the best one's 26"),
        (set(), "invalid", "no cell between"),
        ({(0, 0), (2, 3)}, "invalid", "no cell between"),
        (BEST - {(1, 2)}, "invalid", "no step down or right leads from row 2, column 2 to row 2, column 4"),
        (BEST | {(2, 4)}, "invalid", "to row 3, column 5"),
        (BEST | {(3, 0)}, "invalid", "no step down or right"),
    ],
)
def test_answers_are_checked_by_the_rules(cells: set[Cell], value: str, words: str) -> None:
    outcome = PUZZLE.check(GRID, frozenset(cells))

    assert outcome.value == value
    assert words in outcome.reason


@pytest.mark.parametrize("cells", [BEST, BEST - {(0, 0), (2, 3)}, BEST - {(1, 2)}])
def test_a_picture_is_worth_what_its_answer_is(cells: frozenset[Cell]) -> None:
    assert outcome_of_answer(PUZZLE, GRID, cells) == PUZZLE.check(GRID, cells)


def test_going_beyond_the_end_is_no_answer() -> None:
    assert PUZZLE.check(GRID, BEST | {(2, 4)}).value == "invalid"
    assert "goes from row 1, column 1 to row 3, column 5" in PUZZLE.check(GRID, BEST | {(2, 4)}).reason
