from __future__ import annotations

import random
from pathlib import Path

import pytest

from data_build.puzzles.longest_word import LongestWord
from data_build.puzzles.word_grids import WordGrid
from gnomon.errors import UserError

GRID = WordGrid(
    letters=[
        "XCAT",
        "ZART",
        "QSTX",
        "JXXX",
    ],
    word="CART",
    start=(0, 1),
    others=["CAR", "CAT"],
)
"""CART goes down, right, down; so does CAR. CAT goes right. CAS goes down twice."""


def puzzle(folder: Path, *words: str) -> LongestWord:
    path = folder / "words.txt"
    path.write_text("\n".join(words))
    return LongestWord(words=str(path), lengths=(4, 4))


@pytest.mark.parametrize(
    ("cells", "value", "reason"),
    [
        ({(0, 1), (1, 1), (1, 2), (2, 2)}, "correct", "the longest word, CART"),
        ({(1, 1), (1, 2), (2, 2)}, "correct", "the longest word, CART"),
        ({(0, 1), (1, 1), (1, 2)}, "suboptimal", "spells CAR, the longest word is CART"),
        ({(0, 2), (0, 3)}, "suboptimal", "spells CAT, the longest word is CART"),
        ({(1, 1), (2, 1)}, "invalid", "spells CAS, which is not among"),
        ({(1, 1), (1, 2), (2, 2), (3, 2)}, "invalid", "spells CARTX"),
        ({(0, 1)}, "invalid", "no cell but the start"),
        (set(), "invalid", "no cell but the start"),
        ({(0, 1), (1, 1), (2, 2)}, "invalid", "no step down or right leads from row 2, column 2 to row 3, column 3"),
        ({(0, 0), (0, 2)}, "invalid", "the path starts at row 1, column 1, not at the green cell, row 1, column 2"),
        ({(0, 1), (0, 2), (1, 1)}, "invalid", "no step down or right"),
    ],
)
def test_answers_are_told_apart(cells: set[tuple[int, int]], value: str, reason: str) -> None:
    outcome = LongestWord().check(GRID, frozenset(cells))

    assert outcome.value == value
    assert reason in outcome.reason


def test_the_solution_is_the_words_path() -> None:
    assert LongestWord().solve(GRID) == {(0, 1), (1, 1), (1, 2), (2, 2)}


def test_a_grid_is_kept_with_its_shorter_words(tmp_path: Path) -> None:
    kept = puzzle(tmp_path, "cart", "car", "cat", "cab", "art").searched(GRID)

    # ART does not start at the start.
    assert kept == GRID


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("cart", "catt"), "a second word of its length"),
        (("cart", "cartx"), "a longer word"),
    ],
)
def test_a_grid_with_another_longest_word_is_left_out(words: tuple[str, ...], why: str, tmp_path: Path) -> None:
    assert puzzle(tmp_path, *words).searched(GRID) is None, why


@pytest.mark.parametrize("ending", ["S", "ES", "D", "ED", "ING"])
def test_a_grid_with_an_ending_that_makes_as_long_a_word_is_left_out(ending: str, tmp_path: Path) -> None:
    row = ("ART" + ending).ljust(7, "X")
    grid = WordGrid(letters=[row, *["X" * 7] * 6], word="ART", start=(0, 0))
    harmless = grid.model_copy(update={"letters": ["ARTXXXX", *grid.letters[1:]]})

    assert puzzle(tmp_path, "art").searched(grid) is None
    assert puzzle(tmp_path, "art").searched(harmless) == harmless


def test_every_sampled_grid_has_one_longest_word(tmp_path: Path) -> None:
    sampler, rng = LongestWord(), random.Random(0)
    words = set(sampler.word_list().words)
    instances = [instance for _ in range(40) if (instance := sampler.sample(rng)) is not None]

    assert len(instances) > 25
    for instance in instances:
        spelt = every_spelling(instance.letters, instance.start)
        valid = [word for word in spelt if word in words]
        assert [word for word in valid if len(word) >= len(instance.word)] == [instance.word]
        assert sorted(set(valid) - {instance.word}) == instance.others


def every_spelling(letters: list[str], start: tuple[int, int]) -> list[str]:
    """Return what each path from the start spells, with no dictionary to cut the search."""
    row, column = start
    size, beginnings = len(letters), [letters[row][column]]
    level = [(row, column, letters[row][column])]
    while level:
        level = [
            (r, c, word + letters[r][c])
            for row, column, word in level
            for r, c in ((row + 1, column), (row, column + 1))
            if r < size and c < size
        ]
        beginnings += [word for *_, word in level]
    return beginnings


@pytest.mark.parametrize("least", [2, 8])
def test_least_letters_out_of_range_are_refused(least: int) -> None:
    with pytest.raises(UserError, match="least_letters from 3 to the fewest letters of lengths, 7"):
        LongestWord(least_letters=least)
