"""Replies that give scores: one number (a rubric), or a list of them."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from functools import partial
from typing import Any

from gnomon.errors import UserError
from rm.protocols.parsing.core import (
    Grammar,
    Parsed,
    failed,
    final_position,
    find_values,
    is_not_applicable,
    plain_key,
    read,
    same,
)

SCORE_KEYS = (
    *("score", "rating", "finalscore", "finalrating", "overallscore", "overallrating"),
    *("评分", "分数", "得分", "打分", "总分", "总评分", "综合评分", "综合得分", "最终评分", "最终得分"),
)
LIST_KEYS = (*SCORE_KEYS, "scores", "ratings", "评分列表", "各项评分", "各项得分")

# "instruction_score", "score 2", "视觉质量评分"; not "max_score"
LIKE_SCORE = re.compile(r"^(?!max|min|full|possible|满分).*(?:score|rating|评分|得分|分数)\d*$")

_BARE = (int, float, list)

_NUMBER = r"(?P<number>[+-]?\d+(?:\.\d+)?)"
_OUT_OF = r"(?:\s*(?:/|out\s+of)\s*(?P<denominator>\d+(?:\.\d+)?))?"
# What may follow a score. "8 objects", "7-8", "8, 7" and "80%" are not scores of 8, 7, 8 and 80.
_REASON_WORD = r"\s+(?:because|since|as\b|due\b|for\b|reason|rationale|explanation|justification|理由|原因)"
_TAIL = (
    rf"(?=\s*$|\s*[;!?)\]}}\n。、|<(\"']|\s*\.(?!\d)|\s*,(?!\s*[+-]?\d)|\s*:(?!\d)|\s+[–—-]\s(?!\s*\d)|{_REASON_WORD})"
)
_UNIT = r"(?:\s*(?:分|points?\b|pts?\b))?"
_VALUE = rf"{_NUMBER}(?![\d%]){_OUT_OF}{_UNIT}{_TAIL}"
_ALONE = re.compile(rf"(?:(?:score|rating|评分|得分|分数)\s*[:=]?\s*)?{_VALUE}", re.IGNORECASE)

# Words before "score" that make it the scale's and not the picture's.
_NOT_OF_SCALE = "".join(
    rf"(?<!\b{word}\s)"
    for word in ("max", "min", "maximum", "minimum", "maximal", "minimal", "highest", "lowest", "possible", "perfect")
)
_NAME = rf"(?:{_NOT_OF_SCALE}\b(?:score|rating)|评分|得分|分数|打分|总分)"
_SEPARATOR = r"[\"']?(?:\s*\([^()\n]*\))?\s*(?:[:=|>]|\bis\b|\bof\b|为|是|\s[–—-]\s)+\s*:?\s*[\"']?"
_GIVEN = r"(?P<given>[+-]?\d+(?:\.\d+)?)\s*分(?!\s*(?:表示|代表|为|是|以|到|至|意味|[~-]))"
_LABELLED = re.compile(rf"{_NAME}(?P<index>\s*\d)?{_SEPARATOR}{_VALUE}|(?:打(?:了|出)?|评分|得分)\s*{_GIVEN}", re.I)
_RATED = re.compile(
    rf"(?:\b(?:rated?|give|gave|assign|award|grade|score|rating)\b|评分|得分)[^.\n\d]{{0,60}}?{_NUMBER}(?=\s*(?:/|out\s+of)){_OUT_OF}{_TAIL}",
    re.IGNORECASE,
)
_LABELLED_LIST = re.compile(rf"{_NAME[:-1]}|scores|ratings){_SEPARATOR}(?P<list>\[[^\[\]]*\])", re.IGNORECASE)
_LABELLED_NA = re.compile(rf"{_NAME}{_SEPARATOR}(?:n\s*/\s*a|not applicable|不适用)(?!\w)", re.IGNORECASE)
_OVERALL = re.compile(r"(?:overall|final|total|综合|最终)\W{0,3}\w{0,8}\W{0,3}$", re.IGNORECASE)
_LINE = re.compile(rf"\s*(?:[-•]|\d+[.)])?\s*[^\W\d][^:=\n\d]{{0,60}}[:=]\s*{_VALUE}\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Scale:
    """The numbers that a score may be, ends included."""

    minimum: float = 0.0
    maximum: float = 10.0

    def __post_init__(self) -> None:
        """Check the ends.

        Raises:
            UserError: when they are not two finite numbers in order.
        """
        if not (math.isfinite(self.minimum) and math.isfinite(self.maximum) and self.minimum < self.maximum):
            raise UserError(
                f"expected a scale's minimum below its maximum, got {self.minimum:g} and {self.maximum:g}; "
                "mend minimum and maximum"
            )


def read_rubric(
    text: str | None, scale: Scale, *, keys: tuple[str, ...] = (), finish_reason: str | None = None
) -> Parsed[float]:
    """Read a reply that gives one score.

    Args:
        text: the reply.
        scale: a score outside of it, or said to be out of another maximum, is `out_of_range`.
        keys: names under which the JSON may hold the score, beside the usual ones ("score", "rating", "评分", ...).
        finish_reason: the backend's word for how the reply ended, where known.
    """
    names = (*map(plain_key, keys), *SCORE_KEYS)
    convert = partial(_one_score, scale=scale, names=names)
    grammar = Grammar(names, convert, partial(_score_in_words, scale=scale), bare=_BARE, like=LIKE_SCORE)
    return read(text, grammar, finish_reason=finish_reason)


def read_score_list(
    text: str | None, scale: Scale, *, count: int | None = None, finish_reason: str | None = None
) -> Parsed[tuple[float, ...]]:
    """Read a reply that gives a list of scores; one score alone is a list of one.

    Args:
        text: the reply.
        scale: of every score.
        count: how many there must be; another number is a `parse_error`. None takes any. Where the number is known, as
            many lines of the form "name: score" are a list too.
        finish_reason: the backend's word for how the reply ended, where known.
    """
    convert = partial(_scores, scale=scale, count=count)
    words = partial(_scores_in_words, scale=scale, count=count)
    grammar = Grammar(LIST_KEYS, convert, words, bare=_BARE, like=LIKE_SCORE)
    return read(text, grammar, finish_reason=finish_reason)


def read_number(value: Any, scale: Scale) -> Parsed[float]:
    """Read one JSON value as a score: a number, or a text such as "8", "8/10", "8.5 points", "评分: 8分"."""
    if isinstance(value, str):
        text = unicodedata.normalize("NFKC", value).strip(" \t\r\n*\"'")
        if is_not_applicable(text):
            return failed("not_applicable", "the reply says that the score does not apply")
        match = _ALONE.match(text)
        return (
            failed("parse_error", f"expected a score, got {value[:40]!r}") if match is None else _checked(match, scale)
        )
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return failed("parse_error", f"expected a score, got {str(value)[:40]}")
    return _in_range(float(value), scale)


def _in_range(number: float, scale: Scale) -> Parsed[float]:
    if not scale.minimum <= number <= scale.maximum:
        return failed("out_of_range", f"the score {number:g} is not within {scale.minimum:g} to {scale.maximum:g}")
    return Parsed(number)


def _checked(match: re.Match[str], scale: Scale) -> Parsed[float]:
    denominator = match["denominator"]
    if denominator is not None and float(denominator) != scale.maximum:
        return failed("out_of_range", f"the score is out of {denominator}, the scale ends at {scale.maximum:g}")
    return _in_range(float(match["number"]), scale)


def _one_score(values: list[Any], scale: Scale, names: tuple[str, ...]) -> Parsed[float]:
    readings = [_unwrapped(value, scale, names) for value in values]
    return same(readings, "the reply gives several scores that differ")


def _unwrapped(value: Any, scale: Scale, names: tuple[str, ...]) -> Parsed[float]:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict):
        inner = find_values(value, (*names, "value").__contains__)
        value = inner[0] if len(inner) == 1 else value
    return read_number(value, scale)


def _scores(values: list[Any], scale: Scale, count: int | None) -> Parsed[tuple[float, ...]]:
    items = _flat(values[0]) if len(values) == 1 else values
    return _as_list([read_number(item, scale) for item in items], count)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, str) and (text := value.strip()).startswith("[") and text.endswith("]"):
        return [part.strip() for part in text[1:-1].split(",")]
    return value if isinstance(value, list) else [value]


def _as_list(readings: list[Parsed[float]], count: int | None) -> Parsed[tuple[float, ...]]:
    if not readings or (count is not None and len(readings) != count):
        return failed("parse_error", f"expected {count or 'some'} scores, got {len(readings)}")
    for status in ("parse_error", "out_of_range", "not_applicable"):
        for reading in readings:
            if reading.status == status:
                return Parsed(None, reading.status, problem=reading.problem)
    return Parsed(tuple(reading.value for reading in readings if reading.value is not None))


def _score_in_words(text: str, scale: Scale) -> Parsed[float] | None:
    """Read a text that is one score, or that names one as the score.

    Scores named overall or final count before others, and those after words that announce a final answer before all.
    """
    alone = _ALONE.match(text.strip())
    if alone is not None and not text.strip()[alone.end() :].strip(" .。\n"):
        return _checked(alone, scale)
    matches = [match for match in _LABELLED.finditer(text) if match["index"] is None]
    final = final_position(text)
    for chosen in (
        [match for match in matches if final is not None and match.start() >= final],
        [match for match in matches if _OVERALL.search(text[max(0, match.start() - 40) : match.start()])],
        matches,
    ):
        readings = [_labelled(match, scale) for match in chosen]
        if chosen is matches:
            readings += [_checked(match, scale) for match in _RATED.finditer(text)]
        if readings:
            return same(readings, "the reply names several scores that differ")
    if _LABELLED_NA.search(text):
        return failed("not_applicable", "the reply says that the score does not apply")
    return None


def _labelled(match: re.Match[str], scale: Scale) -> Parsed[float]:
    return _checked(match, scale) if match["given"] is None else _in_range(float(match["given"]), scale)


def _scores_in_words(text: str, scale: Scale, count: int | None) -> Parsed[tuple[float, ...]] | None:
    lists = [_scores([match["list"]], scale, count) for match in _LABELLED_LIST.finditer(text)]
    if lists:
        return same(lists, "the reply gives several lists that differ")
    lines = [match for line in text.splitlines() if (match := _LINE.fullmatch(line))]
    if count is not None and len(lines) == count:
        return _as_list([_checked(match, scale) for match in lines], count)
    named = [_labelled(match, scale) for match in _LABELLED.finditer(text)]
    if named:
        return _as_list(named, count)
    alone = _ALONE.match(text.strip())
    whole = alone is not None and not text.strip()[alone.end() :].strip(" .。\n")
    return _as_list([_checked(alone, scale)], count) if alone is not None and whole else None
