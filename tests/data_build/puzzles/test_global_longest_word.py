from __future__ import annotations

import random
from pathlib import Path

import pytest

from data_build.puzzles.global_longest_word import GlobalLongestWord
from data_build.puzzles.word_grids import WordGrid
from gnomon.errors import UserError

GRID = WordGrid(
    letters=[
        "XZCAT",
        "ZQART",
        "HORSE",
        "AQJZX",
        "TXXXX",
    ],
    word="HORSE",
    start=(2, 0),
    others=["CART"],
)
"""HAT, down from the H, is too short to count; CART goes down and twice right."""


def puzzle(folder: Path, *words: str) -> GlobalLongestWord:
    path = folder / "words.txt"
    path.write_text("\n".join(words))
    return GlobalLongestWord(words=str(path), lengths=(5, 5))


@pytest.mark.parametrize(
    ("cells", "value", "reason"),
    [
        ({(2, 0), (2, 1), (2, 2), (2, 3), (2, 4)}, "correct", "the longest word, HORSE"),
        ({(0, 2), (1, 2), (1, 3), (1, 4)}, "suboptimal", "spells CART, the longest word is HORSE"),
        ({(2, 1), (2, 2), (2, 3), (2, 4)}, "invalid", "spells ORSE, which is not among"),
        ({(2, 0), (3, 0), (4, 0)}, "invalid", "spells HAT"),
        ({(2, 0), (2, 1), (2, 3), (2, 4)}, "invalid", "no step down or right leads from row 3, column 2"),
        (set(), "invalid", "no cell is highlighted"),
    ],
)
def test_answers_are_told_apart(cells: set[tuple[int, int]], value: str, reason: str) -> None:
    outcome = GlobalLongestWord().check(GRID, frozenset(cells))

    assert outcome.value == value
    assert reason in outcome.reason


def test_words_from_all_cells_count(tmp_path: Path) -> None:
    assert puzzle(tmp_path, "horse", "cart", "hat", "ars").searched(GRID) == GRID
    # CARTE goes on below the T.
    assert puzzle(tmp_path, "horse", "carte").searched(GRID) is None


def test_an_ending_anywhere_counts(tmp_path: Path) -> None:
    # The S below the T would make CARTS as long.
    grid = WordGrid(letters=[*GRID.letters[:2], "HORNS", *GRID.letters[3:]], word="HORNS", start=(2, 0))

    assert puzzle(tmp_path, "horns", "cart").searched(grid) is None
    assert puzzle(tmp_path, "horns").searched(grid) == grid


def test_every_sampled_grid_has_one_longest_word() -> None:
    sampler, rng = GlobalLongestWord(lengths=(7, 8)), random.Random(0)
    words = set(sampler.word_list().words)
    instances = [instance for _ in range(12) if (instance := sampler.sample(rng)) is not None]

    assert len(instances) > 6
    for instance in instances:
        spelt = every_spelling(instance.letters, len(instance.word) + 2)
        valid = [word for word in spelt if word in words]
        assert [word for word in valid if len(word) >= len(instance.word)] == [instance.word]
        assert sorted({word for word in valid if len(word) >= 4} - {instance.word}) == instance.others


def every_spelling(letters: list[str], longest: int) -> list[str]:
    """Return what each path of so many cells at most spells, with no dictionary to cut the search."""
    size = len(letters)
    level = [(row, column, letters[row][column]) for row in range(size) for column in range(size)]
    words = []
    for _ in range(longest):
        words += [word for *_, word in level]
        level = [
            (r, c, word + letters[r][c])
            for row, column, word in level
            for r, c in ((row + 1, column), (row, column + 1))
            if r < size and c < size
        ]
    return words


def test_least_letters_out_of_range_are_refused() -> None:
    with pytest.raises(UserError, match="least_letters from 3 to the fewest letters of lengths, 7"):
        GlobalLongestWord(least_letters=9)
