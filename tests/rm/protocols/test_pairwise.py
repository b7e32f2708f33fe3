"""Both orders or no verdict: agreement is a preference, disagreement a marked tie, a failed order a failure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.errors import UserError
from gnomon.images import content_hash
from gnomon.records import Label, Reference, Text
from rm.judge import JudgeRequest
from rm.protocols.pairwise import PairwiseJudge, PairwiseQuestion, PairwiseRequest, agree, combine_orders, swap_outcome
from rm.vlm.conversation import Reply

Ask = Callable[..., JudgeRequest]
Make = Callable[..., Any]


@pytest.mark.parametrize(
    ("forward", "backward", "label", "inconsistent"),
    [
        ("A", "B", "i", False),
        ("B", "A", "j", False),
        ("A", "A", "tie", True),
        ("B", "B", "tie", True),
        ("A", "tie", "tie", True),
        ("both good", "both good", "tie_good", False),
        ("both bad", "both bad", "tie_bad", False),
        ("tie", "both bad", "tie", False),
        ("both good", "both bad", "tie", True),
    ],
)
def test_two_orders_make_one_label(forward: str, backward: str, label: str, inconsistent: bool) -> None:
    first, second = (Reply(f'{{"reason": "r", "winner": "{word}"}}') for word in (forward, backward))
    outcome = combine_orders(PairwiseQuestion("overall"), first, second)
    assert (outcome.label, outcome.status, outcome.inconsistent) == (label, "ok", inconsistent)
    assert outcome.raw == (first.text, second.text)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_failed_order_is_a_failure(order: tuple[int, int]) -> None:
    replies = Reply("[[A>B]]"), Reply("", "refused", error="filtered")
    outcome = combine_orders(PairwiseQuestion("overall"), replies[order[0]], replies[order[1]])
    assert (outcome.label, outcome.status, outcome.rationale) == (None, "refused", "filtered")


WORDS = st.sampled_from(["A", "B", "tie", "both good", "both bad", "", "nothing"])


@given(WORDS, WORDS)
def test_exchanging_the_pictures_exchanges_the_outcome(one: str, other: str) -> None:
    question = PairwiseQuestion("overall")
    there = combine_orders(question, Reply(f"[[{one}]]"), Reply(f"[[{other}]]"))
    back = combine_orders(question, Reply(f"[[{other}]]"), Reply(f"[[{one}]]"))
    swapped = swap_outcome(there)
    assert (swapped.label, swapped.inconsistent, swapped.raw) == (back.label, back.inconsistent, back.raw)
    assert swap_outcome(swapped) == there


def test_agreement_does_not_depend_on_which_comes_first() -> None:
    labels: tuple[Label, ...] = ("i", "j", "tie", "tie_good", "tie_bad")
    assert all(agree(one, other) == agree(other, one) for one in labels for other in labels)


def pair(root: Path, first: str = "1", second: str = "2", metric: str = "overall") -> PairwiseRequest:
    references = (Reference(path="0.png"), Reference(path="3.png"))
    return PairwiseRequest(
        Text(en="make it red"), root, references, root / f"{first}.png", root / f"{second}.png", metric
    )


def test_each_pair_is_shown_in_both_orders_and_bad_ones_hurt_nobody(ask: Ask, listed: Make) -> None:
    root = ask().root
    vlm = listed([Reply("[[A>B]]"), Reply("[[B>A]]"), Reply("[[A>B]]"), Reply("[[A>B]]")])
    requests = [
        pair(root),
        pair(root, "broken"),
        pair(root, metric="taste"),
        pair(root, "2", "lost"),
        pair(root, "2", "3"),
    ]
    outcomes = PairwiseJudge(vlm).compare(requests)
    assert [outcome.label for outcome in outcomes] == ["i", None, None, None, "tie"]
    assert [outcome.status for outcome in outcomes] == [
        "ok",
        "unreadable_image",
        "not_applicable",
        "missing_output",
        "ok",
    ]
    assert [outcome.inconsistent for outcome in outcomes] == [False] * 4 + [True]
    hashes = [[content_hash(part) for part in talk[1].content if not isinstance(part, str)] for talk in vlm.asked[:2]]
    expected = [content_hash(root / f"{number}.png") for number in (0, 3, 1, 2)]
    assert hashes == [expected, [*expected[:2], expected[3], expected[2]]]
    words = "".join(part for part in vlm.asked[0][1].content if isinstance(part, str))
    assert words.index("Edited image A:") < words.index("Edited image B:")


def test_the_fingerprint_follows_metric_and_language(listed: Make) -> None:
    vlm = listed([])
    judges = [PairwiseJudge(vlm), PairwiseJudge(vlm, metrics=["overall"]), PairwiseJudge(vlm, language="zh")]
    assert len({judge.fingerprint for judge in judges}) == 3
    with pytest.raises(UserError, match="'taste'"):
        PairwiseJudge(vlm, metrics=["taste"])
