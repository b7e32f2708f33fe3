"""From verdicts to cells: every item is counted once, failures never become numbers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.results import (
    Item,
    JudgeResult,
    Results,
    RunComparison,
    cell,
    count_candidates,
    difference,
    mean_by_case,
    metric_difference,
    metric_result,
)
from bench.text import comparison_text, results_text
from gnomon.records import Candidate, Case, Status, Text, Verdict

STATUSES: list[Status] = ["ok", "parse_error", "refused", "missing_output", "not_applicable"]


def verdict(item: Item, status: Status = "ok", value: float = 1.0) -> Verdict:
    scored = value if status == "ok" else None
    return Verdict(case_id=item[0], seed=item[1], generator="g", metric="m", value=scored, status=status, judge="j")


def case(case_id: str, task: str = "t") -> Case:
    return Case(id=case_id, benchmark="b", task=task, instruction=Text(en="do"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([*STATUSES, None]), max_size=30))
def test_counts_add_up_whatever_happened(outcomes: list[Status | None]) -> None:
    items = [(f"case-{position // 2}", position % 2) for position in range(len(outcomes))]
    verdicts = {item: verdict(item, status) for item, status in zip(items, outcomes, strict=True) if status}
    result = cell(items, verdicts)
    assert result.n_total == len(items)
    assert result.n_total == result.n_scored + result.n_failed + result.n_na + result.n_pending
    assert result.n_failed == sum(result.failed.values())
    assert result.n_pending == outcomes.count(None)
    assert (result.value is None) == (outcomes.count("ok") == 0)


def test_a_mean_by_hand() -> None:
    items = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    verdicts = {
        ("a", 0): verdict(("a", 0), value=0.0),
        ("a", 1): verdict(("a", 1), value=0.5),
        ("b", 0): verdict(("b", 0), value=1.0),
        ("b", 1): verdict(("b", 1), "refused"),
    }
    result = cell(items, verdicts)
    assert (result.value, result.ci_low, result.ci_high) == (0.5, 0.25, 1.0)  # both clusters a, and both b
    assert result.failed == {"refused": 1}


def test_tasks_split_the_items() -> None:
    cases = {"a": case("a", "x"), "b": case("b", "y")}
    items = [("a", 0), ("b", 0)]
    result = metric_result(items, {items[0]: verdict(items[0], value=0.25)}, cases)
    assert (result.value, result.tasks["x"].value, result.tasks["y"].value) == (0.25, 0.25, None)
    assert result.tasks["y"].n_pending == 1


def test_a_case_counts_once_in_a_difference_however_many_repeats_it_has() -> None:
    before = mean_by_case({("a", seed): verdict(("a", seed), value=0.0) for seed in range(10)} | {
        ("b", 0): verdict(("b", 0), value=0.5)
    })  # fmt: skip
    result = difference(before, {"a": 1.0, "b": 0.5}, ["a", "b", "c"])
    assert (result.before, result.after, result.difference) == (0.25, 0.75, 0.5)
    assert (result.n_pairs, result.n_unpaired) == (2, 1)


def test_nothing_in_common_is_no_difference_and_no_number() -> None:
    result = metric_difference(
        {("a", 0): verdict(("a", 0))}, {("b", 0): verdict(("b", 0))}, {"a": case("a"), "b": case("b")}
    )
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
    metric = metric_result(items, {("a", 0): verdict(("a", 0)), ("b", 0): verdict(("b", 0), "refused")}, cases)
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
    result = cell([("a", 0)], {("a", 0): verdict(("a", 0), value=value)})
    assert (result.value, result.ci_low, result.ci_high) == (value, None, None)
