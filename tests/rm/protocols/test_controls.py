"""Judges of checklists that do not look: no picture is opened, no picture is shown."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gnomon.errors import UserError
from gnomon.records import Question, Text
from rm.judge import Judge, JudgeRequest
from rm.protocols.checklist import ChecklistJudge
from rm.protocols.controls import ConstantJudge
from rm.protocols.yes_no import NO, YES, YesNoJudge
from rm.vlm.conversation import ChoiceScores, Reply

Ask = Callable[..., JudgeRequest]


@pytest.fixture(name="ask")
def ask_with_a_question(ask: Ask) -> Ask:
    """A function that makes a request about a case with one question, which no is the right answer to."""

    def make(image: int | str | None, metric: str = "q1") -> JudgeRequest:
        request = ask(image, metric)
        question = Question(id="q1", text=Text(en="Is it cut off?", zh="被截断了吗？"), dimension="d", expected=False)
        return replace(request, case=request.case.model_copy(update={"questions": [question]}))

    return make


@pytest.mark.parametrize(("answer", "value"), [("yes", 1.0), ("no", 0.0)])
def test_a_constant_answer_is_given_to_every_question_without_a_look(ask: Ask, answer: Any, value: float) -> None:
    judge: Judge = ConstantJudge(answer)
    verdicts = judge.judge([ask(1), ask("broken"), ask(None), ask(1, "q2")])
    assert [(verdict.value, verdict.status) for verdict in verdicts] == [
        (value, "ok"),
        (value, "ok"),
        (None, "missing_output"),
        (None, "not_applicable"),
    ]
    assert judge.name == f"always-{answer}"
    assert verdicts[0].question_id == "q1"


def test_constant_judges_differ_and_know_two_answers() -> None:
    assert ConstantJudge("yes").fingerprint != ConstantJudge("no").fingerprint
    with pytest.raises(UserError, match="'maybe'"):
        ConstantJudge("maybe")  # type: ignore[arg-type]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_without_pictures_instruction_and_question_are_all_that_is_shown(
    ask: Ask, listed: Callable[..., Any], language: str
) -> None:
    likely = ChoiceScores({text: math.log(0.1) for text in (*YES[language], *NO[language])})
    vlm = listed([Reply('{"answer": "Y"}')], [likely])
    kinds: list[Any] = [ChecklistJudge, YesNoJudge]
    judges = [kind(vlm, look=False, language=language) for kind in kinds]
    verdicts = [verdict for judge in judges for verdict in judge.judge([ask("broken")])]
    assert [verdict.value for verdict in verdicts] == [1.0, 0.5]
    assert [verdict.image_hashes for verdict in verdicts] == [[], []]
    question, instruction = {"en": ("Is it cut off?", "score of 10"), "zh": ("被截断了吗？", "变红")}[language]
    for talk in vlm.asked:
        words = "".join(part for message in talk for part in message.content if isinstance(part, str))
        assert all(isinstance(part, str) for message in talk for part in message.content)
        assert question in words
        assert instruction in words
        assert "{" not in words.replace('{"reason"', "")
    seeing = [kind(vlm, language=language) for kind in kinds]
    assert not {judge.fingerprint for judge in judges} & {judge.fingerprint for judge in seeing}
    assert all("text only" in judge.name for judge in judges)
