"""Which cases are shown: the best and the worst, each once, and the same ones every time."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bench.benchmarks import Score
from bench.folder import BenchRun, JudgeFile, RunConfig
from bench.report.examples import JudgedRun, best_and_worst, checklist_tables, evenly_spread, scores_of_candidate
from bench.scores import headline_metric
from gnomon.records import Candidate, Case, Question, Text, Verdict

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


def test_what_a_judge_says_that_does_not_look_stands_beside_no_picture(tmp_path: Path) -> None:
    case = Case(
        id="c",
        benchmark="b",
        task="t",
        instruction=Text(en="x"),
        questions=[Question(id="q", text=Text(en="q"), dimension="attribute")],
    )
    config = RunConfig(generator="g", generator_class="g", generator_fingerprint=None, repeats=1, limit=None)
    run = BenchRun(tmp_path, tmp_path, config, 0, "d", 1, {"c": case}, [("c", 0)])
    judges = [
        JudgeFile(name=name, judge_class="j", fingerprint=name, metrics=[], asks_questions=True, looks=name == "seeing")
        for name in ("seeing", "blind")
    ]
    verdicts = {
        (judge.name, "q"): {
            ("c", 0): Verdict(case_id="c", generator="g", metric="q", value=1.0, rationale="why", judge=judge.name)
        }
        for judge in judges
    }
    scores = {judge.name: {"share": {("c", 0): Score(1.0)}} for judge in judges}
    judged = JudgedRun(run, "g", judges, verdicts, scores)
    candidate = Candidate(case_id="c", generator="g", seed=0, path="p.png")
    assert scores_of_candidate(judged, candidate) == {"share": 1.0}
    assert ["seeing" in str(table.caption) for table in checklist_tables(judged, case, candidate)] == [True]
