"""The overall score by hand, its invariants, and the mistakes of the released code that are not repeated here."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.aggregation import metric_result
from bench.benchmarks import Score, benchmark_of
from bench.editcompass.cases import CATEGORIES, CELLS, METRICS
from bench.editcompass.scoring import derive, groups
from bench.folder import JudgeFile
from bench.results import Item
from bench.scores import all_scores
from gnomon.records import Case, Status, Text, Verdict

TASKS = {category: next(cell.task for cell in CELLS.values() if cell.category == category) for category in CATEGORIES}
OVERALLS = ("overall", "overall_official_summary")


def judge_file(metrics: list[str]) -> JudgeFile:
    return JudgeFile(name="j", judge_class="j", fingerprint="j", metrics=metrics)


def case(task: str = "add", flags: str = "IF WA URC IC VQ", case_id: str = "c") -> Case:
    metrics = [METRICS[flag] for flag in flags.split()]
    return Case(id=case_id, benchmark="edit-compass", task=task, instruction=Text(en="do"), metrics=metrics)


def judged(**values: float | Status) -> dict[str, Score]:
    return {
        METRICS[flag]: Score(None, value) if isinstance(value, str) else Score(value) for flag, value in values.items()
    }


def values(found: Mapping[str, Score]) -> dict[str, float | None]:
    return {name: score.value for name, score in found.items()}


@pytest.mark.parametrize(
    ("task", "overall"),
    [
        ("add", 4.5**0.4 * 3.0**0.4 * 2**0.2),
        ("movement", 4.5**0.4 * 3.0**0.4 * 2**0.2),
        ("causal", 4.5**0.5 * 3.0**0.3 * 2**0.2),
        ("knapsack", 4.5**0.6 * 3.0**0.2 * 2**0.2),
        ("virtual_try_on", 4.5**0.4 * 3.0**0.4 * 2**0.2),
        ("complex_paint_cn", 4.5**0.4 * 3.0**0.4 * 2**0.2),
    ],
)
def test_the_overall_score_by_hand(task: str, overall: float) -> None:
    found = values(derive(case(task), judged(IF=4, WA=5, URC=2, IC=4, VQ=2)))
    assert found == pytest.approx(
        {
            "instruction_awareness": 4.5,
            "visual_consistency": 3.0,
            "overall": overall,
            "overall_official_summary": overall,
        }
    )


def test_style_transfer_has_no_consistency() -> None:
    found = derive(case("style_transfer", "IF VQ"), judged(IF=4, VQ=3))
    assert found["visual_consistency"] == Score(None, "not_applicable")
    assert found["instruction_awareness"] == Score(4.0)
    for name in OVERALLS:
        assert found[name].value == pytest.approx(4**0.7 * 3**0.3)
    # Not even where somebody judged it.
    also = derive(case("style_transfer", "IF URC VQ"), judged(IF=4, URC=1, VQ=3))
    assert also == found


def test_the_worst_of_dimensions_or_of_metrics_is_the_overall_score_where_it_is_at_most_one() -> None:
    scores = judged(IF=5, WA=1, URC=4, IC=4, VQ=4)
    found = values(derive(case(), scores))
    assert found["instruction_awareness"] == 3.0
    assert found["overall"] == pytest.approx(3**0.4 * 4**0.4 * 4**0.2)
    assert found["overall_official_summary"] == 1.0
    assert values(derive(case("add", "IF URC VQ"), judged(IF=1, URC=5, VQ=5)))["overall"] == 1.0
    assert values(derive(case("style_transfer", "IF VQ"), judged(IF=5, VQ=1)))["overall"] == 1.0
    # A little above one, the rule is off.
    assert values(derive(case("add", "IF URC VQ"), judged(IF=1.1, URC=5, VQ=5)))["overall"] == pytest.approx(
        1.1**0.4 * 5**0.6
    )


def test_consistency_of_the_rest_counts_where_no_identity_is_asked_about() -> None:
    """The released summary never takes it in, and breaks where it is alone."""
    found = values(derive(case("knapsack", "IF WA URC VQ"), judged(IF=5, WA=5, URC=2, VQ=5)))
    assert found["visual_consistency"] == 2.0
    assert found["overall"] == pytest.approx(5**0.8 * 2**0.2)
    both = values(derive(case(), judged(IF=5, WA=5, URC=2, IC=4, VQ=5)))
    assert both["visual_consistency"] == 3.0


def test_the_worst_score_is_over_consistency_too() -> None:
    """The released summary's own description names quality twice in its place."""
    found = values(derive(case("add", "IF URC VQ"), judged(IF=5, URC=1, VQ=5)))
    assert [found[name] for name in OVERALLS] == [1.0, 1.0]


@pytest.mark.parametrize("status", ["parse_error", "out_of_range", "refused", "api_error", "missing_output"])
@pytest.mark.parametrize("failed", list(METRICS))
def test_a_failed_metric_fails_what_is_made_of_it_and_nothing_else(failed: str, status: Status) -> None:
    scores = judged(IF=5, WA=4, URC=3, IC=4, VQ=5) | judged(**{failed: status})
    found = derive(case(), scores)
    failure = Score(None, status)
    assert (found["instruction_awareness"] == failure) == (failed in ("IF", "WA"))
    assert (found["visual_consistency"] == failure) == (failed in ("URC", "IC"))
    assert all(found[name] == failure for name in OVERALLS)


