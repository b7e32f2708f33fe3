"""How far judges agree: alpha of decisions and of scores, with an independent library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import krippendorff
import numpy as np
import pytest

from bench.folder import JudgeFile
from bench.report.examples import JudgedRun
from bench.statistics.ratings import Bootstrap
from bench.studies.judge_agreement import judge_agreement
from gnomon.records import Case, Question, Text, Verdict

LEVELS: dict[str, Any] = {"ordinal": "ordinal", "interval": "interval"}
FEW = Bootstrap(num_resamples=100)
MakeCase = Callable[..., Case]
MakeRun = Callable[..., JudgedRun]


def judge_file(name: str, **changes: Any) -> JudgeFile:
    return JudgeFile(name=name, judge_class="x", fingerprint=name, metrics=[], **changes)


def verdict(judge: str, case_id: str, question: str, value: float | None) -> Verdict:
    status: Any = "ok" if value is not None else "refused"
    return Verdict(case_id=case_id, generator="a", metric=question, value=value, status=status, judge=judge)


def test_alpha_of_decisions_of_judges_that_look(make_case: MakeCase, make_run: MakeRun) -> None:
    generator = np.random.default_rng(0)
    names = [f"following-{k}" for k in range(3)]
    questions = [Question(id=name, text=Text(en="?"), dimension="following") for name in names]
    cases = [make_case(f"c{k}", questions=questions) for k in range(20)]
    table = generator.random((3, 20, 3)) * 0.2 + 0.8 * (generator.random((20, 3)) < 0.6)  # probabilities of yes
    table[0, 3, 1] = np.nan
    judges = [judge_file(name, asks_questions=True) for name in ("one", "two", "three")]
    judges.append(judge_file("always-yes", asks_questions=True, looks=False))
    verdicts = {
        (judge.name, name): {
            (case.id, 0): verdict(judge.name, case.id, name, None if np.isnan(value) else float(value))
            for k, case in enumerate(cases)
            for value in [table[place, k, column] if judge.looks else 1.0]
        }
        for place, judge in enumerate(judges)
        for column, name in enumerate(names)
    }
    scores: dict[str, Any] = {judge.name: {} for judge in judges}
    run = make_run("a", cases, scores, judges=judges, verdicts=verdicts)
    found = judge_agreement([run], judges, FEW)["checklist"]
    assert found.judges == ["one", "two", "three"]
    seen = np.where(np.isnan(table), np.nan, table >= 0.5).reshape(3, -1)
    expected = krippendorff.alpha(reliability_data=seen, level_of_measurement="nominal")
    assert found.decisions["alpha"].value == pytest.approx(expected)
    assert (found.decisions["alpha"].n_items, found.decisions["alpha"].n_raters) == (60, 3)
    assert found.failed["one"] == {"refused": 1}
    assert list(judge_agreement([run], judges, FEW)) == ["checklist"]


def test_scores_of_both_protocols_stand_side_by_side(make_case: MakeCase, make_run: MakeRun) -> None:
    generator = np.random.default_rng(1)
    cases = [make_case(f"c{k}") for k in range(25)]
    table = generator.integers(1, 6, 25)[None] / 5 + generator.integers(-1, 2, (4, 25)) / 5
    names = ("asks", "asks too", "scores", "scores too")
    scores = {
        name: {"overall": {case.id: float(value) for case, value in zip(cases, table[place], strict=True)}}
        for place, name in enumerate(names)
    }
    del scores["scores"]["overall"]["c7"]
    judges = [judge_file(name, asks_questions=name.startswith("asks")) for name in names]
    judges[2:] = [JudgeFile(name=name, judge_class="x", fingerprint=name, metrics=["overall"]) for name in names[2:]]
    found = judge_agreement([make_run("a", cases, scores, judges=judges)], judges, FEW)
    assert list(found) == ["checklist", "score"]
    assert found["score"].failed == {"scores": {"pending": 1}, "scores too": {}}
    table[2, 7] = np.nan
    for protocol, rows in (("checklist", table[:2]), ("score", table[2:])):
        for level, one in found[protocol].metrics["overall"].items():
            expected = krippendorff.alpha(reliability_data=rows, level_of_measurement=LEVELS[level])
            assert one.value == pytest.approx(expected)


def test_a_lone_judge_agrees_with_nobody(make_case: MakeCase, make_run: MakeRun) -> None:
    cases = [make_case(f"c{k}") for k in range(3)]
    run = make_run("a", cases, {"j": {"overall": {case.id: 0.5 for case in cases}}})
    one = judge_agreement([run], run.judges, FEW)["score"].metrics["overall"]["interval"]
    assert (one.value, one.reason) == (None, "no item has ratings of two raters")
