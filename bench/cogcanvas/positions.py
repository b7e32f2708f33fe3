"""Where people are to each other: two strict orders, from left to right and from front to back.

A cycle in one of them is a contradiction. Source: Nguyen et al. 2026 (arXiv 2606.15867), section 3.4, which has the
position graph; the orders are ours. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

from bench.cogcanvas.cases import INVERSE, Position, Relation

FORWARD: tuple[Relation, ...] = ("left_of", "in_front_of")
"""One relation of each order; the other two are their inverses."""


def forward(positions: Iterable[Position]) -> list[tuple[str, Relation, str]]:
    """Return positions by the forward relation of their order: first, relation, second."""
    return [
        (edge.first, edge.relation, edge.second)
        if edge.relation in FORWARD
        else (edge.second, INVERSE[edge.relation], edge.first)
        for edge in positions
    ]


def cycles(positions: Iterable[Position]) -> dict[Relation, list[str]]:
    """Return a cycle of each order that has one, by its forward relation.

    The same positions in the same order give the same cycle, in every process.

    Args:
        positions: any; those of a person to themselves are not looked at.

    Returns:
        Names, each of which is before the next one; the last is the first again.
    """
    edges, found = forward(positions), {}
    for relation in FORWARD:
        before: dict[str, dict[str, None]] = {}  # a set would have another order in each process
        for first, of, second in edges:
            if of == relation and first != second:
                before.setdefault(second, {})[first] = None
        try:
            TopologicalSorter(before).prepare()
        except CycleError as error:
            # graphlib lists each node before the one that it precedes.
            found[relation] = list(error.args[1])
    return found
