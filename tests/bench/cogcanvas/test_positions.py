"""Cycles of positions: each of the two orders for itself, and the same one in every process."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cogcanvas.cases import Position
from bench.cogcanvas.positions import cycles, forward

# Two cycles through Ann and Dee at the end of other edges: Python's sets of these names differ with the hash seed.
EDGES = "Dee Eve, Ann Eve, Dee Ann, Ann Dee, Bob Ann, Dee Cy"


def positions(edges: str, relation: str = "left_of") -> list[Position]:
    pairs = [edge.split() for edge in edges.split(", ")]
    return [Position.model_validate({"first": one, "relation": relation, "second": other}) for one, other in pairs]


def test_positions_are_told_from_left_to_right_and_from_front_to_back() -> None:
    some = [*positions("Ann Bob"), *positions("Ann Bob", "right_of"), *positions("Ann Bob", "behind")]
    assert forward(some) == [
        ("Ann", "left_of", "Bob"),
        ("Bob", "left_of", "Ann"),
        ("Bob", "in_front_of", "Ann"),
    ]


@pytest.mark.parametrize(
    ("some", "expected"),
    [
        ([], {}),
        (positions("Ann Bob, Bob Cy, Ann Cy"), {}),
        ([*positions("Ann Bob"), *positions("Bob Ann", "in_front_of")], {}),
        ([*positions("Ann Bob"), *positions("Bob Ann", "right_of")], {}),  # the same twice
        (positions("Ann Bob, Bob Cy, Cy Ann"), {"left_of": {"Ann", "Bob", "Cy"}}),
        ([*positions("Ann Bob"), *positions("Ann Bob", "right_of")], {"left_of": {"Ann", "Bob"}}),
        (positions("Ann Bob, Bob Ann", "behind"), {"in_front_of": {"Ann", "Bob"}}),
        (positions("Ann Ann"), {}),
    ],
)
def test_a_cycle_of_either_order_is_found(some: list[Position], expected: dict[str, set[str]]) -> None:
    found = cycles(some)
    assert {relation: set(names) for relation, names in found.items()} == expected
    edges = forward(some)
    for relation, names in found.items():
        assert names[0] == names[-1]
        assert all((one, relation, other) in edges for one, other in itertools.pairwise(names))


def test_the_cycle_is_the_same_in_every_process(repository: Path) -> None:
    """A draft is known by a hash of what was wrong with the one before; by another cycle it would be written anew."""
    program = f"from tests.bench.cogcanvas.test_positions import *\nprint(cycles(positions({EDGES!r})))"
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=repository,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "2")
    }
    assert len(told) == 1
    assert "left_of" in told.pop()
