"""The way that every reply goes, whatever it answers: thinking aside, then JSON, then words; failures have names."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic, TypeVar

from gnomon.records import Status
from rm.protocols.parsing.scan import Scan, children, repair, scan
from rm.vlm.conversation import split_thinking

T = TypeVar("T")


class ParseLevel(StrEnum):
    """How hard it was to read a reply."""

    JSON = "json"  # the reply is JSON and nothing else
    SCAN = "scan"  # valid JSON between other text
    REPAIR = "repair"  # JSON with faults
    WORDS = "words"  # no JSON, but words of a fixed form


@dataclass(frozen=True)
class Parsed(Generic[T]):
    """What a reply says.

    Attributes:
        value: None exactly where `status` is not "ok".
        status: what went wrong otherwise.
        level: how the value was read.
        rationale: the reply's own reason, where it is told apart.
        problem: what went wrong, for people.
    """

    value: T | None
    status: Status = "ok"
    level: ParseLevel | None = None
    rationale: str | None = None
    problem: str | None = None


def failed(status: Status, problem: str) -> Parsed[Any]:
    """Return a reading without a value."""
    return Parsed(None, status, problem=problem)


@dataclass(frozen=True)
class Grammar(Generic[T]):
    """What makes one protocol's replies differ from another's.

    Attributes:
        keys: names of the answer in JSON, as :func:`plain_key` writes them.
        convert: reads the values that stand under such keys in one JSON value.
        words: reads text without JSON; None where there is no answer in it.
        bare: types of JSON that may be the whole reply, without a key.
        like: matches further names of the answer, which count where none of `keys` is there; None for no others.
    """

    keys: tuple[str, ...]
    convert: Callable[[list[Any]], Parsed[T]]
    words: Callable[[str], Parsed[T] | None]
    bare: tuple[type, ...] = ()
    like: re.Pattern[str] | None = None

    @cached_property
    def key_pattern(self) -> re.Pattern[str]:
        """Matches any of the keys in faulty JSON, up to the colon."""
        names = "|".join(r"[\s_-]*".join(map(re.escape, key)) for key in sorted(self.keys, key=len, reverse=True))
        return re.compile(rf"(?:^|[{{,\"'“”‘’])\s*(?:{names})\\*[\"'“”‘’]?\s*[:=]", re.IGNORECASE)


_REASON_KEYS = (
    *("reason", "reasoning", "rationale", "explanation", "justification", "analysis", "thought"),
    *("理由", "原因", "分析", "解释", "说明"),
)
_THINK_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_ANSWER_TAG = re.compile(r"<answer>(.*?)(?:</answer>|$)", re.IGNORECASE | re.DOTALL)
_BOXED = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_FENCED = re.compile(r"```\w*\s(.*?)```", re.DOTALL)
_FINAL = re.compile(
    r"\bfinal\s+(?:answer|verdict|score|rating|decision|judge?ment|choice|result)\b"
    r"|最终(?:的)?(?:答案|结论|评分|得分|判断|判定|选择|结果)",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"(?:can(?:['’]?t|not| not)|could(?:n['’]?t| not)|unable to|not able to|won['’]?t|will not|not capable of)"
    r"\s+(?:\w+\s+){0,3}?(?:assist|help|provid|comply|fulfil|evaluat|judg|rat|analy|answer|complet|process|view|access|see\s+(?:the\s+|any\s+)?(?:image|picture)"
    r"|do that|do this|discuss|engage|assess|compar|offer|continue)"
    r"|\b(?:i['’]?m|i am|we['’]?re)\s+(?:very |so |really )?sorry\b|^\W*sorry\b|\bi apologi[sz]e\b|\bmy apologies\b"
    r"|against (?:my|our|the) (?:\w+\s+)?(?:polic|guideline)|violat\w+ (?:\w+\s+){0,3}polic|content polic"
    r"|\bi (?:must |have to )?(?:decline|refuse)\b|\bas an ai\b"
    r"|抱歉|对不起|很遗憾|无法|不能(?:提供|协助|帮助|回答|评价|评估|完成|处理|评分|判断|对|为|给)|不便(?:提供|回答)|拒绝(?:回答|评价|评估)",
    re.IGNORECASE,
)
_NOT_APPLICABLE = re.compile(r"n\s*/\s*a|not applicable|不适用", re.IGNORECASE)
_CUT_REASONS = {"length", "max_tokens", "max_output_tokens", "max_new_tokens"}
_STOP_REASONS = {"stop", "eos", "eos_token", "end_turn", "stop_sequence"}


def read(text: str | None, grammar: Grammar[T], *, finish_reason: str | None = None, depth: int = 0) -> Parsed[T]:
    """Read a reply; never raises.

    Only what comes after the thinking counts. Answers that contradict each other are a `parse_error`, unless one of
    them comes after words such as "final answer". JSON that is not closed was cut off, and is not read, unless
    `finish_reason` says that the model stopped by itself.

    Args:
        text: what came back.
        grammar: of the protocol.
        finish_reason: the backend's word for how the reply ended, where known.
        depth: how many JSON strings were unwrapped before.
    """
    cut = (finish_reason or "").lower() in _CUT_REASONS
    if not (text or "").strip():
        return failed("truncated" if cut else "parse_error", "the reply is empty")
    tagged = _THINK_TAG.sub(r"<\1think>", text or "")
    answer = split_thinking(tagged)[1]
    if "<think>" in answer or (not answer and (cut or "</think>" not in tagged)):
        return failed("truncated", "the reply ends in the middle of a thought")
    answer = _marked_answer(answer).strip()
    if not answer:
        return failed("parse_error", "the reply thinks and does not answer")
    if is_not_applicable(answer):
        return failed("not_applicable", "the reply says that the question does not apply")
    found = scan(answer)
    if found.whole is not None and isinstance(found.whole.value, str) and depth < 3:
        return read(found.whole.value, grammar, finish_reason=finish_reason, depth=depth + 1)
    if found.unclosed is not None and (finish_reason or "").lower() not in _STOP_REASONS:
        return failed("truncated", "the reply's JSON is not closed")
    result = _from_json(answer, found, grammar) or (None if cut else _from_words(answer, found, grammar))
    if result is not None:
        return result
    if cut:
        return failed("truncated", "the reply was cut off before its answer")
    if _REFUSAL.search(answer):
        return failed("refused", "the reply refuses")
    return failed("parse_error", "the reply holds no answer of the expected form")


def _marked_answer(text: str) -> str:
    """Return what stands between answer tags, or in the last box, or else everything."""
    marked = [match for match in _ANSWER_TAG.findall(text) if match.strip()] or _BOXED.findall(text)
    return marked[-1] if marked else text


def _from_json(text: str, found: Scan, grammar: Grammar[T]) -> Parsed[T] | None:
    if found.whole is not None:
        whole = _from_value(found.whole.value, grammar) or _from_bare(found.whole.value, grammar)
        return None if whole is None else replace(whole, level=ParseLevel.JSON)
    if (fenced := _FENCED.fullmatch(text.strip())) is not None and (inside := scan(fenced[1]).whole) is not None:
        bare = _from_bare(inside.value, grammar)
        if bare is not None:
            return replace(bare, level=ParseLevel.SCAN)
    valid = [(item.start, _from_value(item.value, grammar)) for item in found.found]
    if any(reading is not None for _, reading in valid):
        return _agreed(text, valid, ParseLevel.SCAN)
    spans = [*found.broken, *([(found.unclosed, len(text))] if found.unclosed is not None else [])]
    mended = [
        (start, _from_value(repair(text[start:end], is_answer=grammar.key_pattern), grammar)) for start, end in spans
    ]
    return _agreed(text, mended, ParseLevel.REPAIR)


def _from_bare(value: Any, grammar: Grammar[T]) -> Parsed[T] | None:
    """Read a value that is the whole answer, without a key."""
    return grammar.convert([value]) if isinstance(value, grammar.bare) else None


def _from_value(value: Any, grammar: Grammar[T]) -> Parsed[T] | None:
    values = find_values(value, grammar.keys.__contains__)
    if not values and grammar.like is not None:
        like = grammar.like
        values = find_values(value, lambda key: like.search(key) is not None)
    if not values:
        return None
    reasons = find_values(value, _REASON_KEYS.__contains__)
    texts = [
        reason if isinstance(reason, str) else json.dumps(reason, ensure_ascii=False, default=str) for reason in reasons
    ]
    return replace(grammar.convert(values), rationale="\n".join(texts) or None)


def _agreed(text: str, readings: Sequence[tuple[int, Parsed[T] | None]], level: ParseLevel) -> Parsed[T] | None:
    """Return the one answer that all JSON in a reply gives; a form to be filled in is no answer."""
    answers = [(start, reading) for start, reading in readings if reading is not None]
    answers = [(start, reading) for start, reading in answers if reading.status != "parse_error"] or answers[:1]
    if len(_distinct(answers)) > 1 and (final := final_position(text)) is not None:
        answers = [(start, reading) for start, reading in answers if start >= final] or answers
    if len(_distinct(answers)) > 1:
        return replace(failed("parse_error", "the reply's JSON contradicts itself"), level=level)
    return replace(answers[-1][1], level=level) if answers else None


def _distinct(answers: Iterable[tuple[int, Parsed[T]]]) -> set[tuple[str, str]]:
    return {(reading.status, repr(reading.value)) for _, reading in answers}


def _from_words(text: str, found: Scan, grammar: Grammar[T]) -> Parsed[T] | None:
    if found.whole is not None and isinstance(found.whole.value, dict | list):
        return None
    for item in reversed(found.found):  # what JSON says of other things is no prose
        text = text[: item.start] + " " + text[item.end :]
    reading = grammar.words(plain_text(text))
    return None if reading is None else replace(reading, level=ParseLevel.WORDS, rationale=text.strip() or None)


def final_position(text: str) -> int | None:
    """Return where the last words that announce a final answer begin; None where there are none."""
    positions = [match.start() for match in _FINAL.finditer(text)]
    return positions[-1] if positions else None


def plain_text(text: str) -> str:
    """Return text in half-width characters and without Markdown's emphasis."""
    text = unicodedata.normalize("NFKC", text)
    return re.sub(r"\*+|__|`+|^\s*#+\s*|^\s*>\s+", "", text, flags=re.MULTILINE)


