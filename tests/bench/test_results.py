"""From scores to cells: every item is counted once, failures never become numbers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import benchmarks
from bench.aggregation import cell, metric_difference, metric_result
from bench.benchmarks import Benchmark, Score
from bench.folder import JudgeFile
from bench.results import (
    Item,
    JudgeResult,
    Results,
    RunComparison,
    count_candidates,
    difference,
    mean_by_case,
)
from bench.scores import all_scores
from bench.text import comparison_text, results_text
from gnomon.records import Candidate, Case, Status, Text, Verdict

STATUSES: list[Status] = ["ok", "parse_error", "refused", "missing_output", "not_applicable"]


def judge_file(metrics: list[str]) -> JudgeFile:
    return JudgeFile(name="j", judge_class="j", fingerprint="j", metrics=metrics)


def score(status: Status = "ok", value: float = 1.0) -> Score:
    return Score(value if status == "ok" else None, status)


def case(case_id: str, task: str = "t") -> Case:
    return Case(id=case_id, benchmark="b", task=task, instruction=Text(en="do"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([*STATUSES, None]), max_size=30))
def test_counts_add_up_whatever_happened(outcomes: list[Status | None]) -> None:
    items = [(f"case-{position // 2}", position % 2) for position in range(len(outcomes))]
    scores = {item: score(status) for item, status in zip(items, outcomes, strict=True) if status}
    result = cell(items, scores)
    assert result.n_total == len(items)
    assert result.n_total == result.n_scored + result.n_failed + result.n_na + result.n_pending
    assert result.n_failed == sum(result.failed.values())
    assert result.n_pending == outcomes.count(None)
    assert (result.value is None) == (outcomes.count("ok") == 0)


def test_a_mean_by_hand() -> None:
    items = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    scores = {
        ("a", 0): score(value=0.0),
        ("a", 1): score(value=0.5),
        ("b", 0): score(value=1.0),
        ("b", 1): score("refused"),
    }
    result = cell(items, scores)
    assert (result.value, result.ci_low, result.ci_high) == (0.5, 0.25, 1.0)  # both clusters a, and both b
    assert result.failed == {"refused": 1}


def test_tasks_split_the_items() -> None:
    cases = {"a": case("a", "x"), "b": case("b", "y")}
    items = [("a", 0), ("b", 0)]
    result = metric_result(items, {items[0]: score(value=0.25)}, cases)
    assert (result.value, result.groups["task"]["x"].value, result.groups["task"]["y"].value) == (0.25, 0.25, None)
    assert result.groups["task"]["y"].n_pending == 1


def test_a_case_counts_once_in_a_difference_however_many_repeats_it_has() -> None:
    before = mean_by_case({("a", seed): score(value=0.0) for seed in range(10)} | {
        ("b", 0): score(value=0.5)
    })  # fmt: skip
    result = difference(before, {"a": 1.0, "b": 0.5}, ["a", "b", "c"])
    assert (result.before, result.after, result.difference) == (0.25, 0.75, 0.5)
    assert (result.n_pairs, result.n_unpaired) == (2, 1)


def test_nothing_in_common_is_no_difference_and_no_number() -> None:
    result = metric_difference({("a", 0): score()}, {("b", 0): score()}, {"a": case("a"), "b": case("b")})
    assert result.difference is None
    assert (result.n_pairs, result.n_unpaired) == (0, 2)


def test_candidates_are_counted_by_status() -> None:
    candidates = [
        Candidate(case_id="a", generator="g", seed=0, path="a.png"),
        Candidate(case_id="b", generator="g", seed=0, path=None, status="refused"),
    ]
    assert count_candidates([("a", 0), ("b", 0), ("c", 0)], candidates) == {"ok": 1, "pending": 1, "refused": 1}


def test_tables_for_the_terminal_name_every_column() -> None:
    items = [("a", 0), ("b", 0)]
    cases = {"a": case("a"), "b": case("b")}
    metric = metric_result(items, {("a", 0): score(), ("b", 0): score("refused")}, cases)
    results = Results(
        generator="g",
        benchmarks=["b"],
        dataset="d",
        seed=0,
        repeats=1,
        num_cases=2,
        candidates={"ok": 2},
        judges={"who": JudgeResult(fingerprint="f", metrics={"m": metric})},
    )
    header, row = results_text(results).splitlines()
    assert header.split()[:3] == ["judge", "metric", "value"]
    assert row.split() == ["who", "m", "1.000", "no", "interval", "1", "of", "2", "1", "refused", "0", "0"]
    change = metric_difference({}, {}, cases)
    text = comparison_text(RunComparison(before="x", after="y", dataset="d", judges={"who": {"m": change}}))
    assert text.splitlines()[1].split() == ["who", "m", "–", "–", "–", "–", "0", "2"]


@pytest.mark.parametrize("value", [0.5, -2.0])
def test_one_case_has_a_value_and_no_interval(value: float) -> None:
    result = cell([("a", 0)], {("a", 0): score(value=value)})
    assert (result.value, result.ci_low, result.ci_high) == (value, None, None)


def parted(case: Case) -> dict[str, str]:
    return {"task": case.task, "half": case.task[0]}


@pytest.fixture
def two_halves(monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    """A benchmark of two halves, that takes the smaller of m and n as its overall score."""

    def smaller(case: Case, scores: Mapping[str, Score]) -> dict[str, Score]:
        if not {"m", "n"} <= set(scores):
            return {}
        failed = [found for found in scores.values() if found.value is None]
        values = [found.value for found in scores.values() if found.value is not None]
        return {"overall": failed[0] if failed else Score(min(values))}

    benchmark = Benchmark("b", "for tests", smaller, parted, {"half": frozenset("xy")})
    monkeypatch.setattr(benchmarks, "known_benchmarks", lambda: {"b": benchmark})
    return benchmark


@pytest.mark.usefixtures("two_halves")
def test_small_groups_count_in_the_macro_mean_and_a_missing_one_is_named() -> None:
    cases = {name: case(name, task) for name, task in (("a", "x1"), ("b", "x1"), ("c", "x2"))}
    items = [(name, 0) for name in cases]
    scores = {("a", 0): score(value=0.0), ("b", 0): score(value=0.2), ("c", 0): score(value=1.0)}
    result = metric_result(items, scores, cases)
    assert result.value == pytest.approx(0.4)
    assert result.macro == {"half": pytest.approx(0.4), "task": pytest.approx(0.55)}
    assert result.missing == {"half": ["y"], "task": []}
    assert result.is_partial
    whole = metric_result([*items, ("d", 0)], scores | {("d", 0): score()}, cases | {"d": case("d", "y1")})
    assert not whole.is_partial


@pytest.mark.usefixtures("two_halves")
def test_both_means_stand_in_the_terminal_with_their_intervals() -> None:
    cases = {
        f"{half}{number}": case(f"{half}{number}", half) for half in "xy" for number in range(20 if half == "x" else 5)
    }
    items = [(name, 0) for name in cases]
    scores = {item: score(value=float(int(item[0][1:]) % 2) + 3 * (item[0][0] == "y")) for item in items}
    result = metric_result(items, scores, cases)
    assert result.value == pytest.approx((10 + 17) / 25)
    assert result.macro["half"] == pytest.approx((0.5 + 3.4) / 2)
    estimate = result.macro_estimate("half")
    assert estimate is not None
    assert estimate.ci_low is not None
    assert estimate.ci_high is not None
    # Resampled inside the halves, whose distance is no doubt; over all cases it would be.
    assert result.ci_low is not None
    assert result.ci_high is not None
    assert estimate.ci_high - estimate.ci_low < result.ci_high - result.ci_low
    assert (estimate.n, estimate.num_clusters) == (2, 25)
    results = Results(
        generator="g",
        benchmarks=["b"],
        dataset="d",
        seed=0,
        repeats=1,
        num_cases=25,
        candidates={"ok": 25},
        judges={"who": JudgeResult(fingerprint="f", metrics={"m": result})},
    )
    ends = f"{estimate.ci_low:.3f} to {estimate.ci_high:.3f}"
    assert f"who, m: 1.950 ({ends}) is the mean of every half's mean" in results_text(results)
    assert Results.model_validate_json(results.model_dump_json()) == results


@pytest.mark.usefixtures("two_halves")
def test_a_group_whose_cases_do_not_apply_is_missing_and_not_zero() -> None:
    cases = {"a": case("a", "x"), "b": case("b", "y")}
    scores = {("a", 0): score(value=0.5), ("b", 0): score("not_applicable")}
    result = metric_result([("a", 0), ("b", 0)], scores, cases)
    assert (result.value, result.macro["half"], result.missing["half"]) == (0.5, 0.5, ["y"])
    assert result.groups["half"]["y"].n_na == 1


def test_a_group_whose_cases_do_not_list_the_metric_is_not_missing() -> None:
    cases = {"a": case("a", "x"), "b": case("b", "y"), "c": case("c", "z")}
    cases |= {name: cases[name].model_copy(update={"metrics": ["m"]}) for name in "ac"}
    scores = {("a", 0): score(value=0.5), ("b", 0): score("not_applicable"), ("c", 0): score("refused")}
    result = metric_result([(name, 0) for name in cases], scores, cases, metric="m")
    assert result.missing == {"task": ["z"]}


def test_repeats_have_a_mean_each_and_a_sample_deviation() -> None:
    items = [(name, seed) for seed in (3, 4) for name in "ab"]
    scores = {item: score(value=float(number)) for number, item in enumerate(items)}
    result = metric_result(items, scores, {"a": case("a"), "b": case("b")})
    assert result.seeds == {"3": 0.5, "4": 2.5}
    assert result.std == pytest.approx(2**0.5)
    assert metric_result(items[:2], scores, {"a": case("a"), "b": case("b")}).std is None


@pytest.mark.usefixtures("two_halves")
def test_what_a_benchmark_derives_stands_beside_what_was_judged() -> None:
    cases = {name: case(name) for name in "abc"}
    items = [(name, 0) for name in cases]

    def judged(metric: str, item: Item, value: float | None, status: Status = "ok") -> Verdict:
        return Verdict(
            case_id=item[0], seed=item[1], generator="g", metric=metric, value=value, status=status, judge="j"
        )

    verdicts = {
        ("j", "m"): {item: judged("m", item, 3.0) for item in items},
        ("j", "n"): {items[0]: judged("n", items[0], 2.0), items[1]: judged("n", items[1], None, "refused")},
    }
    scores = all_scores(items, verdicts, cases, judge_file(["m", "n"]))
    assert list(scores) == ["m", "n", "overall"]
    assert scores["overall"] == {items[0]: Score(2.0), items[1]: Score(None, "refused")}  # the third is pending
    own = all_scores(items, {("j", "overall"): {}}, cases, judge_file(["overall", "m", "n"]))
    assert own["overall"] == {}
