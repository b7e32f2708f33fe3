"""The rewards of GRPO, in the form in which trl calls them: one number per reply, from it and the data's columns.

The third one, for length, is trl's own (`trl.rewards.get_soft_overlong_punishment`): with L tokens of at most L_max and
a cache C it is 0 up to L_max - C, falls to -1 at L_max as (L_max - C - L) / C, and is -1 beyond (Yu et al. 2025, DAPO,
arXiv 2503.14476, eq. 13).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gnomon.errors import UserError
from rm.thinking.asking import Preference, Question
from rm.vlm.conversation import split_thinking

Read = Callable[[str], "Preference | float | None"]
Completion = Sequence[Mapping[str, Any]]
OPEN, CLOSE = "<think>", "</think>"


Reward = Callable[..., list[float | None]]
"""A reward function as trl calls it; its name is what figures are logged under."""


def reply_text(completion: Completion, opened: bool) -> str:
    """Return a reply as one text.

    Args:
        completion: the assistant's turn; tokenizers that know how a reply is built have taken the thought out of it.
        opened: whether the prompt ended with the opening tag, so that the reply lacks it.
    """
    turn = completion[-1]
    content = str(turn.get("content") or "")
    thought = turn.get("reasoning_content") or turn.get("thinking")
    if thought is not None:
        return f"{OPEN}{thought}{CLOSE}{content}"
    return f"{OPEN}{content}" if opened else content


def is_well_formed(reply: str, read: Read) -> bool:
    """Say whether a reply is one thought that is not empty, in tags, and then one readable answer."""
    if reply.count(OPEN) != 1 or reply.count(CLOSE) != 1 or not reply.lstrip().startswith(OPEN):
        return False
    thought, answer = split_thinking(reply)
    return bool(thought) and bool(answer) and read(answer) is not None


def format_reward(question: Question, opened: bool = False) -> Reward:
    """Return the reward for the form: 1 for `<think>` thought `</think>` and one readable answer, else 0."""

    def format(completions: Sequence[Completion], **_: Any) -> list[float | None]:
        return [float(is_well_formed(reply_text(completion, opened), question.read)) for completion in completions]

    return format


def answer_reward(question: Question, opened: bool = False, tie_margin: float = 0.0) -> Reward:
    """Return the reward for saying what people said, by the question's protocol.

    Pairwise: 1 where the preference that is read equals the label, ties exactly, else 0.

    Rubric: people compared two pictures, a reply scores one. The reward of a reply with score s is the share of the
    readable scores t given in the same step to the other picture of its pair for which the sign of s - t (0 within
    `tie_margin`) is the label's. So a group is rewarded for telling the pictures apart and not for a scale. A reply
    without a readable score gets 0; where the other picture has no readable score, so do all.

    Args:
        question: that was asked.
        opened: whether the prompt opened the thought.
        tie_margin: of the rubric.
    """
    read = question.read

    def answer(
        completions: Sequence[Completion],
        label: Sequence[Preference],
        pair: Sequence[str],
        side: Sequence[int],
        **_: Any,
    ) -> list[float | None]:
        readings = [read(reply_text(completion, opened)) for completion in completions]
        if question.protocol == "pairwise":
            return [float(reading == said) for reading, said in zip(readings, label, strict=True)]
        return _agreement(readings, label, list(zip(pair, side, strict=True)), tie_margin)

    return answer


def _agreement(
    scores: Sequence[Any], labels: Sequence[Preference], keys: Sequence[tuple[str, int]], tie_margin: float
) -> list[float | None]:
    by_picture: dict[tuple[str, int], list[float | None]] = {}
    for key, score in zip(keys, scores, strict=True):
        by_picture.setdefault(key, []).append(score)
    rewards: list[float | None] = []
    for score, label, (pair, side) in zip(scores, labels, keys, strict=True):
        if (pair, 1 - side) not in by_picture:
            raise UserError(
                f"expected replies about both pictures of pair {pair} in one step and on one rank, got one picture's; "
                "choose a grpo.prompts_per_step that twice the number of ranks divides"
            )
        others = [other for other in by_picture[pair, 1 - side] if other is not None]
        agreeing = [] if score is None else [_preference(score - other, tie_margin) == label for other in others]
        rewards.append(sum(agreeing) / len(agreeing) if agreeing else 0.0)
    return rewards


def _preference(difference: float, tie_margin: float) -> Preference:
    if abs(difference) <= tie_margin:
        return "A=B"
    return "A>B" if difference > 0 else "B>A"
