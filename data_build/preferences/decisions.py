"""The two-stage rule: what becomes of one pair in one dimension, and why.

Stage 1: when all annotators independently give one label, it is the proposal; otherwise a discussion decides, and what
nobody discussed stays undecided. Stage 2: verifiers look at task and label; one who objects removes it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import Field

from data_build.preferences.annotations import Item
from gnomon.errors import UserError
from gnomon.records import Record

PairLabel = Literal["first", "second", "tie"]
Outcome = Literal[
    "kept",
    "rejected",
    "too_few_verifiers",
    "removed",
    "undecided",
    "contradictory",
    "too_few_annotators",
    "not_annotated",
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True)
class MergeSettings:
    """How many people have to look at each pair and dimension.

    Attributes:
        num_annotators: in stage 1.
        num_verifiers: in stage 2.
    """

    num_annotators: int = 3
    num_verifiers: int = 5

    def __post_init__(self) -> None:
        """Refuse numbers below 1."""
        if min(self.num_annotators, self.num_verifiers) < 1:
            raise UserError(
                f"expected num_annotators >= 1 and num_verifiers >= 1, got {self.num_annotators} and "
                f"{self.num_verifiers}"
            )


class Decision(Record):
    """What became of one pair in one dimension; a line of `decisions.jsonl`.

    Attributes:
        pair: its id.
        dimension: the dimension.
        outcome: "kept" is in the result, nothing else is.
        label: what stage 1 ended with, None where it did not end with one.
        by: how it came to the label.
        reason: in words.
        votes: how often annotators of stage 1 gave each label.
        num_verifiers: verifiers of stage 2.
        records: the annotations that it rests on, as file:line.
    """

    pair: str
    dimension: str
    outcome: Outcome
    label: PairLabel | None = None
    by: Literal["unanimity", "discussion"] | None = None
    reason: str
    votes: dict[str, int] = Field(default_factory=dict)
    num_verifiers: int = 0
    records: list[str] = Field(default_factory=list)


@dataclass(frozen=True)
class _Consensus:
    """The end of stage 1: a label, or the outcome that it means."""

    reason: str
    label: PairLabel | None = None
    by: Literal["unanimity", "discussion"] | None = None
    outcome: Outcome | None = None


def decide(pair: str, dimension: str, item: Item, settings: MergeSettings) -> Decision:
    """Apply the rule to all that was said about one pair in one dimension."""
    proposals = sorted(item.proposals.values(), key=lambda located: located.record.annotator)
    records = [located.place for located in proposals] + [located.place for located in item.discussion.values()]
    consensus = _consensus(item, settings)
    outcome, reason = consensus.outcome, consensus.reason
    if outcome is None:
        outcome, second_reason = _verified(item, settings)
        reason = f"{reason}; {second_reason}"
    # Where stage 1 has no label there was nothing to verify.
    verifications = [] if consensus.label is None else list(item.verifications.values())
    records += [located.place for located in sorted(verifications, key=lambda located: located.record.annotator)]
    records += [place for _, places in item.contradictions for place in places if place not in records]
    return Decision(
        pair=pair,
        dimension=dimension,
        outcome=outcome,
        label=consensus.label,
        by=consensus.by,
        reason=reason,
        votes=dict(sorted(Counter(located.record.label for located in proposals).items())),
        num_verifiers=len(verifications),
        records=list(dict.fromkeys(records)),
    )


def _consensus(item: Item, settings: MergeSettings) -> _Consensus:
    """Say what stage 1 came to."""
    if item.contradictions:
        return _Consensus("; ".join(text for text, _ in item.contradictions), outcome="contradictory")
    labels = [located.record.label for located in item.proposals.values()]
    discussion = next(iter(item.discussion.values()), None)
    if len(labels) < settings.num_annotators:
        missing: Outcome = "too_few_annotators" if labels or discussion else "not_annotated"
        return _Consensus(f"{len(labels)} of {settings.num_annotators} annotators", outcome=missing)
    label = labels[0]
    if len(set(labels)) == 1 and label != "unclear":
        if discussion is not None and discussion.record.label != label:
            text = f"all {len(labels)} annotators say {label}, the discussion at {discussion.place} says otherwise"
            return _Consensus(text, outcome="contradictory")
        return _Consensus(f"all {len(labels)} annotators say {label}", label, "unanimity")
    found = ", ".join(f"{name} {count}" for name, count in sorted(Counter(labels).items()))
    if discussion is None:
        return _Consensus(f"annotators say {found}, and no discussion decided", outcome="undecided")
    if discussion.record.label is None:
        return _Consensus(f"annotators say {found}; removed in the discussion", outcome="removed")
    agreed = discussion.record.label
    return _Consensus(f"annotators say {found}; the discussion decided for {agreed}", agreed, "discussion")


def _verified(item: Item, settings: MergeSettings) -> tuple[Outcome, str]:
    """Say what stage 2 came to, for an item with a label."""
    verifications = [located.record for located in item.verifications.values()]
    invalid = sum(not record.valid_task for record in verifications)
    against = sum(not record.agrees for record in verifications)
    if invalid or against:
        return "rejected", (
            f"of {len(verifications)} verifiers {invalid} find the task invalid and {against} disagree with the label"
        )
    if len(verifications) < settings.num_verifiers:
        return "too_few_verifiers", f"{len(verifications)} of {settings.num_verifiers} verifiers"
    return "kept", f"all {len(verifications)} verifiers agree"
