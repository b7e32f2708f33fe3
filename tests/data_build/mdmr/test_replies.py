from __future__ import annotations

import json
from typing import Any

import pytest

from data_build.mdmr.asking import CHECKLIST_SCHEMA, INSTRUCTION_SCHEMA, PROBLEMS
from data_build.mdmr.replies import CheckedCase, DraftQuestion, mentioned_references, read_case, read_questions
from gnomon.records import Text

GOOD = {
    "valid": True,
    "problem": None,
    "reason": "They fit.",
    "en": "Put the cat on the sofa.",
    "zh": "把猫放在沙发上。",
}
QUESTION: dict[str, Any] = {
    "dimension": "following",
    "level": "atomic",
    "about": ["reference-1"],
    "expected": "yes",
    "en": "Is the cat of reference 1 on the sofa?",
    "zh": "参考图1的猫在沙发上吗？",
}


def case(**changes: Any) -> str:
    return json.dumps({"case": GOOD | changes}, ensure_ascii=False)


def test_a_valid_case_has_its_instruction_in_both_languages() -> None:
    expected = CheckedCase(
        valid=True, explanation="They fit.", instruction=Text(en="Put the cat on the sofa.", zh="把猫放在沙发上。")
    )
    for text in (case(), f"Here it is:\n```json\n{case()}\n```", f"<think>{case(en='No.')}</think>{case()}"):
        assert read_case(text, num_references=2).value == expected


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_case_that_is_not_valid_says_why(problem: str) -> None:
    parsed = read_case(case(valid=False, problem=problem, en=None, zh=None), num_references=2)
    assert parsed.value == CheckedCase(valid=False, problem=problem, explanation="They fit.")


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        (case(valid="yes"), "parse_error", "'valid': true or false"),
        (case(valid=False, problem="ugly"), "parse_error", "expected a problem out of unclear_reference"),
        (case(zh=None), "parse_error", "a Chinese text under 'zh', got None"),
        (case(zh="Put it."), "parse_error", "a Chinese text under 'zh'"),
        (case(en="把猫放在沙发上。"), "parse_error", "an English text under 'en'"),
        (case(en="Add reference 3 to reference 1."), "parse_error", "speaks of reference 3, the case has 2"),
        (case(zh="把参考图9放进去。"), "parse_error", "speaks of reference 9"),
        ("I cannot help with that.", "refused", "refuses"),
        ('{"case": {"valid": true, "en": "Put', "truncated", "not closed"),
        ("A fine case.", "parse_error", "no answer of the expected form"),
        (f"{case()} {case(en='Remove the cat.')}", "parse_error", "contradicts itself"),
        ("", "parse_error", "empty"),
    ],
)
def test_what_is_wrong_with_a_case_has_a_name(text: str, status: str, words: str) -> None:
    parsed = read_case(text, num_references=2)
    assert (parsed.value, parsed.status) == (None, status)
    assert words in (parsed.problem or "")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Put reference 1 and Reference 12 together.", [1, 12]),
        ("把参考图1和参考图 2放在一起，像图3那样。", [1, 2, 3]),
        ('Write "reference 7" on reference 1.', [1]),
        ("写上“图7”。", []),
        ("Use 3 hats.", []),
    ],
)
def test_references_that_a_text_speaks_of(text: str, numbers: list[int]) -> None:
    assert mentioned_references(text) == numbers


def test_a_checklist_is_read_question_by_question() -> None:
    entries = [QUESTION, QUESTION | {"expected": False, "about": " Instruction "}, QUESTION | {"dimension": "beauty"}]
    for text in (json.dumps({"checklist": entries}), json.dumps(entries)):
        parsed = read_questions(text, num_references=1)
        assert parsed.value is not None
        first, second, third = parsed.value
        assert first.value == DraftQuestion(
            text=Text(en=QUESTION["en"], zh=QUESTION["zh"]),
            dimension="following",
            level="atomic",
            expected=True,
            about=["reference-1"],
        )
        assert second.value is not None
        assert (second.value.expected, second.value.about) == (False, ["instruction"])
        assert (third.value, third.status) == (None, "parse_error")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dimension": "Following"}, "a dimension out of following, consistency"),
        ({"dimension": ["following"]}, "a dimension out of"),
        ({"level": "local"}, "a level out of global, atomic"),
        ({"expected": "maybe"}, "yes or no under 'expected', got 'maybe'"),
        ({"expected": None}, "yes or no under 'expected', got None"),
        ({"about": []}, "names under 'about'"),
        ({"about": [1]}, "names under 'about'"),
        ({"about": None}, "names under 'about'"),
        ({"en": "The cat is there."}, "expected questions"),
        ({"zh": "猫在那里。"}, "expected questions"),
        ({"zh": ""}, "a Chinese text"),
        ({"en": "Is reference 2 there?"}, "speaks of reference 2, the case has 1"),
    ],
)
def test_a_question_outside_the_schema_is_named(changes: dict[str, Any], words: str) -> None:
    parsed = read_questions(json.dumps({"checklist": [QUESTION | changes, QUESTION]}), num_references=1)
    assert parsed.value is not None
    first, second = parsed.value
    assert (first.value, first.status) == (None, "parse_error")
    assert words in (first.problem or "")
    assert second.value is not None


@pytest.mark.parametrize("text", ['{"checklist": []}', '{"checklist": "none"}', "Yes", '{"checklist": {"en": "?"}}'])
def test_a_reply_that_is_no_checklist_is_a_status(text: str) -> None:
    assert read_questions(text, num_references=1).status == "parse_error"


def test_entries_that_are_no_objects_are_named() -> None:
    parsed = read_questions('{"checklist": ["Is it red?", null]}', num_references=1)
    assert parsed.value is not None
    assert [entry.status for entry in parsed.value] == ["parse_error"] * 2


def test_schemas_ask_for_what_is_read() -> None:
    properties = INSTRUCTION_SCHEMA["properties"]["case"]
    assert set(properties["required"]) == set(properties["properties"]) == set(GOOD)
    items = CHECKLIST_SCHEMA["properties"]["checklist"]["items"]
    assert set(items["required"]) == set(items["properties"]) == set(QUESTION)
