"""Two judges on the same pairs: differences by hand, and what happens to pairs that one of them failed on."""

from __future__ import annotations

import pytest

from gnomon.statistics import mcnemar
from rm.comparing import paired_accuracy
from rm.scorers import PairSample
from tests.rm.pair_samples import pair_sample

Answers = dict[str, bool | None]


def judge(answers: Answers, dimension: str = "overall", label: int = 1) -> list[PairSample]:
    return [
        pair_sample(name, right, dimension=dimension, group=f"g{name}", label=label) for name, right in answers.items()
    ]


BEFORE = judge({"a": True, "b": False, "c": None, "d": False})
AFTER = judge({"a": True, "b": True, "c": True, "d": None, "e": True})


def test_pairs_that_one_judge_failed_on_are_left_out_or_wrong() -> None:
    dropped = paired_accuracy(BEFORE, AFTER)["average"]
    assert (dropped["value"], dropped["n"], dropped["left_out"]) == (0.5, 2, 2)
    wrong = paired_accuracy(BEFORE, AFTER, failed_wrong=True)["average"]
    assert (wrong["value"], wrong["n"], wrong["left_out"]) == (0.5, 4, 0)
    assert wrong["mcnemar"] == vars(mcnemar([1, 0, 0, 0], [1, 1, 1, 0]))
    assert wrong["ci_low"] <= wrong["value"] <= wrong["ci_high"]


def test_ties_count_by_the_tie_rule_and_not_in_the_strict_accuracy() -> None:
    before, after = (judge({"t": right}, label=0) for right in (False, True))
    assert paired_accuracy(BEFORE + before, AFTER + after)["average"]["value"] == pytest.approx(2 / 3)
    assert paired_accuracy(BEFORE + before, AFTER + after, decided_only=True)["average"]["n"] == 2


def test_dimensions_have_rows_of_their_own() -> None:
    before = BEFORE + judge({"a": True}, "quality")
    after = AFTER + judge({"a": False}, "quality")
    found = paired_accuracy(before, after)
    assert {name: row["value"] for name, row in found["dimensions"].items()} == {"overall": 0.5, "quality": -1.0}
    assert found["average"]["value"] == 0
    nothing = paired_accuracy(BEFORE, judge({"z": True}))
    assert nothing == {"average": None, "dimensions": {}}
