"""Majorities by hand and their invariants."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from bench.statistics.majority import Majority, leave_one_out_majorities, majority_vote

votes = st.lists(st.sampled_from(["yes", "no", "unsure", None]), max_size=9)


def test_the_label_with_most_votes_wins_even_with_less_than_half() -> None:
    assert majority_vote(["a", "b", "a", "c", "d"]) == Majority("a", 5, 0, 2, "majority")


def test_abstentions_are_no_votes() -> None:
    given = ["unsure", "unsure", "unsure", "yes", None]
    assert majority_vote(given, abstentions=["unsure"]) == Majority("yes", 1, 4, 1, "majority")
    assert majority_vote(given).value == "unsure"
    assert majority_vote([1.0, math.nan, 0.0, 0.0]) == Majority(0.0, 3, 1, 2, "majority")


def test_a_tie_has_no_value_unless_a_rule_gives_one() -> None:
    assert majority_vote(["yes", "no"]) == Majority(None, 2, 0, 0, "tie")
    assert majority_vote(["yes", "no", "unsure"], abstentions=["unsure"], on_tie="no") == Majority("no", 2, 1, 1, "tie")
    assert majority_vote(["a", "b"], on_tie="neither") == Majority("neither", 2, 0, 0, "tie")


def test_nobody_voting_is_no_tie() -> None:
    assert majority_vote([]) == Majority(None, 0, 0, 0, "no votes")
    assert majority_vote([None, "unsure"], abstentions=["unsure"], on_tie="no") == Majority(None, 0, 2, 0, "no votes")


def test_a_raters_own_vote_is_left_out() -> None:
    majorities = leave_one_out_majorities(["yes", "yes", "no", "no", "no"])
    assert [majority.value for majority in majorities] == ["no", "no", None, None, None]
    assert [majority.outcome for majority in majorities] == ["majority", "majority", "tie", "tie", "tie"]


@given(given_votes=votes, data=st.data())
def test_order_does_not_matter(given_votes: list[str | None], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(given_votes))
    assert majority_vote(shuffled, abstentions=["unsure"]) == majority_vote(given_votes, abstentions=["unsure"])


@given(given_votes=votes)
def test_leaving_one_out_is_voting_without_it(given_votes: list[str | None]) -> None:
    found = leave_one_out_majorities(given_votes, abstentions=["unsure"], on_tie="no")
    assert len(found) == len(given_votes)
    for own, majority in enumerate(found):
        others = [vote for position, vote in enumerate(given_votes) if position != own]
        assert majority == majority_vote(others, abstentions=["unsure"], on_tie="no")
        assert majority.n_votes + majority.n_abstained == len(given_votes) - 1
