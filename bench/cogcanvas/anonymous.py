"""Prompts in which people are told apart without their names: "person A" for the first who is mentioned, and so on.

A name says to an image model who is famous, and nothing about who is not; the sequential-inpainting baseline lays a
scene out before anybody's face is in it (Nguyen et al. 2026, arXiv 2606.15867).
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

_WORDS = {"en": "person {letter}", "zh": "人物{letter}"}


def anonymized(prompt: str, names: Sequence[str], language: str = "en") -> str:
    """Return a prompt with each name replaced, whole names only: "Ann" does not stand in "Anna", "An" not in "Ann".

    Args:
        prompt: the prompt.
        names: of the people, each once; a longer name is replaced before one that it holds.
        language: of the prompt, "en" or "zh".
    """
    in_order = zip(mentioned(prompt, names), _letters(), strict=False)
    words = {name: _WORDS[language].format(letter=letter) for name, letter in in_order}
    return _pattern(names).sub(lambda found: words[found.group()], prompt) if words else prompt


def mentioned(prompt: str, names: Sequence[str]) -> list[str]:
    """Return the names in the order in which a prompt first mentions them; those that it does not mention come last."""
    places = {name: len(prompt) for name in names}
    for found in reversed(list(_pattern(names).finditer(prompt))) if names else []:
        places[found.group()] = found.start()
    return sorted(places, key=lambda name: places[name])


def _pattern(names: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern of whole names. Scripts without blanks have no words to be whole, so only Latin sides count."""
    longest = sorted((name for name in names if name), key=len, reverse=True)
    return re.compile(
        "|".join(
            ("(?<![A-Za-z0-9])" if name[0].isascii() and name[0].isalnum() else "")
            + re.escape(name)
            + ("(?![A-Za-z0-9])" if name[-1].isascii() and name[-1].isalnum() else "")
            for name in longest
        )
        or "(?!)"
    )


def _letters() -> list[str]:
    """Return A to Z, AA to ZZ: more than a picture holds."""
    one = string.ascii_uppercase
    return [*one, *(first + second for first in one for second in one)]
