"""The ten algorithmic puzzles of Edit-Compass: drawn, solved, put into words, and verified from pixels.

Each puzzle is one file with one class, see :class:`data_build.puzzles.puzzle.Puzzle`. `build` writes cases, `verify`
says whether an edited picture holds the right answer.
"""