def plain_key(key: str) -> str:
    """Return a key in half-width lower case without blanks, underscores, hyphens and what stands in brackets."""
    return re.sub(r"[\W_]+", "", re.sub(r"\(.*?\)|\[.*?\]", "", unicodedata.normalize("NFKC", key).lower()))


def find_values(value: Any, wanted: Callable[[str], bool]) -> list[Any]:
    """Return what stands under `wanted` keys in a JSON value, at the shallowest depth where any of them stands."""
    level = [value]
    while level:
        objects = [item for item in level if isinstance(item, dict)]
        values = [inner for item in objects for key, inner in item.items() if wanted(plain_key(str(key)))]
        if values:
            return values
        level = [inner for item in level for inner in children(item)]
    return []


def is_not_applicable(text: str) -> bool:
    """Tell whether a text says "N/A" and nothing else."""
    return _NOT_APPLICABLE.fullmatch(unicodedata.normalize("NFKC", text).strip(" \t\r\n.。\"'")) is not None


def one_of(values: Sequence[T], problem: str) -> Parsed[T] | None:
    """Return the one value that all of `values` are, None where there are none, a `parse_error` where they differ."""
    if not values:
        return None
    if any(value != values[0] for value in values):
        return failed("parse_error", problem)
    return Parsed(values[0])


def same(readings: Sequence[Parsed[T]], problem: str) -> Parsed[T]:
    """Return the reading that all of `readings` (at least one) are, or a `parse_error` where they differ."""
    first = readings[0]
    if any((reading.status, reading.value) != (first.status, first.value) for reading in readings):
        return failed("parse_error", problem)
    return first


def count_table(readings: Iterable[Parsed[Any]]) -> tuple[Counter[str], Counter[str]]:
    """Return how many readings there are of each status, and of those that are "ok" of each level."""
    statuses: Counter[str] = Counter()
    levels: Counter[str] = Counter()
    for reading in readings:
        statuses[reading.status] += 1
        if reading.status == "ok":
            levels[str(reading.level)] += 1
    return statuses, levels
