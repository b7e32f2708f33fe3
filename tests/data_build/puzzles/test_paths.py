"""Paths are read from cells and links, and the best monotone one is found."""

from __future__ import annotations

import random
from itertools import pairwise

import networkx
import pytest

from data_build.puzzles.grid import Cell
from data_build.puzzles.paths import best_monotone_paths, linked_path, monotone_path, steps
from data_build.puzzles.puzzle import InvalidEditError

PATH: list[Cell] = [(0, 0), (0, 1), (1, 1), (2, 1)]


def linked(*pairs: tuple[Cell, Cell]) -> frozenset[frozenset[Cell]]:
    return frozenset(frozenset(pair) for pair in pairs)


def test_cells_in_any_order_are_a_monotone_path() -> None:
    assert monotone_path(set(PATH)) == PATH


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([(0, 0), (1, 1)], "from row 1, column 1 to row 2, column 2"),
        ([(0, 0), (0, 2)], "from row 1, column 1 to row 1, column 3"),
        ([(0, 1), (1, 0)], "from row 1, column 2 to row 2, column 1"),
        ([*PATH, (1, 0)], "no step down or right"),
    ],
)
def test_where_cells_are_no_monotone_path_is_named(cells: list[Cell], words: str) -> None:
    with pytest.raises(InvalidEditError, match=words):
        monotone_path(cells)


def test_links_are_followed_from_start_to_end() -> None:
    assert linked_path(frozenset(PATH), linked(*pairwise(PATH)), (0, 0), (2, 1)) == PATH
    assert linked_path(frozenset(PATH), linked(*pairwise(PATH)), (2, 1), (0, 0)) == PATH[::-1]


@pytest.mark.parametrize(
    ("more", "pairs", "words"),
    [
        ([], [(PATH[0], PATH[1]), (PATH[2], PATH[3])], "the line ends at row 1, column 2"),
        ([(0, 2)], [*pairwise(PATH), ((0, 1), (0, 2))], "the line branches at row 1, column 2"),
        ([(5, 5)], [*pairwise(PATH)], "marks beside the line, at row 6, column 6"),
        ([(0, 5), (0, 6)], [*pairwise(PATH), ((0, 5), (0, 6))], "marks beside the line"),
        ([], [], "the line ends at row 1, column 1"),
    ],
)
def test_gaps_branches_and_strays_are_named(more: list[Cell], pairs: list[tuple[Cell, Cell]], words: str) -> None:
    with pytest.raises(InvalidEditError, match=words):
        linked_path(frozenset([*PATH, *more]), linked(*pairs), PATH[0], PATH[-1])


def test_a_line_that_closes_before_the_end_meets_itself() -> None:
    square: list[Cell] = [(0, 1), (0, 2), (1, 2), (1, 1)]
    pairs = [((0, 0), (0, 1)), *pairwise(square)]

    with pytest.raises(InvalidEditError, match="branches at row 1, column 2"):
        linked_path(frozenset([(0, 0), *square]), linked(*pairs, (square[-1], square[0])), (0, 0), (4, 4))


@pytest.mark.parametrize("seed", range(20))
def test_the_best_monotone_sum_and_its_ties_equal_all_paths_of_networkx(seed: int) -> None:
    rng = random.Random(seed)
    numbers = {(row, column): rng.randint(-2, 2) for row in range(4) for column in range(4)}
    graph = networkx.DiGraph()
    for row, column in numbers:
        graph.add_edges_from(
            ((row, column), below) for below in ((row + 1, column), (row, column + 1)) if below in numbers
        )
    sums = [sum(map(numbers.__getitem__, path)) for path in networkx.all_simple_paths(graph, (0, 0), (3, 3))]

    total, ties, path = best_monotone_paths((0, 0), (3, 3), numbers.__getitem__)

    assert (total, ties) == (max(sums), sums.count(max(sums)))
    assert sum(map(numbers.__getitem__, path)) == total
    assert monotone_path(path) == path


def test_steps_are_counted_from_one() -> None:
    assert steps([(0, 0), (1, 0)]) == "(1, 1) (2, 1)"
