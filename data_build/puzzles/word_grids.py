"""Grids of letters with a word on a path of steps down and right: what the four word puzzles share.

Edit-Compass, appendices A.3.1, A.3.2, A.3.9 and A.3.10: a start from which the word fits, a random path, random capital
letters in all other cells, and mostly rare ones after the end of the word. Our choices, where the paper is silent: all
lengths of a range alike often, then all words of that length; grids of half the word's length and `added_size` cells
per side, `least_size` at least; nine in ten of the cells after the end are rare letters. The paper prefers words of
several parts; here long ones stand for them, and a list of one's own may hold what one likes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from PIL import Image
from pydantic import Field, model_validator

from data_build.puzzles.changes import Change, Colour
from data_build.puzzles.grid import (
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
from data_build.puzzles.paths import monotone_path, steps
from data_build.puzzles.puzzle import InvalidEditError, Outcome
from data_build.puzzles.words import SHORTEST, WordList, load_words
from gnomon.errors import UserError
from gnomon.records import Record

RARE = "XZQJ"
"""Letters that seldom go on with a word."""


class WordGrid(Record):
    """Letters by row, a word on exactly one path from its start, and the shorter words that can be formed as well.

    `others` is kept so that an answer can be checked without the list of words; only puzzles that ask for the longest
    word have any.
    """

    letters: list[str]
    word: str = Field(min_length=SHORTEST)
    start: Cell
    others: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _holds_the_word(self) -> WordGrid:
        size = len(self.letters)
        if any(len(row) != size for row in self.letters):
            raise ValueError(f"expected as many letters a row as rows, {size}, got {self.letters}")
        if self.start not in cells_of(self.letters) or not paths_of(self.letters, self.word, [self.start]):
            raise ValueError(f"expected the word {self.word!r} on a path from its start {self.start}, got none")
        return self


@dataclass(frozen=True)
class WordGridPuzzle:
    """What the four puzzles share; their settings are its fields.

    Attributes:
        words: path of a text file with one word a line; None for the list of the package english-words.
        lengths: fewest and most letters of the word.
        least_size: cells per side, at least.
        added_size: cells per side beyond half the word's letters; 1 at least, or no path has room.
        blocking: share of the cells after the end of the word that get a rare letter.
    """

    words: str | None = None
    lengths: tuple[int, int] = (4, 10)
    least_size: int = 6
    added_size: int = 4
    blocking: float = 0.9

    task = ""
    instance_class = WordGrid
    start_given = True
    """Whether the picture shows the start, so that it need not be highlighted."""

    def __post_init__(self) -> None:
        """Refuse settings that no grid can have.

        Raises:
            UserError: names the setting.
        """
        low, high = self.lengths
        if not SHORTEST <= low <= high:
            raise UserError(f"expected lengths of {SHORTEST} or more letters, the fewest first, got {low} and {high}")
        if self.least_size < 2 or self.added_size < 1:
            raise UserError(
                f"expected least_size >= 2 and added_size >= 1, got {self.least_size} and {self.added_size}"
            )
        if not 0 <= self.blocking <= 1:
            raise UserError(f"expected blocking from 0 to 1, got {self.blocking}")

    def word_list(self) -> WordList:
        """Return the words that are drawn from.

        Raises:
            UserError: for a list that cannot be read, or has no words.
        """
        return load_words(self.words)

    def embed(self, rng: random.Random) -> WordGrid | None:
        """Draw a word and a grid with it; None where it can be traced in several ways from where it may start.

        Raises:
            UserError: for a list without words of these lengths.
        """
        words = self.word_list()
        word = rng.choice(words.by_length[rng.choice(words.lengths_within(*self.lengths))])
        path, letters = _embedded(word, max(self.least_size, len(word) // 2 + self.added_size), self.blocking, rng)
        instance = WordGrid(letters=letters, word=word, start=path[0])
        return instance if len(paths_of(letters, word, self.starts(instance))) == 1 else None

    def starts(self, instance: WordGrid) -> list[Cell]:
        """Return the cells that an answer may start at."""
        return [instance.start] if self.start_given else cells_of(instance.letters)

    def solve(self, instance: WordGrid) -> frozenset[Cell]:
        """Return the cells of the word."""
        return frozenset(paths_of(instance.letters, instance.word, [instance.start])[0])

    def render(
        self,
        instance: WordGrid,
        resolution: int,
        answer: frozenset[Cell] | None = None,
        *,
        colour: Colour | None = None,
    ) -> Image.Image:
        """Draw the letters, with the start in green where it is given; the cells of an answer are highlighted."""
        layout = Layout(len(instance.letters), resolution)
        texts = {(row, column): instance.letters[row][column] for row, column in layout.cells()}
        image = draw_grid(layout, fills={instance.start: START_FILL} if self.start_given else {}, texts=texts)
        return image if answer is None else highlight(image, layout, answer, colour or YELLOW)

    def describe(self, instance: WordGrid) -> str:
        """Return the word and its path."""
        path = sorted(self.solve(instance), key=sum)
        return f"The cells (row, column) {steps(path)} are highlighted in yellow; they spell {instance.word}."

    def markers(self, instance: WordGrid) -> dict[str, Colour]:
        """Return the highlighter's colour."""
        return {"yellow": YELLOW}

    def read(self, instance: WordGrid, change: Change) -> frozenset[Cell]:
        """Return the highlighted cells."""
        return highlighted_cells(change, len(instance.letters))

    def check(self, instance: WordGrid, answer: frozenset[Cell]) -> Outcome:
        """Spell what is highlighted; a given start itself need not be, it stands out already."""
        given = {instance.start} if self.start_given else set()
        if not answer - given:
            return Outcome("invalid", f"no cell{' but the start' if given else ''} is highlighted")
        try:
            path = monotone_path(answer | given)
        except InvalidEditError as error:
            return Outcome("invalid", str(error))
        if given and path[0] != instance.start:
            return Outcome(
                "invalid", f"the path starts at {name_of(path[0])}, not at the green cell, {name_of(instance.start)}"
            )
        return self.judge(instance, spelt(instance.letters, path))

    def judge(self, instance: WordGrid, word: str) -> Outcome:
        """Say what a path that spells `word` is worth."""
        raise NotImplementedError

    def spoil(self, instance: WordGrid, rng: random.Random) -> dict[str, frozenset[Cell]]:
        """Return cells that are no path, paths that spell no word, and, where there is one, a shorter word."""
        size, best = len(instance.letters), self.solve(instance)
        last = max(best, key=sum)
        spoilt = spoilt_cells(best, size, rng) | {
            "one_letter_short": best - {last},
            "one_letter_long": best | {rng.choice(onward(last, size) or [instance.start])},
            "other_path": frozenset(_random_path(instance.start, len(best), size, rng)),
            "other_start": frozenset(_random_path(_random_start(len(best), size, rng), len(best), size, rng)),
        }
        if instance.others:
            spoilt["shorter_word"] = frozenset(
                paths_of(instance.letters, rng.choice(instance.others), self.starts(instance))[0]
            )
        # A given start stands out anyway: without it the answer is still right.
        given = {instance.start} if self.start_given else set()
        return {kind: cells for kind, cells in spoilt.items() if cells and cells | given != best}


