"""Graphs: contradictions against networkx, and what follows from what was stated."""

from __future__ import annotations

import itertools

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.cogcanvas.cases import Interaction, Position
from data_build.cogcanvas.graphs import completed, graph_problems, stated

PEOPLE = ["Ann", "Bob", "Cy", "Dee", "Eve"]
pairs = st.tuples(st.sampled_from(PEOPLE), st.sampled_from(PEOPLE)).filter(lambda pair: pair[0] != pair[1])
relations = st.sampled_from(["left_of", "right_of", "in_front_of", "behind"])
positions_of = st.lists(
    st.builds(lambda pair, relation: Position(first=pair[0], relation=relation, second=pair[1]), pairs, relations),
    max_size=9,
)


def position(first: str, relation: str, second: str) -> Position:
    return Position.model_validate({"first": first, "relation": relation, "second": second})


def together(first: str, second: str, action: str = "hugging", *, mutual: bool = True) -> Interaction:
    return Interaction(first=first, second=second, action=action, is_mutual=mutual)


@settings(max_examples=150, deadline=None)
@given(positions=positions_of)
def test_positions_contradict_each_other_exactly_where_networkx_finds_a_cycle(positions: list[Position]) -> None:
    horizontal, depth = nx.DiGraph(), nx.DiGraph()
    for edge in positions:
        ends = (edge.first, edge.second) if edge.relation in ("left_of", "in_front_of") else (edge.second, edge.first)
        (horizontal if edge.relation in ("left_of", "right_of") else depth).add_edge(*ends)
    expected = sum(not nx.is_directed_acyclic_graph(graph) for graph in (horizontal, depth))
    problems = graph_problems(PEOPLE, [together("Ann", "Bob")], positions)
    assert sum(problem.kind == "contradictory_positions" for problem in problems) == expected


@settings(max_examples=50, deadline=None)
@given(positions=positions_of)
def test_a_complete_graph_has_the_inverse_of_every_position_and_no_edge_twice(positions: list[Position]) -> None:
    found = completed(stated(PEOPLE, [], positions)).positions
    edges = {(edge.first, edge.relation, edge.second) for edge in found}
    inverse = {"left_of": "right_of", "right_of": "left_of", "in_front_of": "behind", "behind": "in_front_of"}
    assert {(second, inverse[relation], first) for first, relation, second in edges} == edges
    assert len(edges) == len(found)
    assert edges >= {(edge.first, edge.relation, edge.second) for edge in positions}


def test_a_cycle_is_told_in_its_own_direction() -> None:
    positions = [position("Ann", "left_of", "Bob"), position("Cy", "right_of", "Bob"), position("Cy", "left_of", "Ann")]
    (problem,) = list(graph_problems(PEOPLE[:3], [together("Ann", "Bob")], positions))
    assert problem.kind == "contradictory_positions"
    chain = problem.message.split(" to the left of ")
    assert chain[0] == chain[-1]
    assert {(one, other) for one, other in itertools.pairwise(chain)} == {
        ("Ann", "Bob"),
        ("Bob", "Cy"),
        ("Cy", "Ann"),
    }


def test_left_and_right_of_one_person_is_a_contradiction_and_left_and_in_front_is_none() -> None:
    both = [position("Ann", "left_of", "Bob"), position("Ann", "right_of", "Bob")]
    fine = [position("Ann", "left_of", "Bob"), position("Ann", "in_front_of", "Bob")]
    assert [one.kind for one in graph_problems(["Ann", "Bob"], [together("Ann", "Bob")], both)] == [
        "contradictory_positions"
    ]
    assert graph_problems(["Ann", "Bob"], [together("Ann", "Bob")], fine) == []


def test_absent_people_people_alone_and_people_nowhere_are_named() -> None:
    problems = graph_problems(
        ["Ann", "Bob", "Cy"],
        [together("Ann", "Zoe"), together("Ann", "Bob"), together("bob", "ann", mutual=False)],
        [position("ANN", "left_of", "Bob")],
    )
    assert {(one.kind, one.message) for one in problems} == {
        ("absent_person", "Zoe is not in the scene"),
        ("contradictory_interactions", "ann and bob are hugging: together, and not together"),
        ("unplaced_person", "nothing is said about where Cy is"),
    }
    assert [one.kind for one in graph_problems(["Ann", "Bob"], [], [position("Ann", "behind", "Bob")])] == [
        "no_interaction"
    ]


def test_edges_are_stated_once_with_the_names_of_the_scene() -> None:
    graphs = stated(
        ["Ann", "Bob"],
        [
            together("ann", "BOB", "Hugging"),
            together("Bob", "Ann", "hugging"),
            together("Ann", "Bob", "pushing", mutual=False),
        ],
        [position("ann", "left_of", "bob"), position("Bob", "right_of", "Ann"), position("Bob", "behind", "Ann")],
    )
    assert [(one.first, one.action, one.second) for one in graphs.interactions] == [
        ("Ann", "Hugging", "Bob"),
        ("Ann", "pushing", "Bob"),
    ]
    assert [(one.first, one.relation, one.second) for one in graphs.positions] == [
        ("Ann", "left_of", "Bob"),
        ("Ann", "in_front_of", "Bob"),
    ]


def test_what_is_mutual_goes_both_ways_and_what_is_not_does_not() -> None:
    graphs = stated(["Ann", "Bob"], [together("Ann", "Bob"), together("Ann", "Bob", "pushing", mutual=False)], [])
    assert [(one.first, one.action) for one in completed(graphs).interactions] == [
        ("Ann", "hugging"),
        ("Ann", "pushing"),
        ("Bob", "hugging"),
    ]
