"""What a thinking judge is asked and how its replies are read: the words are those of the protocols."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gnomon.datasets import resolve
from gnomon.errors import UserError
from gnomon.records import Comparison
from rm.thinking.options import ProtocolName
from rm.vlm.conversation import Conversation, Reply, split_thinking

Preference = Literal["A>B", "B>A", "A=B"]
Order = tuple[int, ...]
"""Positions of the candidates that are shown: the one called A and the one called B, or the one to be scored."""


@dataclass(frozen=True)
class Question:
    """What is asked about a comparison.

    Attributes:
        protocol: decides what the readings are.
        prompt_hash: a hash of all words of the question.
        build_conversation: the question about the candidates at `order`.
        read: what a reply says, thinking included: a preference ("pairwise") or a score ("rubric"), None where it
            says nothing that can be read, or several things.
    """

    protocol: ProtocolName
    prompt_hash: str
    build_conversation: Callable[[Comparison, Order], Conversation]
    read: Callable[[str], Preference | float | None]


def make_question(protocol: ProtocolName, metric: str, language: str, root: Path) -> Question:
    """Return the question of a judge's protocol.

    Args:
        protocol: "pairwise" or "rubric".
        metric: one of the rubrics.
        language: "en" or "zh".
        root: the folder of the comparisons.

    Raises:
        UserError: for a metric or language that there is no rubric of.
    """
    from rm.protocols.pairwise import PairwiseQuestion
    from rm.protocols.parsing import Scale
    from rm.protocols.rubric import Rubric

    # Both know `prompt_hash`, `build(instruction, pictures)` and `read(reply)`.
    asked: Any = (
        PairwiseQuestion(metric, language) if protocol == "pairwise" else Rubric(metric, Scale(0, 10), language)
    )

    def build_conversation(comparison: Comparison, order: Order) -> Conversation:
        conversation: Conversation = asked.build(
            comparison.instruction.get(language), _pictures(root, comparison, order)
        )
        return conversation

    def read(text: str) -> Preference | float | None:
        thinking, answer = split_thinking(text)
        value = asked.read(Reply(answer, thinking=thinking)).value
        # Whether both are good or both are bad is not a matter of preference; see rm.pairs.
        return "A=B" if isinstance(value, str) and value.startswith("A=B") else value

    return Question(protocol, asked.prompt_hash, build_conversation, read)


def _pictures(root: Path, comparison: Comparison, order: Order) -> Any:
    from rm.pictures import NoPictures, load_pictures

    candidates = [resolve(root, comparison.candidates[position].path) for position in order]
    found = load_pictures(root, comparison.references, candidates)
    if isinstance(found, NoPictures):
        raise UserError(f"comparison {comparison.id!r} in {root}: {found.reason}; mend or remove it")
    return found
