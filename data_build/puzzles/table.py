"""All puzzles, by task."""

from __future__ import annotations

from data_build.puzzles.convex_hull import ConvexHull
from data_build.puzzles.global_longest_word import GlobalLongestWord
from data_build.puzzles.global_word import GlobalWord
from data_build.puzzles.knapsack import Knapsack
from data_build.puzzles.longest_word import LongestWord
from data_build.puzzles.maximum_bonus import MaximumBonus
from data_build.puzzles.maximum_submatrix import MaximumSubmatrix
from data_build.puzzles.numberlink import Numberlink
from data_build.puzzles.optimal_path import OptimalPath
from data_build.puzzles.puzzle import AnyPuzzle
from data_build.puzzles.word import Word

PUZZLES: dict[str, type[AnyPuzzle]] = {
    puzzle.task: puzzle
    for puzzle in (
        Knapsack,
        ConvexHull,
        MaximumBonus,
        MaximumSubmatrix,
        Numberlink,
        OptimalPath,
        LongestWord,
        GlobalLongestWord,
        Word,
        GlobalWord,
    )
}
