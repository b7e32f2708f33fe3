"""Replies that say which of two pictures is better: labels such as [[A>B]], JSON, or words in English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from rm.protocols.parsing.core import (
    Grammar,
    Parsed,
    ParseLevel,
    failed,
    final_position,
    one_of,
    plain_text,
    read,
    same,
)

Preference = Literal["A>B", "B>A", "A=B", "A=B=Good", "A=B=Bad"]
Rule = Literal["strict", "first-label"]

PREFERENCE_KEYS = (
    *("winner", "preference", "preferred", "preferredimage", "better", "betterimage", "best", "choice", "verdict"),
    *("preferredresponse", "betterresponse", "betteredit", "bettermodel", "winnerimage", "winningimage", "selection"),
    *(
        "overallwinner",
        "overallpreference",
        "finalverdict",
        "answer",
        "finalanswer",
        "label",
        "result",
        "judgement",
        "judgment",
        "decision",
    ),
    *("更好", "胜者", "获胜者", "优胜者", "选择", "偏好", "答案", "结论", "最终结论", "判断", "结果", "更好的图片"),
)

_LABELS: dict[str, Preference] = {"A>B": "A>B", "B>A": "B>A", "A=B=Good": "A=B=Good", "A=B=Bad": "A=B=Bad"}
_SWAPPED: dict[Preference, Preference] = {
    "A>B": "B>A",
    "B>A": "A>B",
    "A=B": "A=B",
    "A=B=Good": "A=B=Good",
    "A=B=Bad": "A=B=Bad",
}

# Labels made of signs, in brackets or alone.
_NOUN = r"(?:image|picture|photo|model|assistant|candidate|option|response|edit|result|output)"
_SIGNED = re.compile(
    rf"(?<![\w=<>])(?:{_NOUN}\s*)?(?P<one>a|b|left|right|1|2)\s*(?P<sign>>+|<+|={{1,2}}|≈)\s*"
    rf"(?:{_NOUN}\s*)?(?P<two>a|b|left|right|1|2)(?:\s*=+\s*(?P<kind>good|bad))?(?![\w=<>])",
    re.IGNORECASE,
)
_NAME = re.compile(rf"[AB]|(?i:left|right|{_NOUN})")
_BRACKETED = re.compile(r"\[{1,2}\s*([^\[\]\n]{1,30}?)\s*\]{1,2}")
_OFFICIAL = re.compile(r"\[\[(A>B|B>A|A=B=Good|A=B=Bad)\]\]")

# One of the two in words.
_SIDES: dict[str, str] = {
    "A": r"a|1|one|left|first|former|甲|左|一|前者",
    "B": r"b|2|two|right|second|latter|乙|右|二|后者",
}


_GAP = r"[^\S\n]*"  # blanks, but no line's end: the next line speaks of something else


def _side(side: str) -> str:
    """Return a pattern for one picture; a lone "a" or "one" is the article or a pronoun, so it needs a noun."""
    words = _SIDES[side]
    letter, digit, number, place, order, mentioned = words.split("|")[:6]
    han_letter, han_place, han_number, han_mentioned = words.split("|")[6:]
    capital = letter.upper()
    edited = rf"(?:the\s+)?(?:edited\s+|generated\s+|output\s+)?{_NOUN}"
    noun = rf"(?:'s\s+(?:\w+\s+)?{_NOUN}|'s)?"
    english = (
        rf"(?:{edited}{_GAP}\(?(?:{letter}|{digit}|{number})\b\)?{noun}"
        rf"|(?:the\s+)?(?:{place}|{order}|{mentioned})(?:\s+(?:edited\s+)?(?:{_NOUN}|one|side))?\b"
        rf"|(?-i:\b{capital}\b){noun})"
    )
    chinese = (
        rf"(?:(?:图片?|图像|模型|方案|候选|选项){_GAP}(?:{letter}|{digit}|{han_letter}|{han_number})"
        rf"|(?-i:{capital}){_GAP}图|{han_mentioned}|(?:{han_place})(?:侧|边|图)?(?:的?(?:图片?|图像))?|第(?:{han_number}|{digit})(?:张|幅|个)(?:图片?|图像)?"
        rf"|(?-i:(?<![A-Za-z]){capital}(?![A-Za-z])))"
    )
    return rf"(?:{english}|{chinese})"


_ADVERB = (
    r"(?:(?:clearly|much|slightly|significantly|definitely|overall|far|also|indeed|the|a|considered|deemed|judged|bit"
    r"|little)\s+|(?:明显|显然|要|整体|略|稍微?|总体)\s*)*"
)
_BETTER = r"(?:better|superior|preferred|preferable|best|winner|stronger)\b"
_WORSE = r"(?:worse|inferior|weaker)\b"
_CHOOSE = r"(?:prefer|choose|chose|select|pick|favou?r|vote\s+for|go\s+with)s?"


def _prefers(side: str) -> re.Pattern[str]:
    """Return what says that one picture is better."""
    me, other = _side(side), _side("B" if side == "A" else "A")
    return re.compile(
        rf"(?<![\w>=]){me}\s*(?:is|was|are|looks?|seems?|appears?|performs?|does)\s+(?:to\s+be\s+)?{_ADVERB}{_BETTER}"
        rf"|(?<![\w>=]){other}\s*(?:is|was|looks?|seems?|appears?|performs?|does)\s+(?:to\s+be\s+)?{_ADVERB}{_WORSE}"
        rf"|(?<![\w>=]){me}\s*(?:wins|outperforms|is\s+the\s+winner)\b|\b{_CHOOSE}\s+{me}(?!\w)"
        rf"|\b(?:better|winner|winning|best|preferred)(?:\s+(?:edited\s+)?(?:{_NOUN}|one|choice|edit))?\s*(?:is|:|=)\s*{me}(?!\w)"
        rf"|\b(?:answer|verdict|choice|decision|preference|conclusion)\s*(?:is|:|=)\s*{me}(?=\W*$|[.,;\n])"
        rf"|(?<![\w>=]){me}\s*{_ADVERB}(?:更好|更佳|更优|更胜一筹|较好|较佳|获胜|胜出|胜|优于)"
        rf"|(?<![\w>=]){other}\s*{_ADVERB}(?:更差|较差|不如|更糟|逊于)"
        rf"|(?:选择?|更喜欢|偏好|更好的是|(?:胜者|答案|结论|结果)\s*(?:是|为|:)|选出)\s*:?\s*{me}(?=\W*$|[^\w]|更)"
        rf"|比\s*{other}\s*(?:更|要)?好",
        re.IGNORECASE,
    )


_PREFERS: dict[Preference, re.Pattern[str]] = {"A>B": _prefers("A"), "B>A": _prefers("B")}
_NAMED: dict[Preference, re.Pattern[str]] = {
    "A>B": re.compile(rf"{_side('A')}|a|1", re.IGNORECASE),
    "B>A": re.compile(rf"{_side('B')}|b|2", re.IGNORECASE),
}
_TWO = r"(?:两(?:张|幅|个|者)(?:图片?|图像)?|二者|双方|图?[AB]图?\s*[和与跟]\s*图?[AB]图?)"
_MIDDLE = r"[^.;\n。；]{0,60}?"
_TIES: dict[Preference, re.Pattern[str]] = {
    "A=B=Bad": re.compile(
        rf"\bboth\b{_MIDDLE}\b(?:are|look|were)\s+(?:\w+\s+)?(?:bad|poor|unacceptable|terrible|not\s+(?:of\s+)?(?:good|acceptable))\b"
        rf"|\bboth\s+(?:bad|poor)\b|\bequally\s+(?:bad|poor)\b|\bneither\b{_MIDDLE}\b(?:is|are)\s+(?:good|acceptable|satisfactory)\b"
        rf"|{_TWO}[^.;\n。；,]{{0,8}}?(?:都|均|皆)\s*(?:很|较|比较)?(?:差|不好|不佳|糟糕|不合格|不行)|一样差|同样差",
        re.IGNORECASE,
    ),
    "A=B=Good": re.compile(
        rf"\bboth\b{_MIDDLE}\b(?:are|look|were)\s+(?:(?!not\b)\w+\s+)?(?:of\s+)?(?:(?!not\b)\w+\s+)?(?:good|great|excellent|acceptable)\b"
        r"|\bboth\s+good\b|\bequally\s+(?:good|great)\b|\bsame\s+acceptable\s+quality\b"
        rf"|{_TWO}[^.;\n。；,]{{0,8}}?(?:都|均|皆)\s*(?:很|较|比较)?(?:好|不错|优秀|合格)|一样好|同样好",
        re.IGNORECASE,
    ),
    "A=B": re.compile(
        r"\b(?:it'?s|is|are|a|call\s+it|declare)\s+(?:a\s+)?(?:tie|draw|tied)\b|^\W*(?:tie|draw|tied|equal)\b"
        rf"|\b(?:both|two)\b{_MIDDLE}\bare\s+(?:\w+\s+)?(?:equal|the\s+same|identical|comparable|tied)\b"
        rf"|\bneither\b{_MIDDLE}\bis\s+(?:\w+\s+)?better\b|平局|平手|不分上下|不相上下|难分(?:高下|伯仲)|差不多",
        re.IGNORECASE,
    ),
}
_NEGATED = re.compile(
    r"(?:\bnot\b|n't\b|\bcannot\b|\bwhether\b|\bwhich\b|\bif\b|\bnor\b|\bhard\b|\bdifficult\b|不能|无法|难以|并?不|没有|如果|是否)[^.;:,\n。；，]{0,40}$",
    re.IGNORECASE,
)
_CONCLUDES = re.compile(
    r"\b(?:overall|therefore|thus|hence|in\s+(?:conclusion|summary)|to\s+sum(?:marize|\s+up)|conclusion|my\s+verdict|verdict\s+is)\b"
    r"|综上|总体|总的来说|因此|所以|结论",
    re.IGNORECASE,
)
_ALONE: dict[str, Preference] = {
    **dict.fromkeys(("tie", "draw", "tied", "equal", "same", "neither", "none", "平局", "平手", "相同", "一样"), "A=B"),
    **dict.fromkeys(("bothgood", "good", "tiegood", "equallygood", "都好", "都很好"), "A=B=Good"),
    **dict.fromkeys(("bothbad", "bad", "tiebad", "equallybad", "都差", "都很差", "都不好"), "A=B=Bad"),
}


def read_pairwise(text: str | None, *, rule: Rule = "strict", finish_reason: str | None = None) -> Parsed[Preference]:
    """Read a reply that compares picture A with picture B.

    Args:
        text: the reply.
        rule: "strict" reads all forms, and takes labels that contradict each other for a `parse_error` unless one of
            them is announced as the conclusion. "first-label" takes the first of [[A>B]], [[B>A]], [[A=B=Good]] and
            [[A=B=Bad]] in the reply and nothing else, as GenAI-Bench's published figures were made.
        finish_reason: the backend's word for how the reply ended, where known.
    """
    if rule == "strict":
        return read(text, Grammar(PREFERENCE_KEYS, _converted, _in_words), finish_reason=finish_reason)
    first = _OFFICIAL.search(text or "")
    if first is not None:
        return Parsed(_LABELS[first[1]], level=ParseLevel.WORDS)
    nothing: Grammar[Preference] = Grammar((), _converted, lambda _: None)
    return read(text, nothing, finish_reason=finish_reason)


def swap_preference(preference: Preference) -> Preference:
    """Return what a preference becomes when the pictures exchange their letters."""
    return _SWAPPED[preference]


def _converted(values: list[Any]) -> Parsed[Preference]:
    return same([_one(value) for value in values], "the reply gives several preferences that differ")


def _one(value: Any) -> Parsed[Preference]:
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    text = plain_text(str(value)).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    reading = (_alone(text) or _in_words(text)) if text else None
    return reading or failed("parse_error", f"expected a preference, got {str(value)[:40]!r}")


def _alone(text: str) -> Parsed[Preference] | None:
    """Read a text that is nothing but the name of a picture or of a tie."""
    bare = re.sub(r"[_-]+", " ", text).strip(" \t\r\n.,!。[]\"'()")
    for preference, pattern in _NAMED.items():
        if pattern.fullmatch(bare):
            return Parsed(preference)
    tie = _ALONE.get(re.sub(r"[\W_]+", "", bare).lower())
    return None if tie is None else Parsed(tie)


def _in_words(text: str) -> Parsed[Preference] | None:
    alone = _alone(text)
    if alone is not None:
        return alone
    for find in (_bracketed, _signed, _stated):
        if labels := find(text):
            concluded = _concluded(text, labels)
            return one_of([label for _, label in concluded], "the reply gives preferences that contradict each other")
    return None


def _concluded(text: str, labels: list[tuple[int, Preference]]) -> list[tuple[int, Preference]]:
    """Return the labels after the last words that announce a conclusion, or all where there are none after any."""
    positions = [match.start() for match in _CONCLUDES.finditer(text)]
    final = final_position(text)
    for start in ([] if final is None else [final]) + positions[::-1]:
        after = [(position, label) for position, label in labels if position >= start]
        if after:
            return after
    return labels


def _bracketed(text: str) -> list[tuple[int, Preference]]:
    labels = [(match.start(), _in_brackets(match)) for match in _BRACKETED.finditer(text)]
    return [(position, label) for position, label in labels if label is not None]


def _in_brackets(match: re.Match[str]) -> Preference | None:
    signed = _SIGNED.fullmatch(match[1])
    if signed is not None:
        return _from_signs(signed)
    named = _alone(match[1]) if match[0].startswith("[[") else None
    return None if named is None else named.value


def _signed(text: str) -> list[tuple[int, Preference]]:
    """Find labels that stand in prose without brackets, where "2 > 1" and "a = b" may speak of anything."""
    matches = [match for match in _SIGNED.finditer(text) if _NAME.search(match[0]) is not None]
    labels = [(match.start(), _from_signs(match)) for match in matches]
    return [(position, label) for position, label in labels if label is not None]


def _from_signs(match: re.Match[str]) -> Preference | None:
    first = match["one"].lower() in _SIDES["A"].split("|")
    if first == (match["two"].lower() in _SIDES["A"].split("|")):
        return None
    if match["sign"][0] in "=≈":
        kind = (match["kind"] or "").lower()
        return "A=B=Good" if kind == "good" else "A=B=Bad" if kind == "bad" else "A=B"
    return "A>B" if first == (match["sign"][0] == ">") else "B>A"


def _stated(text: str) -> list[tuple[int, Preference]]:
    preferences = list(_matches(text, _PREFERS))
    ties = list(_matches(text, _TIES))
    last = max((position for position, _ in preferences), default=-1)
    if any(label != "A=B" for _, label in ties):  # "a tie, both are acceptable" says what kind of tie
        ties = [(position, label) for position, label in ties if label != "A=B"]
    if last >= 0:  # "both are good, but A is better" prefers A
        ties = [(position, label) for position, label in ties if label == "A=B" or position > last]
    return sorted(preferences + ties)


def _matches(text: str, patterns: dict[Preference, re.Pattern[str]]) -> Iterator[tuple[int, Preference]]:
    for label, pattern in patterns.items():
        for match in pattern.finditer(text):
            if not _NEGATED.search(text[max(0, match.start() - 60) : match.start()]):
                yield match.start(), label
