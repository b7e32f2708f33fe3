"""How replies with an instruction, or with a checklist, are read: a value, or the name of what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, cast

from pydantic import Field

from bench.mdmr.cases import WEIGHTS
from data_build.mdmr.asking import PROBLEMS
from gnomon.records import Record, Text
from rm.protocols.parsing import Parsed, read_checklist
from rm.protocols.parsing.core import Grammar, failed, read, same

_CASE_KEYS = ("case", "sample", "verdict", "案例")
_CHECKLIST_KEYS = ("checklist", "questions", "checks", "问题", "检查清单")
_LETTERS = {
    "en": (re.compile(r"[A-Za-z]"), "an English text"),
    "zh": (re.compile(r"[\u3400-\u9fff]"), "a Chinese text"),
}
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|「[^」]*」|《[^》]*》")
_REFERENCE = re.compile(r"\breferences?\s*#?(\d+)|参考\s*图?像?图?\s*(\d+)|图像?\s*(\d+)", re.IGNORECASE)

Level = Literal["global", "atomic"]


class CheckedCase(Record):
    """What a model says of a sample.

    Attributes:
        valid: whether the references make up a good case.
        problem: out of :data:`data_build.mdmr.asking.PROBLEMS`, where they do not.
        explanation: the model's own words.
        instruction: in English and Chinese, exactly where they do.
    """

    valid: bool
    problem: str | None = None
    explanation: str | None = None
    instruction: Text | None = None


class DraftQuestion(Record):
    """One entry of a checklist as a model wrote it, short of links and doubles being looked at."""

    text: Text
    dimension: str
    level: Level
    expected: bool
    about: list[str] = Field(min_length=1)


def read_case(text: str | None, *, num_references: int, finish_reason: str | None = None) -> Parsed[CheckedCase]:
    """Read a reply that checks a sample of so many references and, where it is valid, holds its instruction."""

    def convert(values: list[Any]) -> Parsed[CheckedCase]:
        return same([_case(value, num_references) for value in values], "the reply gives several cases that differ")

    return read(text, Grammar(_CASE_KEYS, convert, lambda _: None), finish_reason=finish_reason)


def _case(value: Any, num_references: int) -> Parsed[CheckedCase]:
    if not isinstance(value, dict) or not isinstance(value.get("valid"), bool):
        return failed("parse_error", f"expected an object with 'valid': true or false, got {value!r:.60}")
    reason = value.get("reason")
    explanation = reason.strip() if isinstance(reason, str) and reason.strip() else None
    if not value["valid"]:
        problem = value.get("problem")
        if problem not in PROBLEMS:
            return failed("parse_error", f"expected a problem out of {', '.join(PROBLEMS)}, got {problem!r:.60}")
        return Parsed(CheckedCase(valid=False, problem=problem, explanation=explanation))
    instruction = read_text(value, num_references)
    if instruction.value is None:
        return failed(instruction.status, instruction.problem or "no instruction")
    return Parsed(CheckedCase(valid=True, explanation=explanation, instruction=instruction.value))


def read_text(entry: Any, num_references: int) -> Parsed[Text]:
    """Read a text in English and Chinese that speaks of no reference that the case does not have."""
    found: dict[str, str] = {}
    for language, (letters, wanted) in _LETTERS.items():
        text = entry.get(language) if isinstance(entry, dict) else None
        if not isinstance(text, str) or not letters.search(text):
            return failed("parse_error", f"expected {wanted} under '{language}', got {text!r:.60}")
        found[language] = " ".join(text.split())
        beyond = [number for number in mentioned_references(text) if not 1 <= number <= num_references]
        if beyond:
            return failed("parse_error", f"speaks of reference {beyond[0]}, the case has {num_references}: {text:.60}")
    return Parsed(Text(**found))


def mentioned_references(text: str) -> list[int]:
    """Return the numbers of the references that a text speaks of, in English or Chinese; quoted words do not count."""
    return [int(match[1] or match[2] or match[3]) for match in _REFERENCE.finditer(_QUOTED.sub(" ", text))]


def read_questions(
    text: str | None, *, num_references: int, finish_reason: str | None = None
) -> Parsed[tuple[Parsed[DraftQuestion], ...]]:
    """Read a reply with a checklist for so many references; each question may be wrong by itself."""

    def convert(values: list[Any]) -> Parsed[tuple[Parsed[DraftQuestion], ...]]:
        lists = [_questions(value, num_references) for value in values]
        return same(lists, "the reply gives several checklists that differ")

    grammar = Grammar(_CHECKLIST_KEYS, convert, lambda _: None, bare=(list,))
    return read(text, grammar, finish_reason=finish_reason)


def _questions(value: Any, num_references: int) -> Parsed[tuple[Parsed[DraftQuestion], ...]]:
    if not isinstance(value, list) or not value:
        return failed("parse_error", f"expected a list of questions, got {value!r:.60}")
    return Parsed(tuple(map(partial(_question, num_references=num_references), value)))


def _question(entry: Any, *, num_references: int) -> Parsed[DraftQuestion]:
    text = read_text(entry, num_references)
    if text.value is None:
        return failed(text.status, text.problem or "no text")
    if not all(one.rstrip("\"'”’)） ").endswith(("?", "？")) for one in (text.value.en or "", text.value.zh or "")):
        return failed("parse_error", f"expected questions, got {text.value.en!r:.60}")
    for key, allowed in (("dimension", tuple(WEIGHTS)), ("level", ("global", "atomic"))):
        if entry.get(key) not in allowed:
            return failed("parse_error", f"expected a {key} out of {', '.join(allowed)}, got {entry.get(key)!r:.60}")
    expected = entry.get("expected")
    answer = Parsed(expected) if isinstance(expected, bool) else read_checklist(str(expected))
    if answer.value is None:
        return failed("parse_error", f"expected yes or no under 'expected', got {expected!r:.60}")
    about = _names(entry.get("about"))
    if not about:
        return failed("parse_error", f"expected names under 'about', got {entry.get('about')!r:.60}")
    return Parsed(
        DraftQuestion(
            text=text.value,
            dimension=entry["dimension"],
            level=cast("Level", entry["level"]),
            expected=answer.value,
            about=about,
        )
    )


def _names(value: Any) -> list[str]:
    """Return the different names in a list, or one name; none where it is neither."""
    names: Iterable[Any] = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    found = [name.strip().lower() if isinstance(name, str) else "" for name in names]
    return list(dict.fromkeys(found)) if all(found) else []
