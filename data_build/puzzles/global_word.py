"""Global Word: the path of steps down and right that spells a given word, from anywhere in the grid.

Edit-Compass, appendix A.3.10 (Global Word Path Recovery). Draws in which several paths spell the word are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from data_build.puzzles.word import Word
from data_build.puzzles.word_grids import WordGrid
from gnomon.records import Text


@dataclass(frozen=True)
class GlobalWord(Word):
    """The puzzle."""

    task = "global_word"
    start_given = False

    def instruct(self, instance: WordGrid) -> Text:
        """Return the instruction."""
        word = instance.word
        return Text(
            en=f"Somewhere in the grid, a path of steps down or right, one cell at a time, spells {word}. Highlight "
            "every cell of this path in yellow, the first one included. Change nothing else.",
            zh=f"网格中有一条每次只向下或向右移动一格的路径，其字母依次拼成单词{word}。"
            "用黄色标出该路径上的每个格子（包括起始格子）。不要改动其他任何内容。",
        )