def test_what_is_not_judged_yet_is_left_out() -> None:
    found = derive(case(), judged(IF=5, WA=4, URC=3, VQ=5))
    assert found == {"instruction_awareness": Score(4.5)}
    assert derive(case(), {"brightness": Score(0.5)}) == {}
    assert set(derive(case("style_transfer", "IF VQ"), judged(IF=3))) == {"instruction_awareness", "visual_consistency"}


def test_without_any_consistency_or_category_there_is_no_overall_score() -> None:
    found = derive(case("add", "IF VQ"), judged(IF=5, VQ=5))
    assert {found[name] for name in ("visual_consistency", *OVERALLS)} == {Score(None, "not_applicable")}
    unknown = derive(case("mine"), judged(IF=5, WA=5, URC=2, IC=4, VQ=5))
    assert unknown["visual_consistency"] == Score(3.0)
    assert {unknown[name] for name in OVERALLS} == {Score(None, "not_applicable")}


def test_a_case_that_lists_no_metric_has_all_of_them() -> None:
    scores = judged(IF=4, WA=5, URC=2, IC=4, VQ=2)
    assert derive(case("add", ""), scores) == derive(case("add"), scores)


def test_cases_are_grouped_by_category_task_and_perception() -> None:
    assert groups(case("complex_paint_en")) == {
        "category": "complex",
        "task": "complex_paint_en",
        "perception": "complex_paint",
    }
    assert groups(case("add")) == {"category": "general", "task": "add"}
    perception = {groups(case(cell.task)).get("perception") for cell in CELLS.values()} - {None}
    assert perception == {"movement", "swap", "complex_paint", "multi_image_aware"}
    assert groups(case("mine"))["category"] == "unknown"


grades = st.floats(1, 5, allow_nan=False)


@given(st.sampled_from(sorted(cell.task for cell in CELLS.values())), st.tuples(*[grades] * 5))
def test_overall_scores_are_between_the_worst_and_the_best_and_the_released_rule_is_stricter(
    task: str, given_: tuple[float, ...]
) -> None:
    scores = {metric: Score(value) for metric, value in zip(METRICS.values(), given_, strict=True)}
    found = values(derive(case(task), scores))
    paper, official = found["overall"], found["overall_official_summary"]
    assert paper is not None
    assert official is not None
    assert min(given_) - 1e-9 <= official <= paper + 1e-9
    assert paper <= max(given_) + 1e-9


def test_failures_stay_in_the_count_of_every_result() -> None:
    """The released summary drops a case of which one reply could not be read, and shows a mean over the others."""
    cases = {name: case("add", "IF URC VQ", name) for name in ("a", "b", "c")}
    items = [(name, 0) for name in cases]
    replies: dict[str, dict[str, float | Status]] = {
        "a": {"IF": 4, "URC": 4, "VQ": 4},
        "b": {"IF": 4, "URC": "parse_error", "VQ": 4},
        "c": {"IF": 2, "URC": 2},
    }
    verdicts: dict[tuple[str, str], dict[Item, Verdict]] = {}
    for name, given_ in replies.items():
        for metric, score in judged(**given_).items():
            verdict = Verdict(
                case_id=name, generator="g", metric=metric, value=score.value, status=score.status, judge="j"
            )
            verdicts.setdefault(("j", metric), {})[name, 0] = verdict
    scores = all_scores(items, verdicts, cases, judge_file(list(METRICS.values())))
    overall = metric_result(items, scores["overall"], cases)
    assert (overall.n_total, overall.n_scored, overall.n_failed, overall.n_pending) == (3, 1, 1, 1)
    assert overall.value == pytest.approx(4.0)
    assert overall.failed == {"parse_error": 1}
    assert metric_result(items, scores["instruction_awareness"], cases).value == pytest.approx(10 / 3)


def test_a_mean_without_one_of_the_categories_is_partial() -> None:
    cases = {task: case(task, "IF URC VQ", task) for task in TASKS.values()}
    items = [(task, 0) for task in cases]
    scores = {item: Score(3.0) for item in items}
    assert benchmark_of(cases["add"]).parts
    assert not metric_result(items, scores, cases).is_partial
    without = metric_result(items[:-1], scores, {task: cases[task] for task in list(cases)[:-1]})
    assert without.missing["category"] == ["complex"]


def test_a_mean_is_not_partial_for_cases_to_which_its_metric_does_not_apply() -> None:
    flags = {"add": "IF URC IC VQ", "style_transfer": "IF VQ", "knapsack": "IF WA URC VQ"}
    cases = {cell.task: case(cell.task, flags.get(cell.task, "IF WA URC IC VQ"), cell.task) for cell in CELLS.values()}
    items = [(task, 0) for task in cases]

    def missing(metric: str, without: set[str]) -> dict[str, list[str]]:
        scores = {item: Score(None, "not_applicable") if item[0] in without else Score(3.0) for item in items}
        return metric_result(items, scores, cases, metric=metric).missing

    nothing: dict[str, list[str]] = {"category": [], "perception": [], "task": []}
    assert missing("world_awareness", {"add", "style_transfer"}) == nothing
    assert missing("visual_consistency", {"style_transfer"}) == nothing
    assert missing("identity_consistency", {"style_transfer", "knapsack"}) == nothing
    # What a generator did not even try is missing.
    untried = {cell.task for cell in CELLS.values() if cell.category == "multi_image"}
    assert missing("overall", untried)["category"] == ["multi_image"]
    assert missing("visual_consistency", untried | {"style_transfer"})["category"] == ["multi_image"]
