"""What models are asked for photographs and scenarios, by our own texts, and how their replies are read."""

from __future__ import annotations

import re
from typing import Any

from PIL import Image

from data_build.texts import load_texts
from gnomon.records import Text
from rm.protocols.parsing import Parsed
from rm.protocols.parsing.core import Grammar, failed, is_not_applicable, read, same
from rm.protocols.templates import compose, quoted
from rm.vlm.conversation import Conversation

PACKAGE = "data_build.editcompass"
_INSTRUCTION_KEYS = ("instructions", "editinstructions", "edits", "proposals", "candidates", "指令", "编辑指令")
_PROMPT_KEYS = ("prompt", "refinedprompt", "enhancedprompt", "imageprompt", "提示词")
_LANGUAGES = {
    "en": (re.compile(r"[A-Za-z]"), "an English text"),
    "zh": (re.compile(r"[\u3400-\u9fff]"), "a Chinese text"),
}


def ask_for_instructions(photo: Image.Image, task: str, num: int) -> Conversation:
    """Return the question for `num` instructions of one task about a photograph."""
    form = load_texts(PACKAGE, "propose")
    values = {"task": form["tasks"][task], "num": str(num)}
    return compose(form, language="en", references=[photo], candidates=[], values=values, names=["Photograph"])


def ask_for_prompt(description: str, task: str, instruction: Text) -> Conversation:
    """Return the question for the prompt of one picture of a scenario."""
    values = {
        "description": quoted(description),
        "task": task.replace("_", " "),
        "instruction": quoted(instruction.get("en")),
    }
    return compose(load_texts(PACKAGE, "refine"), language="en", references=[], candidates=[], values=values)


def read_instructions(
    text: str | None, *, num: int, finish_reason: str | None = None
) -> Parsed[tuple[Parsed[Text], ...]]:
    """Read a reply of `num` instructions in two languages; each of them may be wrong by itself.

    Another number of entries is a `parse_error` of the whole reply: nobody knows which of them were meant.
    """

    def convert(values: list[Any]) -> Parsed[tuple[Parsed[Text], ...]]:
        return same([_instructions(value, num) for value in values], "the reply gives several lists that differ")

    grammar = Grammar(_INSTRUCTION_KEYS, convert, lambda _: None, bare=(list,))
    return read(text, grammar, finish_reason=finish_reason)


def _instructions(value: Any, num: int) -> Parsed[tuple[Parsed[Text], ...]]:
    if isinstance(value, str) and is_not_applicable(value):
        return failed("not_applicable", "the reply says that the photograph does not allow this kind of edit")
    if not isinstance(value, list) or len(value) != num:
        got = f"{len(value)} entries" if isinstance(value, list) else str(value)[:40]
        return failed("parse_error", f"expected {num} instructions, got {got}")
    readings: list[Parsed[Text]] = []
    for entry in value:
        reading = _instruction(entry)
        earlier = [number for number, other in enumerate(readings, start=1) if _is_same(other.value, reading.value)]
        readings.append(failed("parse_error", f"repeats instruction {earlier[0]}") if earlier else reading)
    return Parsed(tuple(readings))


def _instruction(entry: Any) -> Parsed[Text]:
    found = {}
    for language, (letters, wanted) in _LANGUAGES.items():
        text = entry.get(language) if isinstance(entry, dict) else None
        if not isinstance(text, str) or not letters.search(text):
            return failed("parse_error", f"expected {wanted} under '{language}', got {text!r:.60}")
        found[language] = text.strip()
    return Parsed(Text(**found))


def _is_same(one: Text | None, two: Text | None) -> bool:
    if one is None or two is None:
        return False
    return any(one.get(language).casefold() == two.get(language).casefold() for language in _LANGUAGES)


def read_prompt(text: str | None, *, finish_reason: str | None = None) -> Parsed[str]:
    """Read a reply that holds one prompt."""

    def convert(values: list[Any]) -> Parsed[str]:
        return same([_prompt(value) for value in values], "the reply gives several prompts that differ")

    return read(text, Grammar(_PROMPT_KEYS, convert, lambda _: None), finish_reason=finish_reason)


def _prompt(value: Any) -> Parsed[str]:
    if not isinstance(value, str) or not _LANGUAGES["en"][0].search(value):
        return failed("parse_error", f"expected an English prompt, got {value!r:.60}")
    return Parsed(" ".join(value.split()))
