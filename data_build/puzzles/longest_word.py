"""Longest Word: the longest word that steps down and right spell from a given cell.

Edit-Compass, appendix A.3.1. A draw is kept if the longest word that a search finds is the embedded one, found on one
path, and there is no second one of its length. Dictionaries list few inflected forms; a draw in which adding an ending
to a word gives as long a one is left out as well, since it would be a fair answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from data_build.puzzles.puzzle import Outcome
from data_build.puzzles.word_grids import WordGrid, WordGridPuzzle, paths_of, words_in
from data_build.puzzles.words import SHORTEST
from gnomon.errors import UserError
from gnomon.records import Text

ENDINGS = ("S", "ES", "D", "ED", "ING")
"""Of plurals and verbs."""


@dataclass(frozen=True)
class LongestWord(WordGridPuzzle):
    """The puzzle.

    Attributes:
        lengths: fewest and most letters of the word.
        least_letters: of a shorter word that counts as suboptimal.
    """

    lengths: tuple[int, int] = (7, 12)
    least_letters: int = 3

    task = "longest_word"

    def __post_init__(self) -> None:
        """Refuse settings that no grid can have.

        Raises:
            UserError: names the setting.
        """
        super().__post_init__()
        if not SHORTEST <= self.least_letters <= self.lengths[0]:
            raise UserError(
                f"expected least_letters from {SHORTEST} to the fewest letters of lengths, {self.lengths[0]}, got "
                f"{self.least_letters}"
            )

    def sample(self, rng: random.Random) -> WordGrid | None:
        """Draw a grid whose longest word is the embedded one."""
        instance = self.embed(rng)
        return None if instance is None else self.searched(instance)

    def searched(self, instance: WordGrid) -> WordGrid | None:
        """Return a grid with all its shorter words; None where its word is not the only longest one."""
        found = words_in(instance.letters, self.starts(instance), self.word_list())
        others = sorted(word for word in found if word != instance.word and len(word) >= self.least_letters)
        if any(len(word) >= len(instance.word) for word in others) or self._has_ending(instance, found):
            return None
        return instance.model_copy(update={"others": others})

    def _has_ending(self, instance: WordGrid, found: Iterable[str]) -> bool:
        """Say whether a word with an ending can be traced that is as long as the embedded one."""
        return any(
            paths_of(instance.letters, word + ending, self.starts(instance))
            for word in found
            for ending in ENDINGS
            if len(word + ending) >= len(instance.word) and word + ending != instance.word
        )

    def instruct(self, instance: WordGrid) -> Text:
        """Return the instruction."""
        return Text(
            en="Starting at the green cell, move only down or right, one cell at a time, so that the letters along the "
            "path, the green cell's first, spell an English word. Find the longest such word, and highlight every cell "
            "of its path in yellow. Change nothing else.",
            zh="从绿色格子出发，每次只能向下或向右移动一格，使途经的字母（从绿色格子的字母开始）依次拼成一个英文单词。"
            "找出这样能拼成的最长单词，并用黄色标出其路径上的每个格子。不要改动其他任何内容。",
        )

    def judge(self, instance: WordGrid, word: str) -> Outcome:
        """Compare with the longest word."""
        if word == instance.word:
            return Outcome("correct", f"the path spells the longest word, {word}")
        if word in instance.others:
            return Outcome("suboptimal", f"the path spells {word}, the longest word is {instance.word}")
        return Outcome("invalid", f"the path spells {word}, which is not among the grid's words")
