from __future__ import annotations

import random
from pathlib import Path

import pytest

from data_build.puzzles.word import Word
from data_build.puzzles.word_grids import WordGrid, paths_of

GRID = WordGrid(
    letters=[
        "CATX",
        "XXTC",
        "ZXXA",
        "QJXT",
    ],
    word="CAT",
    start=(0, 0),
)
"""Another CAT goes down from row 2, column 4."""


@pytest.mark.parametrize(
    ("cells", "value", "reason"),
    [
        ({(0, 0), (0, 1), (0, 2)}, "correct", "the path spells CAT"),
        ({(0, 1), (0, 2)}, "correct", "the path spells CAT"),
        ({(0, 0), (0, 1)}, "invalid", "spells CA, not CAT"),
        ({(0, 0), (0, 1), (0, 2), (1, 2)}, "invalid", "spells CATT, not CAT"),
        ({(0, 0), (0, 1), (1, 1)}, "invalid", "spells CAX, not CAT"),
        ({(1, 3), (2, 3), (3, 3)}, "invalid", "no step down or right leads from row 1, column 1 to row 2, column 4"),
        ({(0, 2)}, "invalid", "no step down or right leads from row 1, column 1 to row 1, column 3"),
        ({(0, 0)}, "invalid", "no cell but the start"),
    ],
)
def test_answers_are_told_apart(cells: set[tuple[int, int]], value: str, reason: str) -> None:
    outcome = Word().check(GRID, frozenset(cells))

    assert outcome.value == value
    assert reason in outcome.reason


def test_the_words_are_those_of_the_list_and_spelt_once_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("banana\nlilac\nrhododendron")
    puzzle, rng = Word(words=str(tmp_path / "words.txt")), random.Random(0)
    instances = [instance for _ in range(40) if (instance := puzzle.sample(rng)) is not None]

    assert {instance.word for instance in instances} == {"BANANA", "LILAC"}
    assert all(len(paths_of(instance.letters, instance.word, [instance.start])) == 1 for instance in instances)
    assert all(instance.others == [] for instance in instances)
