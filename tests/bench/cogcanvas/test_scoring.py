"""CogCanvas's scores by hand: shares of answers, what applies where, groups of cases, questions and people."""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.aggregation import metric_results
from bench.benchmarks import Score, known_benchmarks
from bench.checklists import question_results, right_scores
from bench.cogcanvas.cases import NAME
from bench.cogcanvas.scoring import AXES, applies, derive_from_answers, groups, question_groups, slices, subjects
from bench.report.controls import constant_results
from bench.report.display import Display
from bench.results import JudgeResult, Results
from bench.scores import headline_metric
from bench.slices import slice_cells
from bench.text import results_text
from gnomon.records import Case, Question, Status, Verdict

MakeCase = Callable[..., Case]
FOUR = (("attribute", "Ann"), ("binding", "Bob,cup"), ("interaction", "Ann,Bob"), ("position", "Ann,Bob"))


def scored(case: Case, **answers: float | Status) -> dict[str, Score]:
    """The scores of an item whose questions were answered so; names have _ for -."""
    given = {
        name.replace("_", "-"): Score(answer) if isinstance(answer, float) else Score(None, answer)
        for name, answer in answers.items()
    }
    return derive_from_answers(case, right_scores(case, given))


def verdict(case: Case, metric: str, value: float | None, status: Status = "ok", **raw: Any) -> Verdict:
    return Verdict(
        case_id=case.id,
        generator="g",
        metric=metric,
        value=value,
        status=status,
        raw=json.dumps(raw) if raw else None,
        judge="j",
    )


def test_shares_are_of_the_questions_that_expect_yes_and_probes_stand_apart(make_case: MakeCase) -> None:
    case = make_case(questions=[*FOUR, ("attribute", "Bob")], negated=[("binding", "Ann,cup")])
    given = {"attribute_1": 0.7, "binding_2": 0.2, "interaction_3": 1.0, "position_4": 0.0, "attribute_5": 0.0}
    assert scored(case, **given, not_binding_1=0.1) == {
        "attr_vqa": Score(2 / 5),
        "attribute": Score(1 / 2),
        "binding": Score(0.0),
        "interaction": Score(1.0),
        "position": Score(0.0),
        "negated": Score(1.0),
    }


def test_failures_are_left_out_and_what_is_open_leaves_a_share_open(make_case: MakeCase) -> None:
    case = make_case(questions=FOUR[:3])
    found = scored(case, attribute_1="parse_error", binding_2=1.0, interaction_3=0.0)
    assert found["attr_vqa"] == Score(0.5)
    assert found["attribute"] == Score(None, "parse_error")
    assert found["position"] == found["negated"] == Score(None, "not_applicable")
    assert set(scored(case, binding_2=1.0)) == {"binding", "position", "negated"}


def test_there_is_no_single_number(make_case: MakeCase) -> None:
    benchmark = known_benchmarks()[NAME]
    assert "overall" not in {**benchmark.metrics, **benchmark.derived}
    assert benchmark.final is None
    assert "overall" not in scored(make_case(questions=FOUR[:1]), attribute_1=1.0)


def test_a_control_that_says_yes_reaches_everything_but_the_probes(make_case: MakeCase) -> None:
    cases = {case.id: case for case in [make_case("a", questions=FOUR), make_case("b", negated=FOUR, questions=FOUR)]}
    yes, no = (constant_results(cases, value) for value in (1.0, 0.0))
    assert {name: (yes[name].value, no[name].value) for name in yes} == {
        **dict.fromkeys(("attr_vqa", "attribute", "binding", "interaction", "position"), (1.0, 0.0)),
        "negated": (0.0, 1.0),
    }
    assert yes["negated"].n_na == 1


def test_a_picture_from_text_is_asked_about_attributes_and_items_alone(make_case: MakeCase) -> None:
    case = make_case(questions=FOUR, task="text_to_image")
    asked = [question.id for question in case.questions if applies(case, question.id)]
    assert asked == ["attribute-1", "binding-2"]
    axes = [name for name in (*AXES, "person_count", "interaction") if applies(case, name)]
    assert axes == ["clip_t", "aesthetic", "attr_vqa", "person_count"]
    found = scored(case, attribute_1=1.0, binding_2=0.0, interaction_3="not_applicable", position_4="not_applicable")
    assert found["attr_vqa"] == Score(0.5)
    assert found["position"].status == "not_applicable"


