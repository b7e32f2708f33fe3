"""Global Longest Word: the longest word that steps down and right spell from any cell.

Edit-Compass, appendix A.3.2. Draws are kept as those of Longest Word are, after a search from every cell.
"""

from __future__ import annotations

from dataclasses import dataclass

from data_build.puzzles.longest_word import LongestWord
from data_build.puzzles.word_grids import WordGrid
from gnomon.records import Text


@dataclass(frozen=True)
class GlobalLongestWord(LongestWord):
    """The puzzle; `least_letters` is larger, since short words are everywhere."""

    least_letters: int = 4

    task = "global_longest_word"
    start_given = False

    def instruct(self, instance: WordGrid) -> Text:
        """Return the instruction."""
        return Text(
            en="Starting at any cell, move only down or right, one cell at a time, so that the letters along the path "
            "spell an English word. Find the longest such word in the grid, and highlight every cell of its path in "
            "yellow, the first one included. Change nothing else.",
            zh="从任意格子出发，每次只能向下或向右移动一格，使途经的字母依次拼成一个英文单词。找出网格中这样能拼成的最长单词，"
            "并用黄色标出其路径上的每个格子（包括起始格子）。不要改动其他任何内容。",
        )
