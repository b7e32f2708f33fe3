"""Records refuse what cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from gnomon.records import (
    Candidate,
    Case,
    ComparedImage,
    Comparison,
    Judgement,
    Question,
    Reference,
    Status,
    Text,
    Verdict,
)

PAIR = [ComparedImage(path="a.png"), ComparedImage(path="b.png")]


def comparison(**changes: Any) -> Comparison:
    fields: dict[str, Any] = {
        "id": "c",
        "instruction": Text(en="make it red"),
        "candidates": PAIR,
        "judgements": [Judgement(i=0, j=1, dimension="overall", label="i")],
        "group_id": "g",
    }
    return Comparison(**(fields | changes))


def test_a_text_falls_back_to_the_language_that_it_has() -> None:
    text = Text(zh="变红")
    assert text.get("zh") == text.get("en") == "变红"
    assert Text(en="red", zh="变红").get("en") == "red"
    with pytest.raises(ValueError, match="'en' or 'zh', got 'fr'"):
        text.get("fr")


@pytest.mark.parametrize("fields", [{}, {"en": ""}, {"en": None, "zh": ""}])
def test_a_text_without_any_language_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="expected a text under 'en' or 'zh'"):
        Text(**fields)


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (Text, {"en": "x"}),
        (Reference, {"path": "a.png"}),
        (Case, {"id": "a", "benchmark": "b", "task": "t", "instruction": {"en": "x"}}),
        (Candidate, {"case_id": "a", "generator": "g", "seed": 0, "path": "a.png"}),
        (Judgement, {"i": 0, "j": 1, "dimension": "d", "label": "tie"}),
        (Question, {"id": "q", "text": {"en": "x"}, "dimension": "d"}),
        (Verdict, {"case_id": "a", "generator": "g", "metric": "m", "value": 1.0, "judge": "j"}),
    ],
)
def test_a_misspelt_key_is_refused_and_a_record_cannot_be_changed(
    model: type[BaseModel], fields: dict[str, Any]
) -> None:
    record = model(**fields)
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        model(**fields, pth="x")
    with pytest.raises(ValidationError, match="frozen"):
        setattr(record, next(iter(fields)), "other")


@pytest.mark.parametrize(("i", "j"), [(0, 0), (0, 2), (5, 1)])
def test_judgements_are_between_two_candidates_that_exist(i: int, j: int) -> None:
    with pytest.raises(ValidationError, match=rf"candidates 0\.\.1, got i={i}, j={j}"):
        comparison(judgements=[Judgement(i=i, j=j, dimension="overall", label="i")])


def test_a_comparison_needs_two_candidates_and_a_judgement() -> None:
    with pytest.raises(ValidationError, match="candidates"):
        comparison(candidates=PAIR[:1])
    with pytest.raises(ValidationError, match="judgements"):
        comparison(judgements=[])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_are_finite(value: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        ComparedImage(path="a.png", scores={"overall": value})


@pytest.mark.parametrize(("value", "status"), [(None, "ok"), (1.0, "parse_error")])
def test_a_failure_is_a_status_and_never_a_number(value: float | None, status: Status) -> None:
    fields: dict[str, Any] = {"case_id": "a", "generator": "g", "metric": "m", "judge": "j"}
    with pytest.raises(ValidationError, match="expected a value exactly when status is 'ok'"):
        Verdict(**fields, value=value, status=status)
    assert Verdict(**fields, value=None, status="refused").value is None


def test_the_questions_of_a_case_are_told_apart_and_depend_on_each_other_alone() -> None:
    red = Question(id="red", text=Text(en="Is the hat red?"), dimension="following", depends_on=["hat"])
    hat = Question(id="hat", text=Text(en="Is there a hat?"), dimension="following")
    fields: dict[str, Any] = {"id": "c", "benchmark": "b", "task": "t", "instruction": Text(en="a red hat")}
    assert Case(**fields, questions=[red, hat]).questions[0].depends_on == ["hat"]
    with pytest.raises(ValidationError, match="several of hat"):
        Case(**fields, questions=[hat, hat])
    with pytest.raises(ValidationError, match="got hat"):
        Case(**fields, questions=[red])
