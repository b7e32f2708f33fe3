"""Checklist questions in words and by probabilities: one question a request, found by case and id."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.errors import UserError
from gnomon.records import Question, Text
from rm.judge import Judge, JudgeRequest, asked_about
from rm.protocols.checklist import ChecklistJudge
from rm.protocols.yes_no import NO, YES, YesNoJudge, check_spellings
from rm.vlm.conversation import ChoiceScores, GenerationParameters, Reply

Ask = Callable[..., JudgeRequest]
Make = Callable[..., Any]
QUESTIONS = {
    "c": [
        Question(id="q1", text=Text(en='Is it "red"?', zh="是红色吗？"), dimension="colour"),
        Question(id="q2", text=Text(en="Is it cut off?"), dimension="shape", expected=False),
    ],
    "d": [Question(id="q1", text=Text(en="Is it blue?"), dimension="colour")],
}


@pytest.fixture(name="ask")
def ask_with_questions(ask: Ask) -> Ask:
    """A function that makes a request about a case with the questions above."""

    def make(image: int | str | None, metric: str, case: str = "c") -> JudgeRequest:
        request = ask(image, metric, case)
        return replace(request, case=request.case.model_copy(update={"questions": QUESTIONS[case]}))

    return make


def test_answers_are_ones_and_noughts_at_their_place(ask: Ask, listed: Make) -> None:
    vlm = listed([Reply('{"reason": "it is", "answer": "yes"}'), Reply("No."), Reply("Perhaps"), Reply("", "refused")])
    judge: Judge = ChecklistJudge(vlm)
    requests = [ask(1, "q1"), ask(1, "q2"), ask(2, "q1", "d"), ask(2, "q2", "d"), ask(3, "q1"), ask(None, "q1")]
    verdicts = judge.judge(requests)
    assert [(verdict.value, verdict.status) for verdict in verdicts] == [
        (1.0, "ok"),
        (0.0, "ok"),
        (None, "parse_error"),
        (None, "not_applicable"),
        (None, "refused"),
        (None, "missing_output"),
    ]
    assert [verdict.question_id for verdict in verdicts] == [request.metric for request in requests]
    assert judge.metrics == ()
    assert asked_about(judge, requests[0].case) == ("q1", "q2")
    assert asked_about(judge, requests[2].case) == ("q1",)
    words = ["".join(part for part in talk[1].content if isinstance(part, str)) for talk in vlm.asked]
    assert '"Is it \\"red\\"?"' in words[0]
    assert "Is it blue?" in words[2]
    assert verdicts[0].prompt_hash != verdicts[1].prompt_hash
    assert verdicts[0].rationale == "it is"


def scores(**probabilities: float) -> ChoiceScores:
    logprobs = dict.fromkeys((*YES["en"], *NO["en"]), -math.inf)
    return ChoiceScores({**logprobs, **{text: math.log(value) for text, value in probabilities.items()}})


def test_the_probability_of_yes_is_summed_over_spellings_and_normalised(ask: Ask, listed: Make) -> None:
    vlm = listed([], [scores(Yes=0.2, yes=0.1, No=0.1), ChoiceScores(None, "api_error", "down"), scores()])
    verdicts = YesNoJudge(vlm).judge([ask(1, "q1"), ask(1, "q2"), ask(2, "q1", "d"), ask(2, "q2", "d")])
    assert verdicts[0].value == pytest.approx(0.75)
    assert [verdict.status for verdict in verdicts] == ["ok", "api_error", "parse_error", "not_applicable"]
    assert "0.4 of the probability" in (verdicts[0].rationale or "")
    assert set(vlm.offered[0]) == {*YES["en"], *NO["en"]}


@given(yes=st.floats(-2000, 0), no=st.floats(-2000, 0))
def test_yes_and_no_are_symmetric_however_small(listed: Make, yes: float, no: float) -> None:
    def value(one: float, other: float) -> float:
        judge = YesNoJudge(listed([]), yes=["Yes"], no=["No"])
        outcome = judge.read(ChoiceScores({"Yes": one, "No": other}))
        assert outcome.value is not None
        return outcome.value

    assert value(yes, no) + value(no, yes) == pytest.approx(1.0)
    assert (value(yes, no) > 0.5) <= (yes >= no)


def test_too_little_mass_is_no_answer(listed: Make) -> None:
    judge = YesNoJudge(listed([]), minimum_mass=0.5)
    assert judge.read(scores(Yes=0.2, No=0.2)).status == "parse_error"
    assert judge.read(scores(Yes=0.4, No=0.2)).status == "ok"


def test_a_spelling_may_not_begin_another() -> None:
    check_spellings([*YES["en"], *NO["en"]])
    check_spellings([*YES["zh"], *NO["zh"]])
    with pytest.raises(UserError, match="'Ye'"):
        check_spellings(["Ye", "Yes", "No"])


def test_form_and_language_are_in_the_fingerprint(listed: Make) -> None:
    vlm = listed([])
    judges: list[Judge] = [
        ChecklistJudge(vlm),
        ChecklistJudge(vlm, language="zh"),
        ChecklistJudge(vlm, form="yes_no"),
        YesNoJudge(vlm),
        YesNoJudge(vlm, yes=["Yes"]),
    ]
    assert len({judge.fingerprint for judge in judges}) == 5


def test_all_questions_about_a_candidate_come_in_one_call(ask: Ask, listed: Make) -> None:
    vlm = listed([Reply("Yes.")] * 8)
    requests = [ask(image, metric) for image in (1, 2, 3) for metric in ("q1", "q2")]
    ChecklistJudge(vlm, batch_size=5).judge(requests)
    assert len(vlm.parameters) == 2  # four and two, where five would cut the third candidate
    pictures = [[id(part) for part in talk[1].content if not isinstance(part, str)] for talk in vlm.asked]
    assert pictures[0] == pictures[1] != pictures[2] == pictures[3]
    vlm.asked.clear()
    vlm.parameters.clear()
    ChecklistJudge(vlm, batch_size=1).judge(requests[:2])
    assert len(vlm.parameters) == 1


def test_that_a_question_does_not_apply_is_no_answer(ask: Ask, listed: Make) -> None:
    verdict = ChecklistJudge(listed([Reply('{"answer": "N/A"}')])).judge([ask(1, "q1")])[0]
    assert (verdict.value, verdict.status) == (None, "parse_error")


def test_one_word_is_read_from_a_reply_that_was_cut_behind_it(ask: Ask, listed: Make) -> None:
    """With two tokens at most, every reply ends by its length."""
    cut = [Reply(text, "truncated", finish_reason="length") for text in ("Yes.", "**No", "The picture", "")]
    vlm = listed([*cut, Reply("no"), Reply("", "api_error", error="down")])
    parameters = GenerationParameters(max_tokens=2)
    requests = [ask(image, metric) for image in (1, 2, 3) for metric in ("q1", "q2")]
    verdicts = ChecklistJudge(vlm, form="yes_no", parameters=parameters).judge(requests)
    assert [one.status if one.value is None else one.value for one in verdicts] == [
        *(1.0, 0.0, "parse_error", "parse_error", 0.0, "api_error"),
    ]
    assert [verdict.raw for verdict in verdicts[:3]] == ["Yes.", "**No", "The picture"]
    assert vlm.parameters[0] == parameters
    words = "".join(part for part in vlm.asked[0][1].content if isinstance(part, str))
    assert words.endswith("with Yes or No and nothing else.")
