"""EditScore/EditScore-Reward-Data: a teacher's scores of single edits in a chat format, made into comparisons."""

from __future__ import annotations

import json
import re
from typing import Any

import json_repair

from data_build.importers.pictures import Pictures
from data_build.importers.rows import Row, RowError
from data_build.importers.scored import Scored

_DIMENSIONS = ("prompt_following", "consistency")
_LARGEST = 25.0
_INSTRUCTION = re.compile(r"(?:editing )?instruction\s*:\s*(.+)", re.IGNORECASE)


def convert(row: Row, pictures: Pictures) -> list[Scored]:
    """Return the scored image of a row: the last of its pictures; the ones before it are what was edited.

    The reply is JSON, `{"reasoning": ..., "score": [prompt following, consistency]}`, each from 0 to 25. Rows about
    one picture alone (its quality) name no source to compare under.

    Raises:
        RowError: for missing or wrong fields, and scores that are none.
    """
    images = row.items("images")
    if len(images) < 2:
        raise RowError("a score of one picture alone, without what was edited", "not_comparable")
    asked, answered = _turns(row)
    scores = _scores(answered)
    *references, candidate = (pictures.add(image, "images") for image in images)
    return [
        Scored(
            id=row.id,
            instruction=_instruction(asked),
            references=tuple(references),
            candidate=candidate,
            scores=dict(zip(_DIMENSIONS, scores, strict=True)),
            split=row.split,
        )
    ]


def _turns(row: Row) -> tuple[str, str]:
    """Return what was asked last and what was answered, in either of the two spellings of chat rows."""
    turns = row.get("conversations", "messages")
    try:
        texts = [(turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))) for turn in turns or []]
    except (TypeError, AttributeError):
        texts = []
    asked = [text for who, text in texts if who in ("human", "user") and isinstance(text, str)]
    answered = [text for who, text in texts if who in ("gpt", "assistant") and isinstance(text, str)]
    if not asked or not answered:
        raise RowError("expected a question and a reply under 'conversations' or 'messages'")
    return asked[-1], answered[-1]


def _scores(reply: str) -> list[float]:
    text = reply[reply.find("{") : reply.rfind("}") + 1]
    try:
        content: Any = json.loads(text)
    except ValueError:
        content = json_repair.loads(text)  # rationales hold unescaped quotes
    values = content.get("score") if isinstance(content, dict) else None
    good = isinstance(values, list) and len(values) == len(_DIMENSIONS)
    if not good or not all(isinstance(value, int | float) and 0 <= value <= _LARGEST for value in values or ()):
        raise RowError(f"expected {len(_DIMENSIONS)} scores from 0 to {_LARGEST:g} in the reply, got {values!r:.80}")
    return [float(value) for value in values or ()]


def _instruction(asked: str) -> str:
    """Return what follows the last "instruction:" of a prompt, or the whole prompt where there is none."""
    found = _INSTRUCTION.findall(asked)
    text: str = found[-1] if found else asked.replace("<image>", "")
    if not text.strip():
        raise RowError("expected an instruction in the question, got none")
    return text.strip()
