"""Several rewards as one: parts stay visible, and a row fails when any part failed."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from PIL import Image

from gnomon.errors import UserError
from gnomon.records import Case, Text
from rl.advantages import gdpo_advantages
from rl.rewards import CombinedReward, Reward, RewardOutput, ask_reward

CASES = [Case(id=f"case-{row // 2}", benchmark="toy", task="edit", instruction=Text(en="x")) for row in range(4)]
COLUMNS: dict[str, Any] = {"cases": CASES, "references": [[]] * 4, "images": [Image.new("RGB", (4, 4))] * 4}


class Part:
    def __init__(self, values: list[float], failed: dict[int, str] | None = None, fingerprint: str = "") -> None:
        self.values, self.reasons = torch.tensor(values), failed or {}
        self.fingerprint = fingerprint

    def __call__(self, *, cases: Any, references: Any, images: Any) -> RewardOutput:
        failed = torch.tensor([row in self.reasons for row in range(len(images))])
        return RewardOutput(self.values, {"half": self.values / 2}, failed, self.reasons)


def test_parts_are_added_up_by_weight_and_stay_visible() -> None:
    parts: dict[str, Reward] = {"judge": Part([1.0, 2.0, 3.0, 4.0]), "colour": Part([10.0, 0.0, 10.0, 0.0])}
    output = ask_reward(CombinedReward(parts, weights={"judge": 2.0, "colour": -0.1}), **COLUMNS)
    assert output.total.tolist() == [1.0, 4.0, 5.0, 8.0]
    assert list(output.breakdown) == ["judge", "judge/half", "colour", "colour/half"]
    assert output.breakdown["colour"].tolist() == [10.0, 0.0, 10.0, 0.0]
    assert output.breakdown["judge/half"].tolist() == [0.5, 1.0, 1.5, 2.0]
    assert ask_reward(CombinedReward(parts), **COLUMNS).total.tolist() == [11.0, 2.0, 13.0, 4.0]


def test_a_row_that_one_part_could_not_judge_is_no_reward_at_all() -> None:
    parts: dict[str, Reward] = {
        "judge": Part([1.0, 2.0, 3.0, 4.0], {1: "timed out"}),
        "colour": Part([1.0, 2.0, math.nan, 4.0], {1: "no red"}),
    }
    output = ask_reward(CombinedReward(parts), **COLUMNS)
    assert output.failed.tolist() == [False, True, True, False]
    assert output.reasons == {1: "judge: timed out; colour: no red", 2: "colour: not finite (nan)"}
    assert all(values.isnan().tolist() == [False, True, True, False] for values in output.breakdown.values())


def test_its_breakdown_and_weights_are_what_gdpo_takes() -> None:
    reward = CombinedReward({"a": Part([0.0, 1.0, 0.0, 1.0]), "b": Part([0.0, 100.0, 100.0, 0.0])})
    output = ask_reward(reward, **COLUMNS)
    ids = [case.id for case in CASES]
    advantages = gdpo_advantages(output.breakdown, reward.weights, ids, failed=output.failed, epsilon=0.0)
    # In the first group both agree; in the second they contradict each other and weigh the same.
    torch.testing.assert_close(advantages.values, torch.tensor([-(2**0.5), 2**0.5, 0.0, 0.0], dtype=torch.float64))


@pytest.mark.parametrize(
    ("parts", "weights", "message"),
    [
        ({}, None, "one or more parts"),
        ({"a": Part([])}, {"b": 1.0}, "each of the parts a, got"),
        ({"a": Part([]), "b": Part([])}, {"a": 1.0}, "each of the parts a, b, got"),
        ({"a": Part([]), "b": Part([])}, {"a": 1.0, "b": 0.0}, "weight other than 0"),
        ({"a": Part([])}, {"a": math.inf}, "a not finite"),
    ],
)
def test_weights_that_do_not_fit_the_parts_are_refused(
    parts: dict[str, Part], weights: dict[str, float] | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        CombinedReward(dict(parts), weights=weights)


@pytest.mark.parametrize("name", ["judge/half", "", "failed", "sharpness"])
def test_a_part_may_not_be_called_like_something_else(name: str) -> None:
    # `judge/half` is also what the half of the part `judge` is called: one would be weighed for the other.
    parts: dict[str, Reward] = {name: Part([1.0] * 4), "judge": Part([2.0] * 4)}
    with pytest.raises(UserError, match=f"got '{name}'; rename"):
        CombinedReward(parts)


def test_another_part_or_weight_is_another_fingerprint() -> None:
    prints = {
        CombinedReward({"a": Part([], fingerprint=mark)}, weights={"a": weight}).fingerprint
        for mark in ("x", "y")
        for weight in (1.0, 2.0)
    }
    assert len(prints) == 4
