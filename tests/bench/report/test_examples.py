"""Which cases are shown: the best and the worst, each once, and the same ones every time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.folder import JudgeFile
from bench.report.examples import best_and_worst, evenly_spread
from bench.scores import headline_metric

MEANS = {"b": 1.0, "a": 1.0, "d": 0.25, "c": 0.25, "e": 0.5}


def test_ties_are_in_the_order_of_their_ids() -> None:
    assert best_and_worst(MEANS, 4) == (["a", "b"], ["c", "d"])
    assert best_and_worst(MEANS, 3) == (["a", "b"], ["c"])


@given(st.dictionaries(st.text(min_size=1), st.floats(0, 1)), st.integers(0, 20))
def test_no_case_is_best_and_worst_and_none_outside_is_better_or_worse(means: dict[str, float], count: int) -> None:
    best, worst = best_and_worst(means, count)
    assert len(best) + len(worst) == min(count, len(means)) or len(means) < count
    assert not set(best) & set(worst)
    rest = means.keys() - {*best, *worst}
    assert all(means[good] >= means[other] >= means[bad] for other in rest for good in best for bad in worst)


def test_a_spread_begins_with_the_first_and_keeps_the_order() -> None:
    assert evenly_spread(["a", "b", "c", "d", "e", "f"], 3) == ["a", "c", "e"]
    assert evenly_spread(["a", "b"], 5) == ["a", "b"]
    assert evenly_spread(["a"], 0) == []


def test_the_headline_is_overall_then_the_first_derived_then_the_first() -> None:
    judge = JudgeFile(name="j", judge_class="j", fingerprint="j", metrics=["following", "quality"])
    assert headline_metric(judge, ["following", "quality", "mean", "overall"]) == "overall"
    assert headline_metric(judge, ["following", "quality", "mean", "awareness"]) == "mean"
    assert headline_metric(judge, ["following", "quality"]) == "following"
    assert headline_metric(judge, []) is None
