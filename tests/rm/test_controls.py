"""Control judges are what they say, and the same everywhere."""

from __future__ import annotations

import pytest

from rm.controls import control_differences
from rm.pairs import Pair


def pairs(labels: list[int]) -> list[Pair]:
    return [Pair(f"p{k}", "g", 0, 1, {"overall": label}, {"overall": None}) for k, label in enumerate(labels)]


def test_always_first_always_prefers_the_first() -> None:
    assert control_differences("always-first", pairs([1, -1, 0]), ["overall"]) == [{"overall": 1.0}] * 3


def test_random_is_fair_seeded_and_differs_between_dimensions() -> None:
    many = pairs([1] * 400)
    drawn = control_differences("random", many, ["overall", "quality"], seed=1)
    assert drawn == control_differences("random", many, ["overall", "quality"], seed=1)
    assert drawn != control_differences("random", many, ["overall", "quality"], seed=2)
    assert {value for values in drawn for value in values.values()} == {-1.0, 1.0}
    assert abs(sum(values["overall"] for values in drawn)) < 80
    assert any(values["overall"] != values["quality"] for values in drawn)


@pytest.mark.parametrize(("labels", "expected"), [([1, 1, -1], 1), ([-1, -1, 1], -1), ([0, 0, 1], 0), ([0, 1, -1], 1)])
def test_majority_gives_the_commonest_label(labels: list[int], expected: int) -> None:
    assert control_differences("majority", pairs(labels), ["overall"]) == [{"overall": expected}] * 3


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="always-first, random, majority"):
        control_differences("oracle", [], [])
