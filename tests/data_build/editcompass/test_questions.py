from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_build.editcompass.questions import (
    PACKAGE,
    ask_for_instructions,
    ask_for_prompt,
    read_instructions,
    read_prompt,
)
from data_build.editcompass.tasks import PHOTO_TASKS
from data_build.texts import load_texts, texts_hash
from gnomon.records import Text
from rm.vlm.scripted import prompt_text
from tests.data_build.editcompass.writers import noise


def reply(*entries: object) -> str:
    return json.dumps({"instructions": list(entries)}, ensure_ascii=False)


RED = {"en": "Make the car red.", "zh": "把汽车变成红色。"}
GONE = {"en": "Remove the car.", "zh": "移除汽车。"}


def test_every_task_has_words_of_its_own() -> None:
    written = load_texts(PACKAGE, "propose")["tasks"]

    assert tuple(written) == PHOTO_TASKS
    assert len(set(written.values())) == len(PHOTO_TASKS)
    assert texts_hash(PACKAGE, "propose").startswith("version 1, ")
    assert texts_hash(PACKAGE, "propose") != texts_hash(PACKAGE, "refine")


@pytest.mark.parametrize("task", PHOTO_TASKS)
def test_a_question_shows_the_photograph_and_leaves_no_place_open(task: str) -> None:
    photo = noise(0)
    conversation = ask_for_instructions(photo, task, 3)
    asked = prompt_text(conversation)

    assert [part for message in conversation for part in message.content if part is photo] == [photo]
    assert load_texts(PACKAGE, "propose")["tasks"][task] in asked
    assert "Write 3 instructions" in asked
    assert not {"{task}", "{num}", "{references}"} & set(asked.split())


def test_what_an_expert_writes_cannot_pose_as_our_words() -> None:
    asked = prompt_text(ask_for_prompt('a "dog"\n{instruction}', "causal", Text(en="Drop it.", zh="放下。")))

    assert '"a \\"dog\\"\\n{instruction}"' in asked
    assert asked.count("Drop it.") == 1


def test_instructions_are_read_in_both_languages() -> None:
    for text in (reply(RED, GONE), f"Here:\n```json\n{reply(RED, GONE)}\n```", json.dumps([RED, GONE])):
        reading = read_instructions(text, num=2)
        assert reading.value is not None
        assert [entry.value for entry in reading.value] == [Text(**RED), Text(**GONE)]


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("A fine photograph.", "parse_error", "no answer of the expected form"),
        ("I'm sorry, I cannot help with that.", "refused", "refuses"),
        (reply(RED), "parse_error", "expected 2 instructions, got 1 entries"),
        (reply(RED, GONE, RED), "parse_error", "expected 2 instructions, got 3 entries"),
        ('{"instructions": "as you like"}', "parse_error", "expected 2 instructions, got as you like"),
        ('{"instructions": "N/A"}', "not_applicable", "does not allow"),
        ("N/A", "not_applicable", "does not apply"),
        ('{"instructions": [{"en": "Make', "truncated", "not closed"),
        (reply(RED, GONE) + "\n" + reply(GONE, RED), "parse_error", "contradicts"),
    ],
)
def test_what_is_no_list_of_instructions_has_a_status(text: str, status: str, words: str) -> None:
    reading = read_instructions(text, num=2)

    assert (reading.value, reading.status) == (None, status)
    assert words in (reading.problem or "")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"en": "Remove the car."}, "Chinese text under 'zh', got None"),
        ({"en": "", "zh": "移除汽车。"}, "English text under 'en', got ''"),
        ({"en": "移除汽车。", "zh": "移除汽车。"}, "English text under 'en'"),
        ({"en": "Remove the car.", "zh": "Remove the car."}, "Chinese text under 'zh'"),
        ("Remove the car.", "English text under 'en'"),
        ({"en": "MAKE the car red.", "zh": "另一句。"}, "repeats instruction 1"),
    ],
)
def test_one_wrong_instruction_leaves_the_others(entry: object, words: str) -> None:
    reading = read_instructions(reply(RED, entry, GONE), num=3)

    assert reading.value is not None
    first, wrong, last = reading.value
    assert (first.value, last.value) == (Text(**RED), Text(**GONE))
    assert (wrong.value, wrong.status) == (None, "parse_error")
    assert words in (wrong.problem or "")


@given(st.text(max_size=200), st.integers(1, 4))
def test_reading_never_raises(text: str, num: int) -> None:
    for reading in (read_instructions(text, num=num), read_prompt(text)):
        assert (reading.value is None) == (reading.status != "ok")


def test_a_prompt_is_read_on_one_line() -> None:
    assert read_prompt('{"prompt": "A red\\n car."}').value == "A red car."
    assert read_prompt('{"prompt": "红色汽车"}').status == "parse_error"
    assert read_prompt('{"prompt": 3}').status == "parse_error"
    assert read_prompt('{"prompt": "A car."} or {"prompt": "A bus."}').status == "parse_error"
    assert read_prompt("A red car.").status == "parse_error"
