"""Rewards keep failures apart from low values, and monitors know plain pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image

from data_build.tabletop.tiny_judge import make_judge_base, make_processor, save_judge_base
from gnomon.errors import UserError
from gnomon.records import Case, Text
from rl.rewards import RewardModelReward, RewardOutput, apply_reward, image_monitors, weighted_sum
from rm.pairs import DIMENSIONS
from rm.reward_model import RewardModel

CASES = [
    Case(id=f"case-{index}", benchmark="toy", task="recolour", instruction=Text(en="make it red")) for index in range(4)
]
IMAGES = [Image.new("RGB", (64, 64), (value, value, value)) for value in (0, 51, 102, 255)]
NO_REFERENCES: list[list[Image.Image]] = [[], [], [], []]


def call(reward: Callable[..., RewardOutput], max_failed_share: float = 0.5) -> RewardOutput:
    return apply_reward(reward, cases=CASES, references=NO_REFERENCES, images=IMAGES, max_failed_share=max_failed_share)


class Fixed:
    def __init__(self, total: Sequence[float], failed: Sequence[bool], reasons: dict[int, str] | None = None) -> None:
        self.output = RewardOutput(torch.tensor(total), {}, torch.tensor(failed), reasons or {})

    def __call__(self, *, cases: Sequence[Case], references: object, images: object) -> RewardOutput:
        return self.output


def test_a_toy_reward_is_called_with_rows_in_order(toy_rewards: ModuleType) -> None:
    output = call(toy_rewards.Brightness())
    torch.testing.assert_close(output.total, torch.tensor([0.0, 0.2, 0.4, 1.0], dtype=torch.float64), atol=1e-6, rtol=0)
    assert output.failed.tolist() == [False] * 4


def test_a_value_that_is_not_finite_is_a_failure_and_never_a_low_reward() -> None:
    output = call(Fixed([0.5, math.nan, math.inf, 1.0], [False] * 4), max_failed_share=0.5)
    assert output.failed.tolist() == [False, True, True, False]
    assert bool(output.total[1:3].isnan().all())
    assert output.reasons[1] == "not finite"


def test_too_many_failures_stop_the_run_with_reasons() -> None:
    reward = Fixed([0.5, 0.0, 0.0, 1.0], [False, True, True, False], {1: "timed out", 2: "timed out"})
    with pytest.raises(UserError, match=r"Fixed failed on 2 of 4 .*case-1: timed out.*max_failed_share"):
        call(reward, max_failed_share=0.4)
    assert call(reward, max_failed_share=0.5).failed.sum() == 2


def test_a_wrong_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="each of 4 pictures"):
        call(Fixed([0.5] * 3, [False] * 3))


def test_something_that_is_no_reward_output_is_refused() -> None:
    with pytest.raises(UserError, match="RewardOutput"):
        call(lambda **_: torch.zeros(4))  # type: ignore[arg-type]


def test_dimensions_are_combined_by_weight() -> None:
    breakdown = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([10.0, 20.0]), "c": torch.tensor([7.0, 7.0])}
    assert weighted_sum(breakdown, {"a": 2.0, "b": 0.5}).tolist() == [7.0, 14.0]


def test_monitors_of_plain_pictures() -> None:
    red = Image.new("RGB", (64, 64), (255, 0, 0))
    grey = Image.new("RGB", (64, 64), (128, 128, 128))
    board = Image.fromarray((np.indices((64, 64)).sum(axis=0) % 2 * 255).astype(np.uint8)).convert("RGB")
    monitors = image_monitors([red, grey, board], [[red], [red.resize((32, 32))], []])
    assert monitors["sharpness"][:2].tolist() == [0.0, 0.0]
    assert monitors["sharpness"][2].item() == pytest.approx(4.0)  # the sharpest picture there is
    assert monitors["saturation"].tolist() == [1.0, 0.0, 0.0]
    assert monitors["source_distance"][0].item() == 0.0
    assert monitors["source_distance"][1].item() == pytest.approx((127 + 128 + 128) / 3 / 255)
    assert math.isnan(monitors["source_distance"][2].item())


@pytest.fixture(scope="module")
def judge_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a reward model with untrained heads on an untrained base of the shipped judge's architecture."""
    folder = tmp_path_factory.mktemp("judge")
    processor = make_processor()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        base = make_judge_base(processor, hidden=32, layers=1)
    save_judge_base(folder / "base", base, processor)
    RewardModel.from_base(folder / "base").save_pretrained(folder / "model")
    return folder / "model"


def test_the_reward_of_a_reward_model_weighs_its_dimensions(judge_folder: Path, pictures: list[Image.Image]) -> None:
    references = [pictures[:1], pictures[:2], pictures[1:2], pictures[1:3]]
    weights = {"overall": 1.0, "visual_quality": 0.5}
    reward = RewardModelReward(str(judge_folder), weights=weights)
    output = apply_reward(reward, cases=CASES, references=references, images=pictures, max_failed_share=0.0)
    assert set(output.breakdown) == set(DIMENSIONS)
    expected = output.breakdown["overall"] + 0.5 * output.breakdown["visual_quality"]
    torch.testing.assert_close(output.total, expected)
    scores = RewardModel.from_pretrained(judge_folder).score(
        instruction="make it red", references=references[1], candidates=pictures[1:2]
    )
    torch.testing.assert_close(output.breakdown["overall"][1].float(), scores.values[0, DIMENSIONS.index("overall")])


def test_a_dimension_that_the_judge_does_not_have_is_refused(judge_folder: Path) -> None:
    with pytest.raises(UserError, match="beauty"):
        RewardModelReward(str(judge_folder), weights={"beauty": 1.0})
