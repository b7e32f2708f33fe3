"""A comparison counts as a whole, apart for each number of candidates."""

from __future__ import annotations

from itertools import combinations

import pytest

from rm.rankings import ranking_figures
from rm.scorers import PairSample
from tests.rm.pair_samples import pair_sample


def _samples(name: str, correct: list[bool | None], size: int) -> list[PairSample]:
    sides = list(combinations(range(size), 2))
    assert len(sides) == len(correct)
    return [
        pair_sample(f"{name}:{i}-{j}", right, comparison=name, group=name, sides=(i, j))
        for (i, j), right in zip(sides, correct, strict=True)
    ]


def test_one_wrong_pair_makes_a_ranking_wrong() -> None:
    samples = [
        *_samples("a", [True], 2),
        *_samples("b", [False], 2),
        *_samples("c", [True, True, True], 3),
        *_samples("d", [True, False, True], 3),
        *_samples("e", [True, True, True], 3),
        *_samples("f", [True, None, True], 3),
        *_samples("g", [True] * 6, 4),
    ]
    figures = ranking_figures(samples)
    assert list(figures) == ["2", "3", "4"]
    assert figures["2"]["right"] == 0.5
    assert figures["3"]["right"] == pytest.approx(2 / 3)
    assert figures["3"]["ci_low"] < 2 / 3 < figures["3"]["ci_high"]
    assert (figures["3"]["n"], figures["3"]["failures"]) == (3, 1)
    assert figures["4"] == {"right": 1.0, "ci_low": None, "ci_high": None, "n": 1, "failures": 0}


def test_the_order_of_samples_does_not_matter() -> None:
    samples = [*_samples("a", [True, False, True], 3), *_samples("b", [True, True, True], 3)]
    assert ranking_figures(samples[::-1]) == ranking_figures(samples)


def test_nothing_scored_has_no_share() -> None:
    assert ranking_figures(_samples("a", [None], 2)) == {
        "2": {"right": None, "ci_low": None, "ci_high": None, "n": 0, "failures": 1}
    }
    assert ranking_figures([]) == {}
