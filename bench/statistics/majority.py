"""What most raters say, with abstentions left out and ties under a stated rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from bench.statistics.ratings import is_missing

Label = TypeVar("Label", bound=Hashable)


@dataclass(frozen=True)
class Majority(Generic[Label]):
    """The label with the most votes.

    Attributes:
        value: the label, None where there is none.
        n_votes: votes that were counted.
        n_abstained: missing votes and abstentions.
        n_for_value: votes for `value`, 0 where a tie rule chose a label without votes.
        outcome: "majority"; "tie" where several labels have the most votes, whether or not a rule gave a value;
            "no votes" where everyone abstained.
    """

    value: Label | None
    n_votes: int
    n_abstained: int
    n_for_value: int
    outcome: Literal["majority", "tie", "no votes"]


def majority_vote(
    votes: Sequence[Label | None], *, abstentions: Collection[Label] = (), on_tie: Label | None = None
) -> Majority[Label]:
    """Return the label with the most votes; it need not have more than half of them.

    Args:
        votes: one per rater, None or NaN where it is missing.
        abstentions: labels that are no votes, such as "unsure".
        on_tie: the label that a tie counts as, such as "no" for a question that was not clearly confirmed; a tie has no
            value where None. No rule prefers a label for coming first.
    """
    counted = [vote for vote in votes if vote is not None and not is_missing(vote) and vote not in abstentions]
    n_abstained = len(votes) - len(counted)
    if not counted:
        return Majority(None, 0, n_abstained, 0, "no votes")
    (leader, most), *others = Counter(counted).most_common(2)
    if others and others[0][1] == most:
        return Majority(on_tie, len(counted), n_abstained, counted.count(on_tie) if on_tie is not None else 0, "tie")
    return Majority(leader, len(counted), n_abstained, most, "majority")


def leave_one_out_majorities(
    votes: Sequence[Label | None], *, abstentions: Collection[Label] = (), on_tie: Label | None = None
) -> list[Majority[Label]]:
    """Return for each rater the majority of all others, with which that rater's own vote can be compared.

    A majority over all votes contains the rater's own and so agrees with it more often than it should. For the
    arguments see :func:`majority_vote`.
    """
    return [
        majority_vote([*votes[:own], *votes[own + 1 :]], abstentions=abstentions, on_tie=on_tie)
        for own in range(len(votes))
    ]
