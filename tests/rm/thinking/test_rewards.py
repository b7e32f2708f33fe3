"""The rewards of replies written by hand."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trl.rewards import get_soft_overlong_punishment  # type: ignore[attr-defined]  # it is, lazily

from gnomon.errors import UserError
from rm.thinking.asking import Preference, Question
from rm.thinking.rewards import answer_reward, format_reward, reply_text
from rm.vlm.conversation import split_thinking

ANSWERS: dict[str, Preference] = {"A": "A>B", "B": "B>A", "tie": "A=B"}


def _nothing(*_: Any) -> Any:
    raise AssertionError("a reward asks nothing")


def _score(text: str) -> float | None:
    answer = split_thinking(text)[1]
    return float(answer) if answer.replace(".", "").isdigit() else None


PAIRWISE = Question("pairwise", "", _nothing, lambda text: ANSWERS.get(split_thinking(text)[1]))
RUBRIC = Question("rubric", "", _nothing, _score)


def said(*replies: str) -> list[list[dict[str, str]]]:
    return [[{"role": "assistant", "content": reply}] for reply in replies]


@pytest.mark.parametrize(
    ("reply", "reward"),
    [
        ("<think>the circle is red in A</think>A", 1.0),
        ("\n<think>\nlong\nthought\n</think>\n\ntie\n", 1.0),
        ("A", 0.0),  # no thought
        ("<think></think>A", 0.0),
        ("<think> \n </think>A", 0.0),
        ("<think>the circle is red", 0.0),  # cut off
        ("<think>the circle is red</think>", 0.0),  # no answer
        ("<think>the circle is red</think>the circle", 0.0),  # no readable answer
        ("<think>red</think>A B", 0.0),  # two answers
        ("I say <think>red</think>A", 0.0),  # words before the thought
        ("<think>red</think><think>blue</think>A", 0.0),
        ("<think>red</think></think>A", 0.0),
        ("red</think>A", 0.0),
    ],
)
def test_the_format_is_one_thought_and_one_readable_answer(reply: str, reward: float) -> None:
    assert format_reward(PAIRWISE)(completions=said(reply)) == [reward]


def test_where_the_prompt_opens_the_thought_the_reply_must_not_do_it_again() -> None:
    reward = format_reward(PAIRWISE, opened=True)
    assert reward(completions=said("red</think>A", "<think>red</think>A", "A")) == [1.0, 0.0, 0.0]


def test_a_thought_that_the_tokenizer_took_out_of_the_reply_is_put_back() -> None:
    turn = [{"role": "assistant", "content": "A", "reasoning_content": "red"}]
    assert reply_text(turn, opened=True) == "<think>red</think>A"
    assert format_reward(PAIRWISE, opened=True)(completions=[turn]) == [1.0]


@pytest.mark.parametrize("label", ["A>B", "B>A", "A=B"])
def test_the_answer_of_a_pairwise_judge_counts_when_it_is_the_label(label: Preference) -> None:
    replies = said("<think>x</think>A", "<think>x</think>B", "<think>x</think>tie", "<think>x</think>red", "B", "")
    expected = [float(word == label) for word in ("A>B", "B>A", "A=B", None, "B>A", None)]
    columns = {"label": [label] * 6, "pair": ["p"] * 6, "side": [0] * 6}
    assert answer_reward(PAIRWISE)(completions=replies, **columns) == expected


def test_the_answer_of_a_rubric_judge_is_the_share_of_the_other_pictures_scores_that_it_orders_as_people_do() -> None:
    """First picture better: 7 beats 3 and 5 of {3, 5, 9}; 4 beats 3; an unreadable score gets nothing."""
    replies = said("7", "4", "good", "3", "5", "9")
    columns = {"label": ["A>B"] * 3 + ["B>A"] * 3, "pair": ["p"] * 6, "side": [0] * 3 + [1] * 3}
    assert answer_reward(RUBRIC)(completions=replies, **columns) == pytest.approx([2 / 3, 1 / 3, 0, 1, 1 / 2, 0])


def test_a_rubrics_ties_are_scores_within_the_margin() -> None:
    columns = {"label": ["A=B"] * 2, "pair": ["p"] * 2, "side": [0, 1]}
    replies = said("5", "5.5")
    assert answer_reward(RUBRIC)(completions=replies, **columns) == [0, 0]
    assert answer_reward(RUBRIC, tie_margin=0.5)(completions=replies, **columns) == [1, 1]


def test_pairs_are_kept_apart_and_nothing_is_won_against_a_picture_without_a_score() -> None:
    replies = said("7", "red", "1", "2")
    columns = {"label": ["A>B", "B>A", "B>A", "A>B"], "pair": ["p", "p", "q", "q"], "side": [0, 1, 0, 1]}
    assert answer_reward(RUBRIC)(completions=replies, **columns) == [0, 0, 1, 1]


def test_a_rubrics_picture_without_its_partner_is_an_error_and_no_number() -> None:
    with pytest.raises(UserError, match="both pictures of pair p"):
        answer_reward(RUBRIC)(completions=said("7"), label=["A>B"], pair=["p"], side=[0])


@given(st.lists(st.sampled_from(["1", "2", "3.5", "red"]), min_size=2, max_size=8), st.sampled_from(["A>B", "A=B"]))
def test_both_sides_of_a_rubrics_pair_have_the_same_mean_reward_over_readable_replies(
    words: list[str], label: Preference
) -> None:
    """Every readable pair of replies is counted once from each side, so both means are one share."""
    mirrored: Preference = "B>A" if label == "A>B" else "A=B"
    half = len(words) // 2
    sides = [0] * half + [1] * (len(words) - half)
    rewards = answer_reward(RUBRIC)(
        completions=said(*words),
        label=[mirrored if side else label for side in sides],
        pair=["p"] * len(words),
        side=sides,
    )
    readable = [
        [
            float(reward or 0)
            for reward, at, word in zip(rewards, sides, words, strict=True)
            if at == side and word != "red"
        ]
        for side in (0, 1)
    ]
    if all(readable):
        first, second = (fmean(side) for side in readable)
        assert first == pytest.approx(second)


def test_the_length_reward_of_trl_is_the_formula_of_the_docstring() -> None:
    """L_max 10, cache 4: 0 up to 6 tokens, -1/4 for each one more, -1 from 10 on."""
    reward = get_soft_overlong_punishment(10, 4)
    lengths = [0, 6, 7, 9, 10, 11]
    assert reward(completion_ids=[[1] * length for length in lengths]) == [0, 0, -0.25, -0.75, -1, -1]