def cells_of(letters: Sequence[str]) -> list[Cell]:
    """Return all cells, row by row."""
    return [(row, column) for row in range(len(letters)) for column in range(len(letters))]


def onward(cell: Cell, size: int) -> list[Cell]:
    """Return the cells below and to the right."""
    row, column = cell
    return [(r, c) for r, c in ((row + 1, column), (row, column + 1)) if r < size and c < size]


def spelt(letters: Sequence[str], path: Iterable[Cell]) -> str:
    """Return the letters along a path."""
    return "".join(letters[row][column] for row, column in path)


def paths_of(letters: Sequence[str], word: str, starts: Iterable[Cell]) -> list[list[Cell]]:
    """Return all paths of steps down and right that spell a word from one of the starts."""
    paths = [[cell] for cell in starts if letters[cell[0]][cell[1]] == word[0]]
    for letter in word[1:]:
        paths = [
            [*path, (row, column)]
            for path in paths
            for row, column in onward(path[-1], len(letters))
            if letters[row][column] == letter
        ]
    return paths


def words_in(letters: Sequence[str], starts: Iterable[Cell], words: WordList) -> Counter[str]:
    """Return the words that paths of steps down and right spell from the starts, with the number of their paths."""
    found: Counter[str] = Counter()
    open_ = [(cell, letters[cell[0]][cell[1]], 0) for cell in starts]
    while open_:
        cell, beginning, at = open_.pop()
        at = words.first_from(beginning, at)
        if at == len(words.words) or not words.words[at].startswith(beginning):
            continue
        if words.words[at] == beginning:
            found[beginning] += 1
        open_ += [((row, column), beginning + letters[row][column], at) for row, column in onward(cell, len(letters))]
    return found


def _embedded(word: str, size: int, blocking: float, rng: random.Random) -> tuple[list[Cell], list[str]]:
    """Return a random path of the word and rows of letters with the word on it."""
    path = _random_path(_random_start(len(word), size, rng), len(word), size, rng)
    letters = {(row, column): rng.choice(ascii_uppercase) for row in range(size) for column in range(size)}
    letters |= {cell: rng.choice(RARE) for cell in onward(path[-1], size) if rng.random() < blocking}
    letters |= dict(zip(path, word, strict=True))
    return path, ["".join(letters[row, column] for column in range(size)) for row in range(size)]


def _random_start(length: int, size: int, rng: random.Random) -> Cell:
    """Return a cell with room for a path of so many cells."""
    steps_left = 2 * (size - 1)
    return rng.choice(
        [(row, column) for row in range(size) for column in range(size) if steps_left - row - column >= length - 1]
    )


def _random_path(start: Cell, length: int, size: int, rng: random.Random) -> list[Cell]:
    """Return a path of so many cells, or up to the last cell."""
    path = [start]
    while len(path) < length and (cells := onward(path[-1], size)):
        path.append(rng.choice(cells))
    return path
