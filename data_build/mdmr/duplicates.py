"""Which questions of one checklist ask the same, by their words or nearly, and which contradict another."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from data_build.mdmr.replies import DraftQuestion
from data_build.mdmr.settings import DEFAULT_OVERLAP

_TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+(?:['’][a-z]+)?")
_FUNCTION_WORD = re.compile(
    "an?|the|is|are|was|were|be|been|being|am|do|does|did|has|have|had|can|could|will|would|should|may|might|its?|"
    "this|that|these|those|there|here|and|or|of|to|as|at|by|for|with|from"
)
"""Words that change nothing of what a question asks; words of place, number and negation are none of them."""

Kind = Literal["duplicate", "near_duplicate", "contradictory"]


@dataclass(frozen=True)
class Double:
    """Why a question goes: it asks what another one of the checklist asks, at `other` (from 0)."""

    kind: Kind
    other: int


def find_doubles(questions: Sequence[DraftQuestion], overlap: float = DEFAULT_OVERLAP) -> list[Double | None]:
    """Say of each question which one it doubles, None for one that stays.

    Of questions with equal words in either language, in whatever case and punctuation, the first stays; where they
    expect different answers, none does, for nobody knows which is meant. A question nearly doubles an earlier one that
    stays where both expect the same and the English words overlap.

    Args:
        questions: of one case.
        overlap: from which :func:`word_overlap` on two questions nearly ask the same; above 1 for never.
    """
    found: list[Double | None] = [None] * len(questions)
    words = [normal_words(question.text.get("en")) for question in questions]
    keys = [
        {("en", *english), ("zh", *normal_words(question.text.get("zh")))}
        for english, question in zip(words, questions, strict=True)
    ]
    pairs = [(place, earlier) for place in range(len(questions)) for earlier in range(place)]
    for place, earlier in pairs:
        if not keys[place] & keys[earlier]:
            continue
        if questions[place].expected != questions[earlier].expected:
            found[place], found[earlier] = Double("contradictory", earlier), Double("contradictory", place)
        elif found[place] is None:
            found[place] = found[earlier] or Double("duplicate", earlier)
    for place, earlier in pairs:
        agree = questions[place].expected == questions[earlier].expected
        both_stay = found[place] is None and found[earlier] is None
        if agree and both_stay and word_overlap(words[place], words[earlier]) >= overlap:
            found[place] = Double("near_duplicate", earlier)
    return found


def normal_words(text: str) -> tuple[str, ...]:
    """Return the words of a text, in small half-width letters; of Chinese, the characters."""
    return tuple(_TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()))


def word_overlap(first: Sequence[str], second: Sequence[str]) -> float:
    """Return twice the number of content words in common order over the number of all, in 0..1; equal texts have 1.

    The order counts: "left of the dog, the cat" asks something else than "left of the cat, the dog". Function words
    (articles, auxiliaries and the like) do not count.
    """
    one, other = ([word for word in words if not _FUNCTION_WORD.fullmatch(word)] for words in (first, second))
    if not one or not other:
        return float(list(first) == list(second))
    one, other = sorted((one, other))  # the matcher's ties depend on which comes first
    return SequenceMatcher(None, one, other, autojunk=False).ratio()