def test_axes_apply_where_the_case_has_what_they_compare(make_case: MakeCase) -> None:
    case = make_case()
    assert [name for name in (*AXES, "person_count") if applies(case, name)] == list(AXES)
    bare = case.model_copy(update={"references": case.references[:2]})
    assert [name for name in AXES if applies(bare, name)] == ["id_sim", "clip_t", "aesthetic", "attr_vqa"]
    asked = make_case(questions=FOUR[:1])
    assert applies(asked, "attribute")
    assert not applies(asked, "binding")


def test_a_case_is_grouped_by_people_task_size_strength_and_demographics(make_case: MakeCase) -> None:
    case = make_case(names=("Ann", "Bob"), object_size="large_wearable", interaction_strength="close_contact")
    assert groups(case) == {
        "task": "reference_generation",
        "num_people": "2",
        "object_size": "large_wearable",
        "interaction_strength": "close_contact",
        "age": "mixed",
        "gender": "mixed",
    }
    from_text = groups(make_case(task="text_to_image"))
    assert (from_text["num_people_from_text"], "num_people" in from_text) == ("2", False), "another table's matter"
    alike = groups(make_case(names=("Ann", "Dua", "Eve")))
    assert alike == {"task": "reference_generation", "num_people": "3", "gender": "woman"}  # Dua's age is not known


def test_a_question_counts_for_everybody_it_is_about(make_case: MakeCase) -> None:
    case = make_case(questions=FOUR, negated=FOUR[:1])
    both, item, probe = case.questions[2], case.questions[1], case.questions[4]
    assert question_groups(case, both)["gender"] == ("woman", "man")
    assert question_groups(case, item)["gender"] == ("man",)
    assert question_groups(case, item)["dimension"] == ("binding",)
    assert question_groups(case, probe) == {"probe": ("negated",)}
    by_number = both.model_copy(update={"about": ["reference-2.hair", "reference-20", "instruction"]})
    assert [reference.name for reference in subjects(case, by_number)] == ["Bob"]


def test_attr_vqa_by_question_and_by_prompt_differ_where_prompts_have_different_numbers(make_case: MakeCase) -> None:
    """One prompt has one question, answered no; the other four, answered yes; a probe is in neither."""
    cases = {
        "a": make_case("a", questions=FOUR[:1], negated=FOUR[1:2]),
        "b": make_case("b", names=("Ann", "Bob", "Eve"), questions=FOUR),
    }
    answers = {
        (name, 0): {question.id: Score(float(name == "b")) for question in case.questions}
        for name, case in cases.items()
    }
    items = list(answers)
    scores = {item: derive_from_answers(cases[item[0]], right_scores(cases[item[0]], answers[item])) for item in items}
    by_prompt = metric_results(items, {"attr_vqa": {item: scores[item]["attr_vqa"] for item in items}}, cases)
    micro = question_results(answers, cases).right.groups
    assert by_prompt["attr_vqa"].value == 0.5
    assert micro["probe"]["positive"].value == 4 / 5
    assert micro["probe"]["negated"].value == 1.0
    assert (micro["num_people"]["2"].value, micro["num_people"]["3"].value) == (0.0, 1.0)
    assert micro["num_people"]["2"].n_total == 1
    assert micro["dimension"]["attribute"].n_scored == 2
    assert micro["gender"]["man"].value == 1.0
    assert micro["gender"]["woman"].value == pytest.approx(3 / 4)
    assert by_prompt["attr_vqa"].missing["num_people"] == ["4", "5"]


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=6), min_size=1, max_size=6))
def test_both_means_are_those_of_numpy(answers: list[list[float]]) -> None:
    cases, given_answers = {}, {}
    for number, of_case in enumerate(answers):
        questions = [
            Question.model_validate({"id": str(place), "text": {"en": "?"}, "dimension": "attribute"})
            for place in range(len(of_case))
        ]
        case = Case.model_validate(
            {"id": str(number), "benchmark": NAME, "task": "t", "instruction": {"en": "x"}, "questions": questions}
        )
        cases[case.id] = case
        given_answers[case.id, 0] = {str(place): Score(value) for place, value in enumerate(of_case)}
    shares = [derive_from_answers(cases[item[0]], found)["attr_vqa"].value for item, found in given_answers.items()]
    assert shares == pytest.approx([fmean(of_case) for of_case in answers])
    micro = question_results(given_answers, cases).right.groups["probe"]["positive"]
    assert micro.value == pytest.approx(fmean(value for of_case in answers for value in of_case))
    assert micro.num_clusters == len(cases)


