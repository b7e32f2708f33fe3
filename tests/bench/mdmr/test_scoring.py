"""M11 to M17 by hand: dimensions, overall scores, families and the final number; and what must change nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.aggregation import metric_result, metric_results
from bench.benchmarks import Score, Scoring, benchmark_of
from bench.checklists import question_results, right_scores
from bench.folder import JudgeFile
from bench.mdmr.cases import FAMILIES, WEIGHTS
from bench.mdmr.scoring import applies, derive, derive_from_answers, groups
from bench.results import Item
from bench.scores import all_scores, answers
from gnomon.records import Case, Status, Verdict

MakeCase = Callable[..., Case]
NA = Score(None, "not_applicable")
JUDGE = JudgeFile(name="j", judge_class="j", fingerprint="j", metrics=[], asks_questions=True)


def said(**given_: float | Status) -> dict[str, Score]:
    """Answers by question, with an underscore in place of the hyphen."""
    return {
        name.replace("_", "-"): Score(None, value) if isinstance(value, str) else Score(value)
        for name, value in given_.items()
    }


def scored(case: Case, given_: Mapping[str, Score], *, as_no: bool = False) -> dict[str, Score]:
    return derive_from_answers(case, right_scores(case, given_, as_no=as_no))


def test_a_dimension_is_the_share_of_its_questions_that_are_answered_as_expected(make_case: MakeCase) -> None:
    case = make_case(following=4, quality=2, no=["following-4"])
    given_ = said(following_1=1, following_2=0, following_3=0.5, following_4=0.49, quality_1=1, quality_2=1)
    found = scored(case, given_)
    assert found["following"] == Score(0.75)  # .5 is a yes, and .49 the no that is expected
    assert found["quality"] == Score(1.0)
    assert found["overall"].value == pytest.approx((0.2 * 0.75 + 0.1 * 1.0) / 0.3)
    assert {found[name] for name in ("consistency", "composition", "minimality")} == {NA}


def test_the_overall_score_by_hand(make_case: MakeCase) -> None:
    case = make_case(following=1, consistency=2, composition=4, minimality=1, quality=1)
    given_ = said(
        following_1=1, consistency_1=1, consistency_2=0, composition_1=1, composition_2=0, composition_3=0,
        composition_4=0, minimality_1=0, quality_1=1,
    )  # fmt: skip
    assert scored(case, given_)["overall"].value == pytest.approx(0.20 + 0.25 * 0.5 + 0.25 * 0.25 + 0.10)
    assert sum(WEIGHTS.values()) == pytest.approx(1)


def test_a_failed_answer_is_left_out_and_a_dimension_without_answers_fails(make_case: MakeCase) -> None:
    case = make_case(following=3, quality=2)
    given_ = said(following_1=1, following_2="refused", following_3=0, quality_1="parse_error", quality_2="refused")
    found = scored(case, given_)
    assert found["following"] == Score(0.5)
    assert found["quality"] == found["overall"] == Score(None, "parse_error")
    assert found["minimality"] == NA
    lower = scored(case, given_, as_no=True)
    assert lower["following"].value == pytest.approx(1 / 3)
    assert lower["quality"] == Score(0.0)
    assert lower["overall"].value == pytest.approx(0.2 / 3 / 0.3)


def test_unanswered_as_wrong_holds_where_no_is_expected_and_not_for_what_was_never_tried(make_case: MakeCase) -> None:
    case = make_case(minimality=1, no=["minimality-1"])
    assert scored(case, said(minimality_1="refused"), as_no=True)["minimality"] == Score(0.0)
    untried = scored(case, said(minimality_1="not_applicable"), as_no=True)
    assert set(untried.values()) == {NA}


def test_what_is_not_judged_yet_is_left_out(make_case: MakeCase) -> None:
    case = make_case(following=2, quality=1)
    found = scored(case, said(following_1=1, quality_1=1))
    assert found["quality"] == Score(1.0)
    assert not {"following", "overall"} & set(found)
    assert scored(case, {}) == dict.fromkeys(("consistency", "composition", "minimality"), NA)
    assert set(scored(make_case(), {}).values()) == {NA}


def test_a_question_under_a_denied_one_is_wrong_and_under_an_open_one_is_open(make_case: MakeCase) -> None:
    case = make_case(following=1, quality=1, depends_on={"quality-1": ["following-1"]})
    assert scored(case, said(following_1=0, quality_1=1))["quality"] == Score(0.0)
    assert scored(case, said(following_1=1, quality_1=1))["quality"] == Score(1.0)
    assert scored(case, said(following_1="refused", quality_1=1))["quality"] == Score(1.0)
    assert scored(case, said(following_1="refused", quality_1=1), as_no=True)["quality"] == Score(0.0)
    assert "quality" not in scored(case, said(quality_1=1))


@given(st.dictionaries(st.sampled_from(list(WEIGHTS)), st.integers(1, 3)), st.data())
def test_a_dimension_without_questions_is_never_a_number(
    make_case: MakeCase, counts: dict[str, int], data: st.DataObject
) -> None:
    case = make_case(**counts)
    outcomes = st.sampled_from([Score(1.0), Score(0.0), Score(None, "refused")])
    given_ = {question.id: data.draw(outcomes) for question in case.questions}
    for as_no in (False, True):
        found = scored(case, given_, as_no=as_no)
        assert {name for name in WEIGHTS if found[name] == NA} == set(WEIGHTS) - set(counts)
        assert (found["overall"] == NA) == (not counts)
        values = [found[name].value for name in counts]
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            assert found["overall"].value == pytest.approx(
                sum(WEIGHTS[name] * (found[name].value or 0.0) for name in counts)
                / sum(WEIGHTS[name] for name in counts)
            )
    lower = scored(case, given_, as_no=True)["overall"].value
    usual = scored(case, given_)["overall"].value
    assert usual is None or (lower is not None and lower <= usual + 1e-12)


def test_scores_of_whole_dimensions_make_an_overall_score(make_case: MakeCase) -> None:
    case = make_case(following=1, quality=1)
    assert derive(case, {"following": Score(0.5), "quality": Score(1.0)})["overall"].value == pytest.approx(0.2 / 0.3)
    assert derive(case, {"following": Score(0.5)}) == {}
    assert derive(case, {"following": Score(None, "refused"), "quality": Score(1.0)})["overall"].status == "refused"
    assert derive(case, {"brightness": Score(0.5)}) == {}
    plain = make_case()
    assert all(applies(plain, dimension) for dimension in WEIGHTS)
    assert derive(plain, dict.fromkeys(WEIGHTS, Score(0.25)))["overall"].value == pytest.approx(0.25)


def verdicts_of(cases: Mapping[str, Case], given_: Mapping[str, Mapping[str, Score]]) -> list[Verdict]:
    return [
        Verdict(
            case_id=case_id,
            generator="g",
            metric=name,
            question_id=name,
            value=score.value,
            status=score.status,
            judge="j",
        )
        for case_id in cases
        for name, score in given_[case_id].items()
    ]


def last(verdicts: Sequence[Verdict]) -> dict[tuple[str, str], dict[Item, Verdict]]:
    found: dict[tuple[str, str], dict[Item, Verdict]] = {}
    for verdict in verdicts:
        found.setdefault((verdict.judge, verdict.metric), {})[verdict.case_id, verdict.seed] = verdict
    return found


def test_families_are_means_of_sub_tasks_and_the_final_number_is_their_mean(make_case: MakeCase) -> None:
    """M15 and M16: fusion (1 + 0) / 2 over sub-tasks of three cases and one, extraction directly, transfer one case."""
    plan = {
        "a": ("entity_fusion", "people", 1),
        "b": ("entity_fusion", "people", 1),
        "c": ("entity_fusion", "people", 1),
        "d": ("entity_fusion", "animals", 0),
        "e": ("multi_element_extraction", "multi_element_extraction", 1),
        "f": ("multi_element_extraction", None, 0),
        "g": ("attribute_transfer", "pose", 1),
    }
    cases = {name: make_case(name, family, subtask, quality=1) for name, (family, subtask, _) in plan.items()}
    given_ = {name: said(quality_1=value) for name, (*_, value) in plan.items()}
    items = [(name, 0) for name in cases]
    scores = all_scores(items, last(verdicts_of(cases, given_)), cases, JUDGE)
    found = metric_result(items, scores["overall"], cases, metric="overall")
    assert found.value == pytest.approx(5 / 7)
    assert found.final is not None
    assert found.final.kinds == ("family", "subtask")
    families = {name: cell.value for name, cell in found.final.groups.items()}
    assert families == {"entity_fusion": 0.5, "multi_element_extraction": 0.5, "attribute_transfer": 1.0}
    assert found.final.value == pytest.approx(2 / 3)
    assert (found.final.n_scored, found.final.num_clusters) == (7, 7)
    assert found.missing["family"] == ["infographic_manipulation", "visual_reasoning"]
    assert found.is_partial
    assert found.headline == found.final
    # Sub-tasks of one case have no spread that could be known, hence neither has what is made of them.
    assert (found.final.ci_low, found.final.groups["entity_fusion"].ci_low) == (None, None)
    assert found.final.groups["multi_element_extraction"].ci_low == 0.0


def test_a_whole_run_has_all_families_and_an_interval_around_its_final_number(make_case: MakeCase) -> None:
    rng = random.Random(0)
    cases = {
        f"{family}-{subtask}-{number}": make_case(f"{family}-{subtask}-{number}", family, subtask, quality=4)
        for family, subtasks in FAMILIES.items()
        for subtask in subtasks
        for number in range(5)
    }
    given_ = {
        name: {one.id: Score(float(rng.random() < 0.7)) for one in case.questions} for name, case in cases.items()
    }
    items = [(name, 0) for name in cases]
    scores = all_scores(items, last(verdicts_of(cases, given_)), cases, JUDGE)
    results = metric_results(items, scores, cases)
    final = results["overall"].final
    assert final is not None
    assert not results["overall"].is_partial
    assert final.value is not None
    assert final.ci_low is not None
    assert final.ci_high is not None
    assert final.ci_low < final.value < final.ci_high
    by_subtask = {name: cell.value or 0.0 for name, cell in results["overall"].groups["subtask"].items()}
    families = [sum(by_subtask[one] for one in subtasks) / len(subtasks) for subtasks in FAMILIES.values()]
    assert final.value == pytest.approx(sum(families) / 5)
    # A dimension that no case asks about has no number and is missing nowhere.
    assert results["minimality"].final is not None
    assert results["minimality"].final.value is None
    assert results["minimality"].missing["family"] == []


def test_strict_takes_the_overall_score_from_items_without_all_dimensions(make_case: MakeCase) -> None:
    cases = {"a": make_case("a", **dict.fromkeys(WEIGHTS, 1)), "b": make_case("b", quality=1)}
    given_ = {name: {one.id: Score(1.0) for one in case.questions} for name, case in cases.items()}
    items = [("a", 0), ("b", 0)]
    known = last(verdicts_of(cases, given_))
    strict = all_scores(items, known, cases, JUDGE, Scoring(strict=True))
    assert strict["overall"] == {("a", 0): Score(1.0), ("b", 0): NA}
    assert strict["quality"] == {("a", 0): Score(1.0), ("b", 0): Score(1.0)}
    assert all_scores(items, known, cases, JUDGE)["overall"]["b", 0] == Score(1.0)


def test_questions_are_counted_by_dimension_and_level(make_case: MakeCase) -> None:
    cases = {
        "a": make_case("a", following=2, quality=2, no=["quality-2"], depends_on={"following-2": ["following-1"]}),
        "b": make_case("b", following=1),
    }
    given_ = {
        "a": said(following_1=0, following_2="refused", quality_1=1, quality_2=1),
        "b": {},
    }
    known = last(verdicts_of(cases, given_))
    found = question_results(answers([("a", 0), ("b", 0)], known, JUDGE), cases)
    yes, right = found.yes, found.right
    assert (yes.n_total, yes.n_scored, yes.n_failed, yes.n_pending) == (5, 3, 1, 1)
    assert yes.failed == {"refused": 1}
    assert yes.value == pytest.approx(2 / 3)
    # The refused one depends on a denied one, and is wrong by that; of quality, a yes and a yes that should be no.
    assert (right.n_scored, right.n_failed, right.value) == (4, 0, 0.25)
    assert right.groups["dimension"]["quality"].value == 0.5
    assert right.groups["dimension"]["following"].n_pending == 1
    assert {name: cell.n_total for name, cell in right.groups["level"].items()} == {"atomic": 2, "global": 3}
    assert question_results({}, {}).yes.n_total == 0


def test_the_intervals_of_questions_are_clustered_by_case(make_case: MakeCase) -> None:
    """Ten questions of a case that are all answered alike tell no more than one."""
    many = {f"c{number}": make_case(f"c{number}", quality=10) for number in range(30)}
    one = {name: make_case(name, quality=1) for name in many}
    alike = {
        name: {question.id: Score(float(int(name[1:]) % 3 > 0)) for question in case.questions}
        for name, case in many.items()
    }
    single = {name: {"quality-1": given_["quality-1"]} for name, given_ in alike.items()}
    items = [(name, 0) for name in many]
    wide = question_results(answers(items, last(verdicts_of(many, alike)), JUDGE), many).yes
    narrow = question_results(answers(items, last(verdicts_of(one, single)), JUDGE), one).yes
    assert (wide.ci_low, wide.ci_high) == pytest.approx((narrow.ci_low, narrow.ci_high))
    assert (wide.n_scored, wide.num_clusters) == (300, 30)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_order_and_repetition_of_verdict_lines_change_nothing(make_case: MakeCase, data: st.DataObject) -> None:
    cases = {name: make_case(name, following=2, quality=1, depends_on={"quality-1": ["following-1"]}) for name in "abc"}
    outcomes = st.sampled_from([Score(1.0), Score(0.0), Score(None, "refused"), None])
    given_ = {
        name: {one.id: score for one in case.questions if (score := data.draw(outcomes)) is not None}
        for name, case in cases.items()
    }
    lines, items = verdicts_of(cases, given_), [(name, 0) for name in cases]
    again = data.draw(st.permutations(lines + data.draw(st.lists(st.sampled_from(lines)) if lines else st.just([]))))
    for scoring in (Scoring(), Scoring(as_no=True), Scoring(strict=True)):
        first = all_scores(items, last(lines), cases, JUDGE, scoring)
        assert all_scores(items, last(again), cases, JUDGE, scoring) == first
    one, other = (question_results(answers(items, last(found), JUDGE), cases) for found in (lines, again))
    assert one == other


def test_cases_are_grouped_by_what_tables_are_cut_by(make_case: MakeCase) -> None:
    case = make_case(num_references=3).model_copy(
        update={"meta": {"content_type": "person", "text_language": "zh", "reference_origin": "synthetic"}}
    )
    assert groups(case) == {
        "family": "entity_fusion",
        "subtask": "people",
        "num_references": "3",
        "content_type": "person",
        "text_language": "zh",
        "reference_origin": "synthetic",
    }
    assert set(groups(make_case())) == {"family", "subtask", "num_references", "reference_origin"}
    assert benchmark_of(case).name == "mdmr-bench"
