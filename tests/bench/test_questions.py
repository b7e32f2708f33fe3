"""Right answers, and dependencies between questions, by hand."""

from __future__ import annotations

import pytest

from bench.questions import right_answers, with_dependencies
from gnomon.records import Question, Text


def test_a_question_under_a_denied_parent_counts_as_no() -> None:
    scores = {"hat": 0.0, "red": 1.0, "dog": 1.0, "both": 1.0}
    parents = {"red": ["hat"], "both": ["dog", "hat"]}
    assert with_dependencies(scores, parents) == {"hat": 0.0, "red": 0.0, "dog": 1.0, "both": 0.0}


def test_a_parent_counts_by_its_own_answer() -> None:
    scores = {"hat": 0.0, "red": 1.0, "bright": 1.0}
    assert with_dependencies(scores, {"red": ["hat"], "bright": ["red"]}) == {"hat": 0.0, "red": 0.0, "bright": 1.0}


def test_failures_stay_failures_unless_a_parent_is_denied() -> None:
    scores = {"hat": None, "red": 1.0, "dog": 0.0, "tail": None, "ear": None}
    parents = {"red": ["hat"], "tail": ["dog"], "ear": ["hat"]}
    assert with_dependencies(scores, parents) == {"hat": None, "red": 1.0, "dog": 0.0, "tail": 0.0, "ear": None}


def test_a_question_may_name_itself_or_a_circle() -> None:
    scores = {"a": 1.0, "b": 1.0, "c": 0.0}
    assert with_dependencies(scores, {"a": ["a", "b"], "b": ["a"], "c": ["c"]}) == scores


def test_unknown_parents_are_named() -> None:
    with pytest.raises(ValueError, match="unknown ones: hat"):
        with_dependencies({"red": 1.0}, {"red": ["hat"]})


def question(name: str, *, expected: bool = True, depends_on: str | None = None) -> Question:
    parents = [] if depends_on is None else [depends_on]
    return Question(id=name, text=Text(en=name), dimension="following", expected=expected, depends_on=parents)


def test_an_answer_is_right_where_it_is_the_expected_one_and_likely_counts_as_yes() -> None:
    questions = [question("hat"), question("scar", expected=False), question("dog"), question("tail", depends_on="dog")]
    values = {"hat": 0.5, "scar": 0.49, "dog": 0.2, "tail": 0.9}
    assert right_answers(questions, values) == {"hat": 1.0, "scar": 1.0, "dog": 0.0, "tail": 0.0}


def test_what_has_no_answer_is_neither_right_nor_wrong() -> None:
    questions = [question("hat"), question("red", depends_on="hat"), question("scar", expected=False)]
    assert right_answers(questions, {"hat": None, "red": 1.0}) == {"hat": None, "red": 1.0, "scar": None}