def test_people_and_items_count_one_by_one_and_fail_together(make_case: MakeCase) -> None:
    """Ann .8, Bob missing; then a picture that is gone with Ann, Cem and Bob."""
    first, second = make_case("a"), make_case("b", names=("Ann", "Cem", "Bob"))
    people = [{"person": "Ann", "face": 0, "similarity": 0.8}, {"person": "Bob", "face": None, "similarity": 0.0}]
    found = {
        ("a", 0): verdict(first, "id_sim", 0.4, people=people),
        ("b", 0): verdict(second, "id_sim", None, "missing_output"),
    }
    cells = slice_cells(found, {"a": first, "b": second})
    man, woman = cells["gender"]["man"], cells["gender"]["woman"]
    assert (woman.value, woman.n_total, woman.n_scored, woman.failed) == (0.8, 2, 1, {"missing_output": 1})
    assert (man.value, man.n_total, man.n_failed) == (0.0, 3, 2)
    assert set(cells["age"]) == {"young", "old"}
    slots = [{"name": "cup", "similarity": 0.6}]
    sizes = slice_cells({("a", 0): verdict(first, "dino_sim", 0.6, slots=slots)}, {"a": first})
    assert sizes["size_category"]["small"].value == 0.6
    assert not list(slices(first, verdict(first, "clip_t", 0.3)))
    for raw in (None, "", "three people", "[]", '{"people": 3}', '{"people": [1, {}]}', '{"people": []}'):
        other = verdict(first, "id_sim", 0.3).model_copy(update={"raw": raw})
        assert not list(slices(first, other)), "a judge that says it otherwise, or not"


def test_what_pages_show_is_times_a_hundred_and_aesthetic_times_ten(make_case: MakeCase) -> None:
    display = Display([make_case()])
    assert [display.factor(name) for name in (*AXES, "technical_quality")] == [100, 100, 100, 100, 10, 100, 1]
    assert display.note == "Scores and shares are shown times 100, aesthetic times 10."


def test_runs_by_a_judge_of_questions_are_ordered_by_attr_vqa() -> None:
    from bench.folder import JudgeFile

    judge = JudgeFile(name="j", judge_class="x", fingerprint="f", metrics=[], asks_questions=True)
    assert headline_metric(judge, list(known_benchmarks()[NAME].derived)) == "attr_vqa"


def test_what_applies_to_nothing_that_was_made_lacks_no_group(make_case: MakeCase) -> None:
    """A method without a background channel, one of whose pictures is gone; and one that lacks the picture of three."""
    cases = {str(number): make_case(str(number), ("Ann", "Bob", "Cem")[:number]) for number in (2, 3)}
    items = [("2", 0), ("2", 1), ("3", 0)]
    gone, blank = Score(None, "missing_output"), Score(None, "not_applicable")
    without_channel = metric_results(items, {"bg_sim": dict(zip(items, (gone, blank, blank), strict=True))}, cases)
    assert not without_channel["bg_sim"].is_partial
    assert without_channel["bg_sim"].value is None
    lacking = metric_results(items, {"bg_sim": dict(zip(items, (Score(0.5), blank, gone), strict=True))}, cases)
    assert lacking["bg_sim"].missing["num_people"] == ["3", "4", "5"]


def test_the_terminal_shows_every_metric_by_number_of_people(make_case: MakeCase) -> None:
    cases = {"a": make_case("a", questions=FOUR), "b": make_case("b", ("Ann", "Bob", "Eve"), questions=FOUR)}
    scores = {"attr_vqa": {("a", 0): Score(0.25), ("b", 0): Score(None, "refused")}}
    results = Results(
        generator="g",
        benchmarks=[NAME],
        dataset="d",
        seed=0,
        repeats=1,
        num_cases=2,
        candidates={},
        judges={"j": JudgeResult(fingerprint="f", metrics=metric_results(list(scores["attr_vqa"]), scores, cases))},
    )
    text = results_text(results)
    (line,) = [line for line in text.splitlines() if "n = 1" in line]
    assert line.split() == ["j", "attr_vqa", "0.250", "(n", "=", "1)", "–", "(n", "=", "0)"]
    assert "is the mean of every" not in text
