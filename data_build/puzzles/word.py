"""Word: the path of steps down and right from a given cell that spells a given word.

Edit-Compass, appendix A.3.9 (Word Path Recovery). Draws in which several paths spell the word are left out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from data_build.puzzles.puzzle import Outcome
from data_build.puzzles.word_grids import WordGrid, WordGridPuzzle
from gnomon.records import Text


@dataclass(frozen=True)
class Word(WordGridPuzzle):
    """The puzzle."""

    task = "word"

    def sample(self, rng: random.Random) -> WordGrid | None:
        """Draw a grid with one path of the word."""
        return self.embed(rng)

    def instruct(self, instance: WordGrid) -> Text:
        """Return the instruction."""
        word = instance.word
        return Text(
            en=f"Starting at the green cell, move only down or right, one cell at a time, so that the letters along "
            f"the path, the green cell's first, spell {word}. Highlight every cell of this path in yellow. Change "
            "nothing else.",
            zh=f"从绿色格子出发，每次只能向下或向右移动一格，使途经的字母（从绿色格子的字母开始）依次拼成单词{word}。"
            "用黄色标出该路径上的每个格子。不要改动其他任何内容。",
        )

    def judge(self, instance: WordGrid, word: str) -> Outcome:
        """Compare with the word."""
        if word == instance.word:
            return Outcome("correct", f"the path spells {word}")
        return Outcome("invalid", f"the path spells {word}, not {instance.word}")
