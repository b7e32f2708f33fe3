"""Orders of models by several judges: by hand, with scipy, and the orders that MDMR-Bench prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy.stats import kendalltau, pearsonr, spearmanr

from bench.report.examples import JudgedRun
from bench.statistics.ratings import Bootstrap
from bench.studies.reranking import reranking
from gnomon.records import Case

FEW = Bootstrap(num_resamples=200)
PRINTED = yaml.safe_load((Path(__file__).parent / "printed.yaml").read_text(encoding="utf-8"))
MakeCase = Callable[..., Case]
MakeRun = Callable[..., JudgedRun]
HEADLINES = {"first": "overall", "second": "overall"}


def runs_of(
    tables: Mapping[str, np.ndarray], cases: list[Case], make_run: MakeRun, names: str = "abcd"
) -> list[JudgedRun]:
    """Return a run for each row of the judges' tables [models, cases]."""
    return [
        make_run(
            name,
            cases,
            {
                judge: {"overall": {case.id: float(value) for case, value in zip(cases, table[place], strict=True)}}
                for judge, table in tables.items()
            },
        )
        for place, name in enumerate(names)
    ]


def test_orders_agree_with_scipy_and_swapped_pairs_are_named(make_case: MakeCase, make_run: MakeRun) -> None:
    generator = np.random.default_rng(0)
    cases = [make_case(f"c{k}", benchmark="grey") for k in range(30)]
    first = np.array([[0.9], [0.7], [0.5], [0.3]]) + generator.normal(0, 0.02, (4, 30))
    second = np.array([[0.6], [0.8], [0.5], [0.1]]) + generator.normal(0, 0.02, (4, 30))
    found = reranking(runs_of({"first": first, "second": second}, cases, make_run), HEADLINES, FEW)
    assert found is not None
    assert (found.models, found.num_cases, found.num_left_out) == (["a", "b", "c", "d"], 30, 0)
    assert found.orders["first"].ranks == [1, 2, 3, 4]
    assert found.orders["second"].ranks == [2, 1, 3, 4]
    assert found.orders["second"].means == pytest.approx(second.mean(axis=1))
    (one,) = found.agreements
    assert one.swapped == [("a", "b")]
    means = first.mean(axis=1), second.mean(axis=1)
    for kind, oracle in (("pearson", pearsonr), ("spearman", spearmanr), ("kendall_tau_b", kendalltau)):
        agreement = one.correlations[kind]
        assert agreement.value == pytest.approx(oracle(*means).statistic)
        assert agreement.value is not None
        assert agreement.ci_low is not None
        assert agreement.ci_high is not None
        assert agreement.ci_low <= agreement.value <= agreement.ci_high


def test_models_are_ordered_by_the_benchmarks_own_mean(make_case: MakeCase, make_run: MakeRun) -> None:
    """Nine easy cases of one sub-task weigh as much as one hard one of another: the plain mean would say otherwise."""
    cases = [make_case(f"texture {k}") for k in range(9)] + [make_case("hair", subtask="hair")]
    table = np.array([[0.6] * 9 + [0.6], [0.7] * 9 + [0.3]])
    found = reranking(runs_of({"first": table, "second": table}, cases, make_run, "ab"), HEADLINES, FEW)
    assert found is not None
    assert found.orders["first"].means == pytest.approx([0.6, 0.5])
    assert found.orders["first"].ranks == [1, 2]
    assert table.mean(axis=1)[1] > 0.6
    assert found.agreements[0].correlations["spearman"].reason is not None, "a sub-task of one case has no spread"


def test_only_cases_that_every_judge_scored_everywhere_count(make_case: MakeCase, make_run: MakeRun) -> None:
    cases = [make_case(name, benchmark="grey") for name in "xyz"]
    runs = [
        make_run("a", cases, {"first": {"overall": {"x": 1.0, "y": 0.0, "z": 1.0}}, "second": {"overall": {"x": 1.0}}}),
        make_run(
            "b",
            cases,
            {"first": {"overall": {"x": 0.5, "y": 1.0}}, "second": {"overall": {"x": 0.5, "y": "refused"}}},
        ),
    ]
    found = reranking(runs, HEADLINES, FEW)
    assert found is not None
    assert (found.num_cases, found.num_left_out, found.orders["first"].means) == (1, 2, [1.0, 0.5])
    nothing = [make_run("a", cases, {"first": {"overall": {"x": 1.0}}, "second": {"overall": {"y": 1.0}}})]
    assert reranking(nothing, HEADLINES, FEW) is None


def test_the_printed_orders_of_two_judges(make_case: MakeCase, make_run: MakeRun) -> None:
    """The top three stay by GPT-5.4 as judge; equal printed scores share a rank."""
    default, other = PRINTED["overall"], PRINTED["overall_by_gpt_5_4"]
    shared = [model for model in default if model in other]
    assert shared == ["GPT-Image-2", "Nano Banana Pro", "Nano Banana 2"]
    assert list(other.values()) == sorted(other.values(), reverse=True)
    cases: Any = [make_case("all", benchmark="grey")]
    runs = [
        make_run(
            model, cases, {"first": {"overall": {"all": default[model]}}, "second": {"overall": {"all": other[model]}}}
        )
        for model in shared
    ]
    found = reranking(runs, HEADLINES, FEW)
    assert found is not None
    assert found.agreements[0].swapped == []
    assert found.agreements[0].correlations["spearman"].value == 1
    alone = [make_run(model, cases, {"first": {"overall": {"all": value}}}) for model, value in default.items()]
    ranked = reranking(alone, {"first": "overall"}, FEW)
    assert ranked is not None
    assert ranked.orders["first"].ranks == [1, 2, 3, 4, 5, 6.5, 6.5, 8]
