"""Finding the JSON in a reply: alone, between other text, or with faults that a repair can mend."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

MAX_OPENINGS = 200  # brackets that are tried: a reply with more of them that lead nowhere holds no verdict
MAX_DEPTH = 64
MAX_REPAIRED = 20_000  # characters; the repair of longer nonsense takes seconds

_BRACKETS = str.maketrans("｛｝［］＂", '{}[]"')
_OPENING = re.compile(r"[{\[]")
# What makes `{` the start of an object rather than a brace in prose: a quoted or bare key, or the end of the text.
_OBJECT = re.compile(r"\{\s*(?:$|\\*[\"'“”‘’「]|[^\W\d][\w -]{0,40}[:：=])")
_CUT_LIST = re.compile(r"\[\s*(?:[\"'\d-][\s\d.,\"'/-]*)?$")
_FENCE_END = re.compile(r"[\s`]*$")


@dataclass(frozen=True)
class Repeated:
    """The values of a key that one object gives twice, differently: the reply contradicts itself there."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Found:
    """A JSON value and where it stands in the text."""

    value: Any
    start: int
    end: int


@dataclass
class Scan:
    """What a text holds.

    Attributes:
        whole: the text is one JSON value and nothing else.
        found: valid JSON, in order: objects, and arrays that hold objects.
        broken: start and end of what looks like an object and is not valid JSON.
        unclosed: where an object or a list of numbers begins that the text does not end; None where there is none.
    """

    whole: Found | None = None
    found: list[Found] = field(default_factory=list)
    broken: list[tuple[int, int]] = field(default_factory=list)
    unclosed: int | None = None


def scan(text: str) -> Scan:
    """Look for JSON in `text`; braces and quotes inside strings do not count as brackets."""
    stripped = text.strip()
    try:
        return Scan(whole=Found(loads(stripped), 0, len(text)))
    except (ValueError, RecursionError):
        return _scan_inside(text, text.translate(_BRACKETS))


def _scan_inside(text: str, plain: str) -> Scan:
    result, position = Scan(), 0
    for _ in range(MAX_OPENINGS):
        opening = _OPENING.search(plain, position)
        if opening is None:
            break
        start = opening.start()
        position = start + 1
        if (valid := _decode(plain, start)) is not None:
            value, position = valid
            if any(isinstance(item, dict) for item in walk(value)):
                result.found.append(Found(value, start, position))
        elif _OBJECT.match(plain, start):
            end = _closing(plain, start)
            if end is None:
                result.unclosed = start
                break
            result.broken.append((start, end))
            position = end
        elif _CUT_LIST.match(plain, start):
            result.unclosed = start
            break
    return result


def _decode(text: str, start: int) -> tuple[Any, int] | None:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value, end


def _closing(text: str, start: int) -> int | None:
    """Return the position after the bracket that closes the one at `start`; None where none does.

    Unescaped quotes inside a string can hide the closing bracket. A text that ends with one is not cut off, whatever
    its quotes say.
    """
    depth, in_string, escaped = 0, False, False
    for position in range(start, len(text)):
        character = text[position]
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == '"':
            in_string = not in_string
        elif not in_string and character in "{[":
            depth += 1
            if depth > MAX_DEPTH:
                return None
        elif not in_string and character in "}]":
            depth -= 1
            if depth == 0:
                return position + 1
    end = len(_FENCE_END.sub("", text))
    return end if end > start + 1 and text[end - 1] == "}" and in_string else None


def repair(fragment: str, *, is_answer: re.Pattern[str]) -> Any:
    """Return what a faulty piece of JSON most likely is, or None where that is not sure.

    Args:
        fragment: it begins with `{`.
        is_answer: matches a key of the answer up to its colon. A repair that lost one of two answers, or that took a
            number out of a phrase (`"score": 3 objects`), is refused.
    """
    plain = unicodedata.normalize("NFKC", fragment)
    try:
        return loads(plain)
    except (ValueError, RecursionError):
        pass
    if len(plain) > MAX_REPAIRED or any(_PHRASE.match(plain, key.end()) for key in is_answer.finditer(plain)):
        return None
    from json_repair import loads as repaired

    try:
        value = repaired(plain)
        written = len(is_answer.findall(plain))
        kept = sum(
            bool(is_answer.fullmatch(f"{key}:")) for item in walk(value) if isinstance(item, dict) for key in item
        )
    except Exception:  # a foreign parser on arbitrary text
        return None
    return value if isinstance(value, dict | list) and written <= max(kept, 1) else None


_PHRASE = re.compile(r"\s*[+-]?\d[\d.]*\s+[^\W\d]")


def loads(text: str) -> Any:
    """Read JSON strictly: no NaN, no infinity; a key that is given twice keeps both values.

    Raises:
        ValueError: when it is not JSON.
        RecursionError: when it is nested too deep.
    """
    return _DECODER.decode(text)


def walk(value: Any) -> Iterator[Any]:
    """Yield `value` and everything inside it, outermost first."""
    level = [value]
    while level:
        yield from level
        level = [inner for item in level for inner in children(item)]


def children(value: Any) -> list[Any]:
    """Return what is directly inside a JSON value."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        result[key] = Repeated((result[key], value)) if key in result and result[key] != value else value
    return result


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 100 else float(digits)  # Python refuses to read integers of many digits


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse, parse_int=_integer)
