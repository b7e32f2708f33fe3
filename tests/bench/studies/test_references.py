"""Numbers and origins of references: by hand, and the printed changes of MDMR-Bench."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from bench.report.examples import JudgedRun
from bench.statistics.ratings import Bootstrap
from bench.studies.reference_counts import ALL_MODELS, reference_counts
from bench.studies.reference_origins import pairs_of, reference_origins
from gnomon.errors import UserError
from gnomon.records import CLEAN_SOURCE, Case, Reference

FEW = Bootstrap(num_resamples=300)
PRINTED = yaml.safe_load((Path(__file__).parent / "printed.yaml").read_text(encoding="utf-8"))
MakeCase = Callable[..., Case]
MakeRun = Callable[..., JudgedRun]


def test_a_curve_by_the_number_of_references(make_case: MakeCase, make_run: MakeRun) -> None:
    cases = [make_case(f"{count}-{k}", num_references=count) for count in (2, 3, 4) for k in range(10)]
    noise = np.random.default_rng(0).normal(0, 0.01, (2, len(cases)))
    scores = [
        {case.id: 0.9 - 0.05 * len(case.references) - 0.2 * place + noise[place, k] for k, case in enumerate(cases)}
        for place in range(2)
    ]
    del scores[1]["4-9"]
    runs = [make_run(name, cases, {"j": {"overall": found}}) for name, found in zip("ab", scores, strict=True)]
    found = reference_counts(runs, "j", ["overall"], FEW)
    first, second, both = (found[name]["overall"] for name in ("a", "b", ALL_MODELS))
    assert list(first.points) == ["2", "3", "4"]
    assert first.points["3"].value == pytest.approx(np.mean([scores[0][f"3-{k}"] for k in range(10)]))
    assert first.points["3"].n == 10
    assert second.num_left_out == both.num_left_out == 1
    assert both.change is not None
    expected = [
        np.mean([(scores[0][f"{n}-{k}"] + scores[1][f"{n}-{k}"]) / 2 for k in range(c)]) for n, c in ((2, 10), (4, 9))
    ]
    assert both.change.value == pytest.approx(expected[1] - expected[0])
    assert both.change.ci_low is not None
    assert both.change.ci_high is not None
    assert both.change.ci_low < both.change.value < both.change.ci_high < 0


def test_a_reference_that_only_judges_see_is_not_counted_and_one_number_has_no_change(
    make_case: MakeCase, make_run: MakeRun
) -> None:
    case = make_case("x", num_references=2)
    shown = case.model_copy(update={"references": [*case.references, Reference(path="c.png", role=CLEAN_SOURCE)]})
    curve = reference_counts([make_run("a", [shown], {"j": {"overall": {"x": 0.5}}})], "j", ["overall"], FEW)["a"][
        "overall"
    ]
    assert (list(curve.points), curve.change) == (["2"], None)
    assert curve.points["2"].ci_low is None


def paired(make_case: MakeCase, number: int) -> list[Case]:
    return [
        make_case(f"{origin}-{k}", meta={"reference_origin": origin, "pair_id": f"pair-{k}"})
        for origin in ("real", "synthetic")
        for k in range(number)
    ]


def test_the_printed_changes_and_gaps_of_two_models(make_case: MakeCase, make_run: MakeRun) -> None:
    """Scores of 100 pairs around the printed means give back the printed changes and the printed gap."""
    cases = paired(make_case, 100)
    spread = np.random.default_rng(0).normal(0, 0.05, 100)
    spread -= spread.mean()
    runs = []
    for name, (real, synthetic, _) in PRINTED["reference_origin"].items():
        means = {"real": real / 100, "synthetic": synthetic / 100}
        scores = {case.id: means[case.id.split("-")[0]] + spread[int(case.id.split("-")[1])] for case in cases}
        runs.append(make_run(name, cases, {"j": {"overall": scores}}))
    found = reference_origins(runs, "j", ["overall"], FEW)
    assert found.num_pairs == 100
    for name, (real, synthetic, change) in PRINTED["reference_origin"].items():
        one = found.models["overall"][name]
        assert [one.real, one.synthetic] == pytest.approx([real / 100, synthetic / 100])
        assert one.change is not None
        assert round(100 * one.change.value, 2) == change
        assert one.change.ci_low == pytest.approx(one.change.value), "what pairs share cancels"
    (gap,) = found.gaps["overall"].values()
    assert [round(100 * (value or 0.0), 2) for value in (gap.real, gap.synthetic)] == PRINTED["reference_origin_gap"]
    assert list(found.gaps["overall"]) == ["Nano Banana Pro minus Seedream 5.0"]


def test_pairs_without_a_score_are_counted_and_cases_without_a_partner_are_in_none(
    make_case: MakeCase, make_run: MakeRun
) -> None:
    cases = [*paired(make_case, 3), make_case("lonely", meta={"pair_id": "alone"}), make_case("plain")]
    scores: dict[str, Any] = {case.id: 0.5 for case in cases} | {"synthetic-1": "refused"}
    found = reference_origins([make_run("a", cases, {"j": {"overall": scores}})], "j", ["overall"], FEW)
    assert (found.num_pairs, found.models["overall"]["a"].num_left_out) == (3, 1)
    nothing = reference_origins([make_run("a", cases, {"j": {"overall": {}}})], "j", ["overall"], FEW)
    assert (nothing.models["overall"]["a"].change, nothing.models["overall"]["a"].num_left_out) == (None, 3)
    with pytest.raises(UserError, match="there is no such pair"):
        reference_origins([make_run("a", cases[-2:], {"j": {"overall": {}}})], "j", ["overall"], FEW)


def test_three_cases_of_one_pair_are_named(make_case: MakeCase) -> None:
    cases = [make_case(name, meta={"pair_id": "p"}) for name in ("one", "two")]
    with pytest.raises(UserError, match="one case with real references of pair 'p', got 'one' and 'two'"):
        pairs_of({case.id: case for case in cases})
