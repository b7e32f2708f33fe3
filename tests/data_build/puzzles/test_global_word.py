from __future__ import annotations

import random
from pathlib import Path

import pytest

from data_build.puzzles.global_word import GlobalWord
from data_build.puzzles.word_grids import WordGrid, cells_of, paths_of

GRID = WordGrid(letters=["XXXX", "XCAT", "ZXXX", "QJXC"], word="CAT", start=(1, 1))


@pytest.mark.parametrize(
    ("cells", "value", "reason"),
    [
        ({(1, 1), (1, 2), (1, 3)}, "correct", "the path spells CAT"),
        ({(1, 2), (1, 3)}, "invalid", "spells AT, not CAT"),
        ({(1, 1), (1, 2), (2, 2)}, "invalid", "spells CAX, not CAT"),
        ({(1, 1), (1, 3)}, "invalid", "no step down or right leads from row 2, column 2 to row 2, column 4"),
        ({(1, 1), (1, 2), (1, 3), (3, 3)}, "invalid", "no step down or right leads from row 2, column 4"),
        (set(), "invalid", "no cell is highlighted"),
    ],
)
def test_answers_are_told_apart(cells: set[tuple[int, int]], value: str, reason: str) -> None:
    outcome = GlobalWord().check(GRID, frozenset(cells))

    assert outcome.value == value
    assert reason in outcome.reason


def test_a_word_is_spelt_once_in_the_whole_grid(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("aaa\naba")
    puzzle, rng = GlobalWord(words=str(tmp_path / "words.txt"), lengths=(3, 3)), random.Random(0)
    draws = [puzzle.sample(rng) for _ in range(60)]
    kept = [instance for instance in draws if instance is not None]

    assert 20 < len(kept) < 60
    assert all(len(paths_of(grid.letters, grid.word, cells_of(grid.letters))) == 1 for grid in kept)
