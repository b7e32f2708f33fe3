"""Replies that answer yes or no."""

from __future__ import annotations

import re
from typing import Any

from rm.protocols.parsing.core import Grammar, Parsed, failed, is_not_applicable, one_of, plain_text, read, same

ANSWER_KEYS = (
    *(
        "answer",
        "finalanswer",
        "verdict",
        "finalverdict",
        "result",
        "judgement",
        "judgment",
        "decision",
        "response",
        "choice",
        "label",
    ),
    *("satisfied", "passed", "答案", "回答", "判断", "判定", "结论", "结果", "最终答案", "是否满足"),
)

_YES = r"yes|true|y|是的|是|对|正确|满足|有"
_NO = r"no(?!\s+(?:problem|doubt|idea|wonder))|false|n|不是|否|不对|不正确|错误|不满足|没有"
_END = r"(?=$|[\s,.;:!?。、()\[\]\"'<|–—-])"
_EITHER = re.compile(
    rf"(?:{_YES})\s*(?:/|or|and|或|还是)\s*(?:{_NO})|(?:{_NO})\s*(?:/|or|and|或|还是)\s*(?:{_YES})", re.I
)
_WORD = rf"(?:(?P<yes>{_YES})|(?P<no>{_NO})){_END}"
_MARKER = r"^[\s\"'(\[?]*(?:\d+[.)]\s*|[-•]\s+)?[\s\"'(\[]*"
_LEADING = re.compile(rf"{_MARKER}{_WORD}", re.IGNORECASE)
_LINE = re.compile(rf"{_MARKER}{_WORD}[\s.,!。)\]\"']*$", re.IGNORECASE)
_LABELLED = re.compile(
    rf"(?:\b(?:answer|verdict|judge?ment|decision|conclusion)|答案|回答|判断|结论|结果)"
    rf"\s*(?:[:=]|\bis\b|是|为)+\s*:?[\s\"'(\[]*{_WORD}",
    re.IGNORECASE,
)


def read_checklist(text: str | None, *, finish_reason: str | None = None) -> Parsed[bool]:
    """Read a reply that answers yes or no, in English or Chinese.

    Without JSON, an answer is a reply's first word, a last line that holds nothing else, or what follows a label such
    as "Answer:"; where these differ, it is a `parse_error`.
    """
    return read(text, Grammar(ANSWER_KEYS, _converted, _in_words, bare=(bool,)), finish_reason=finish_reason)


def read_one_word(text: str | None) -> Parsed[bool]:
    """Read a reply that was asked for Yes or No and nothing else, and may have been cut after a token or two.

    Its first word counts, in any case and with any punctuation or emphasis around it; everything else is a
    `parse_error`, a thought or an empty reply among it.
    """
    plain = plain_text(text or "").strip()
    found = _LEADING.match(plain)
    if _EITHER.match(plain) or found is None:
        return failed("parse_error", f"expected yes or no as the first word, got {plain[:40]!r}")
    return Parsed(found["yes"] is not None)


def _converted(values: list[Any]) -> Parsed[bool]:
    return same([_one(value) for value in values], "the reply gives several answers that differ")


def _one(value: Any) -> Parsed[bool]:
    if isinstance(value, bool):
        return Parsed(value)
    if isinstance(value, int) and value in (0, 1):
        return Parsed(bool(value))
    if isinstance(value, str):
        if is_not_applicable(value):
            return failed("not_applicable", "the reply says that the question does not apply")
        return _in_words(plain_text(value)) or failed("parse_error", f"expected yes or no, got {value[:40]!r}")
    return failed("parse_error", f"expected yes or no, got {str(value)[:40]}")


def _in_words(text: str) -> Parsed[bool] | None:
    lines = [line for line in _EITHER.sub(" ", text).splitlines() if line.strip()] or [""]
    matches = [_LEADING.match(lines[0]), _LINE.match(lines[-1])]
    matches += _LABELLED.finditer("\n".join(lines))
    answers = [match["yes"] is not None for match in matches if match is not None]
    return one_of(answers, "the reply answers both yes and no")
