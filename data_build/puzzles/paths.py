"""Paths over cells: monotone ones as marked cells, and free ones as cells with the links between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from data_build.puzzles.grid import Cell, name_of
from data_build.puzzles.puzzle import InvalidEditError


def monotone_path(cells: Iterable[Cell]) -> list[Cell]:
    """Return marked cells as a path of steps down and right.

    Raises:
        InvalidEditError: says where they are none.
    """
    path = sorted(cells, key=lambda cell: (sum(cell), cell))
    for first, second in pairwise(path):
        if (second[0] - first[0], second[1] - first[1]) not in ((1, 0), (0, 1)):
            raise InvalidEditError(f"no step down or right leads from {name_of(first)} to {name_of(second)}")
    return path


def linked_path(cells: frozenset[Cell], links: frozenset[frozenset[Cell]], start: Cell, end: Cell) -> list[Cell]:
    """Return marked cells as a path along their links, from `start` to `end`.

    Raises:
        InvalidEditError: for a gap, a branch, and marks beside the path.
    """
    path, last = [start], None
    while path[-1] != end:
        here = path[-1]
        onward = [cell for link in links if here in link for cell in link - {here} if cell != last]
        if len(onward) != 1:
            raise InvalidEditError(f"the line {'ends' if not onward else 'branches'} at {name_of(here)}")
        if onward[0] in path:
            raise InvalidEditError(f"the line meets itself at {name_of(onward[0])}")
        last = here
        path.append(onward[0])
    beside = cells - set(path)
    if beside or len(links) > len(path) - 1:
        where = f"at {name_of(min(beside))}" if beside else "between its cells"
        raise InvalidEditError(f"there are marks beside the line, {where}")
    return path


def best_monotone_paths(start: Cell, end: Cell, value: Callable[[Cell], int]) -> tuple[int, int, list[Cell]]:
    """Return the largest sum over a path of steps down and right, how many paths have it, and one of them."""
    best: dict[Cell, tuple[int, int, Cell | None]] = {start: (value(start), 1, None)}
    for row in range(start[0], end[0] + 1):
        for column in range(start[1], end[1] + 1):
            here = (row, column)
            before = [cell for cell in ((row - 1, column), (row, column - 1)) if cell in best]
            if here == start or not before:
                continue
            top = max(best[cell][0] for cell in before)
            ties = [cell for cell in before if best[cell][0] == top]
            best[here] = top + value(here), sum(best[cell][1] for cell in ties), ties[0]
    path: list[Cell] = [end]
    while (previous := best[path[-1]][2]) is not None:
        path.append(previous)
    return best[end][0], best[end][1], path[::-1]


def steps(path: Sequence[Cell]) -> str:
    """Return a path in words, for judges: "(1, 1) (1, 2) ...", counted from 1."""
    return " ".join(f"({row + 1}, {column + 1})" for row, column in path)
