"""The interaction graph and the position graph of a scene: what is wrong with them, and what follows from them.

A cycle of positions is a contradiction, see :mod:`bench.cogcanvas.positions`. Source: Nguyen et al. 2026 (arXiv
2606.15867), section 3.4. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.cogcanvas.cases import INVERSE, Interaction, Position
from bench.cogcanvas.positions import cycles, forward
from data_build.cogcanvas.entries import name_key
from data_build.cogcanvas.vocabulary import RELATION_IN_WORDS

ProblemKind = Literal[
    "absent_person",
    "alone",
    "contradictory_positions",
    "contradictory_interactions",
    "unplaced_person",
    "no_interaction",
]


@dataclass(frozen=True)
class GraphProblem:
    """What is wrong with a graph."""

    kind: ProblemKind
    message: str


@dataclass(frozen=True)
class Graphs:
    """Two graphs with names as the scene has them, each edge once."""

    interactions: tuple[Interaction, ...]
    positions: tuple[Position, ...]


def graph_problems(
    people: Sequence[str], interactions: Sequence[Interaction], positions: Sequence[Position]
) -> list[GraphProblem]:
    """Return everything that is wrong with two graphs.

    Args:
        people: names of those in the scene.
        interactions: as somebody wrote them.
        positions: likewise.
    """
    known = {name_key(name) for name in people}
    edges = [(edge.first, edge.second) for edge in interactions]
    edges += [(edge.first, edge.second) for edge in positions]
    problems = [
        GraphProblem("absent_person", f"{name} is not in the scene")
        for name in dict.fromkeys(name for edge in edges for name in edge if name_key(name) not in known)
    ]
    problems += [
        GraphProblem("alone", f"{first} is set against themselves")
        for first, second in edges
        if name_key(first) == name_key(second)
    ]
    problems += _contradictions(positions)
    problems += _one_sided(interactions)
    placed = {name_key(name) for edge in positions for name in (edge.first, edge.second)}
    problems += [
        GraphProblem("unplaced_person", f"nothing is said about where {name} is")
        for name in people
        if name_key(name) not in placed
    ]
    if not interactions:
        problems.append(GraphProblem("no_interaction", "no two people do anything together"))
    return problems


def stated(people: Sequence[str], interactions: Sequence[Interaction], positions: Sequence[Position]) -> Graphs:
    """Return the edges that were stated, with the scene's own names, each once in one direction.

    Positions are written from left to right and from front to back; of a mutual interaction the first mention stays.

    Args:
        people: names of those in the scene.
        interactions: without problems, see :func:`graph_problems`.
        positions: likewise.
    """
    own = {name_key(name): name for name in people}
    together: dict[tuple[object, str], Interaction] = {}
    for edge in interactions:
        first, second = own[name_key(edge.first)], own[name_key(edge.second)]
        ends = frozenset((first, second)) if edge.is_mutual else (first, second)
        action = " ".join(edge.action.split())
        together.setdefault(
            (ends, action.casefold()),
            Interaction(first=first, second=second, action=action, is_mutual=edge.is_mutual),
        )
    placed = dict.fromkeys(
        (own[name_key(first)], relation, own[name_key(second)]) for first, relation, second in forward(positions)
    )
    return Graphs(
        tuple(together.values()),
        tuple(Position(first=first, relation=relation, second=second) for first, relation, second in placed),
    )


def completed(graphs: Graphs) -> Graphs:
    """Return stated edges with what follows: mutual interactions both ways, and the inverse of each position."""
    turned = [
        edge.model_copy(update={"first": edge.second, "second": edge.first})
        for edge in graphs.interactions
        if edge.is_mutual
    ]
    inverse = [
        Position(first=edge.second, relation=INVERSE[edge.relation], second=edge.first) for edge in graphs.positions
    ]
    return Graphs((*graphs.interactions, *turned), (*graphs.positions, *inverse))


def _contradictions(positions: Sequence[Position]) -> list[GraphProblem]:
    """Return a cycle of each of the two orders, where there is one, with names as they were written last."""
    written = {name_key(name): name for edge in positions for name in (edge.first, edge.second)}
    keyed = [
        edge.model_copy(update={"first": name_key(edge.first), "second": name_key(edge.second)}) for edge in positions
    ]
    return [
        GraphProblem(
            "contradictory_positions", f" {RELATION_IN_WORDS[relation]} ".join(written[name] for name in cycle)
        )
        for relation, cycle in cycles(keyed).items()
    ]


def _one_sided(interactions: Sequence[Interaction]) -> list[GraphProblem]:
    """Return interactions that are said to be mutual and not to be."""
    mutual: dict[tuple[frozenset[str], str], set[bool]] = {}
    for edge in interactions:
        key = (frozenset((name_key(edge.first), name_key(edge.second))), name_key(edge.action))
        mutual.setdefault(key, set()).add(edge.is_mutual)
    return [
        GraphProblem(
            "contradictory_interactions", f"{' and '.join(sorted(ends))} are {action}: together, and not together"
        )
        for (ends, action), said in mutual.items()
        if len(said) > 1
    ]
