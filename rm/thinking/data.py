"""Comparisons as prompts with labels, rationales as targets, and the order in which a stage sees them.

Every judged pair gives two examples, which always stand together: a pairwise judge sees it in both orders, with
mirrored labels; a rubric judge sees each of its candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import Field

from gnomon.errors import UserError
from gnomon.hashing import stable_seed
from gnomon.jsonl import read_records
from gnomon.records import Comparison, Record
from rm.pairs import expand_pairs
from rm.thinking.asking import Order, Preference, Question
from rm.thinking.options import ProtocolName
from rm.thinking.rewards import is_well_formed

_LABELS: dict[int, Preference] = {1: "A>B", -1: "B>A", 0: "A=B"}


@dataclass(frozen=True)
class Example:
    """One prompt and what people said.

    Attributes:
        comparison: what it is about.
        order: which candidates are shown.
        label: people's preference between the first of the pair in this order (A) and the other (B).
        pair: equal for the two examples of one pair, and for no others.
        side: 0 in the order of the comparison, 1 in the other one.
    """

    comparison: Comparison
    order: Order
    label: Preference
    pair: str
    side: int


class Rationale(Record):
    """A whole reply for the cold start, such as a larger model gave to the same question.

    Attributes:
        comparison: its id.
        order: positions of the candidates that the reply is about: of A and of B, or of the one that is scored.
        text: `<think>` thought `</think>` answer.
    """

    comparison: str = Field(min_length=1)
    order: list[int] = Field(default=[0, 1], min_length=1, max_length=2)
    text: str


@dataclass(frozen=True)
class Target:
    """An example with the reply that is to be learnt."""

    example: Example
    text: str


def expand_examples(comparisons: Sequence[Comparison], protocol: ProtocolName, metric: str) -> list[Example]:
    """Return two examples per judged pair, one after the other, in the comparisons' order.

    Raises:
        UserError: when there are none.
    """
    examples: list[Example] = []
    for comparison in comparisons:
        for pair in expand_pairs(comparison):
            if metric not in pair.labels:
                continue
            for side, one in enumerate((pair, pair.swapped())):
                order = (one.first, one.second) if protocol == "pairwise" else (one.first,)
                examples.append(Example(comparison, order, _LABELS[one.labels[metric]], pair.id, side))
    if not examples:
        raise UserError(
            f"expected judgements in {metric!r}, the comparisons have none; set metric to one of their dimensions"
        )
    return examples


def schedule(count: int, total: int, *, seed: int, stage: str, together: int = 1) -> list[int]:
    """Return the positions that a stage visits, one pass after the other, each in an order of its own.

    All steps are laid out at once, because a sampler that draws as it goes cannot be resumed in the middle of a pass.

    Args:
        count: how many there are.
        total: how many to visit.
        seed: of the order.
        stage: for stages to have different orders.
        together: neighbours that stay together; it divides both numbers.
    """
    positions: list[int] = []
    turn = 0
    while len(positions) < total:
        order = np.random.default_rng(stable_seed("think", stage, seed, turn)).permutation(count // together)
        positions += [int(first) * together + offset for first in order for offset in range(together)]
        turn += 1
    return positions[:total]


def read_rationales(file: Path, examples: Sequence[Example], question: Question) -> tuple[list[Target], dict[str, int]]:
    """Read the rationales that teach what people said.

    A reply that is not of the form that GRPO rewards, or that contradicts people, would teach the wrong thing.

    Args:
        file: lines of :class:`Rationale`.
        examples: what they may be about.
        question: reads them.

    Returns:
        The targets, and how many lines were used and why others were not.

    Raises:
        UserError: for a broken line, one about nothing in the data, or when nothing is left.
    """
    by_key: dict[tuple[str, Order], list[Example]] = {}
    for example in examples:
        by_key.setdefault((example.comparison.id, example.order), []).append(example)
    counts: Counter[str] = Counter(used=0, not_of_the_form=0, contradicts_the_label=0)
    targets = list(_targets(file, by_key, question, counts))
    if not targets:
        raise UserError(
            f"expected rationales that can be learnt from, {file} has none: {counts['not_of_the_form']} are not "
            f"<think>...</think> and one readable answer, {counts['contradicts_the_label']} contradict the label"
        )
    return targets, dict(counts)


def _targets(
    file: Path, by_key: Mapping[tuple[str, Order], Sequence[Example]], question: Question, counts: Counter[str]
) -> Iterator[Target]:
    for number, rationale in enumerate(read_records(file, Rationale), start=1):
        key = (rationale.comparison, tuple(rationale.order))
        if key not in by_key:
            raise UserError(
                f"{file}: record {number} is about comparison {rationale.comparison!r} in order {rationale.order}, "
                "which the data do not judge in this metric; order holds the candidates' positions, two for pairwise "
                "and one for rubric"
            )
        example = by_key[key][0]
        reading = question.read(rationale.text)
        if not is_well_formed(rationale.text, question.read):
            counts["not_of_the_form"] += 1
        elif question.protocol == "pairwise" and reading != example.label:
            counts["contradicts_the_label"] += 1
        else:
            counts["used"] += 1
            yield Target(example, rationale.text)
