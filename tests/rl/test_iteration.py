"""The samples of an iteration: which they are, and the figures about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch
from PIL.Image import Image

from gnomon.errors import UserError
from gnomon.records import Case, Text
from rl.algorithms import DiffusionNFT, FlowGRPO
from rl.generator import DiffusersGenerator
from rl.iteration import IterationSampling, JudgedSamples
from rl.policy import Policy
from rl.rewards import RewardOutput
from rl.settings import AdvantageSettings, LoraSettings, RolloutSettings

CASES = [Case(id=name, benchmark="toy", task="x", instruction=Text(en=f"make {name} red")) for name in "abc"]
ROLLOUT = RolloutSettings(num_prompts=2, num_candidates=2, micro_batch_size=2, window_size=2, window_last=1)


def untimed(_name: str) -> AbstractContextManager[None]:
    return nullcontext()


@pytest.fixture
def sampling_arguments(generator_settings: dict[str, Any], toy_rewards: ModuleType) -> dict[str, Any]:
    return {
        "policy": Policy(DiffusersGenerator(**generator_settings), LoraSettings(rank=4, alpha=8), copies=("old",)),
        "reward": toy_rewards.Brightness(),
        "algorithm": FlowGRPO(),
        "rollout": ROLLOUT,
        "advantage": AdvantageSettings(),
        "seed": 0,
    }


def make(arguments: dict[str, Any], pictures: list[Image], iteration: int = 0) -> JudgedSamples:
    loads: list[str] = []

    def load(cases: Sequence[Case]) -> list[list[Image]]:
        loads.extend(case.id for case in cases)
        return [pictures[:1] for _ in cases]

    made = IterationSampling(**arguments).make(iteration, CASES, load, torch.device("cpu"), untimed)
    assert len(loads) == len(set(loads)) == 2  # once per case, not once per sample
    return made


def test_an_iteration_has_groups_of_its_own_compared_inside_themselves(
    sampling_arguments: dict[str, Any], pictures: list[Image]
) -> None:
    made = make(sampling_arguments, pictures)
    ids = made.samples.trajectories.conditioning.case_ids
    assert ids[0] == ids[1] != ids[2] == ids[3]
    values = made.samples.advantages
    assert values.dtype == torch.float32
    assert torch.equal(values, made.advantages.values.float())
    assert values[0] == -values[1] != 0
    assert values[2] == -values[3] != 0
    again, other = make(sampling_arguments, pictures), make(sampling_arguments, pictures, iteration=1)
    assert torch.equal(again.samples.trajectories.latents, made.samples.trajectories.latents)
    assert not torch.equal(other.samples.trajectories.latents, made.samples.trajectories.latents)


def test_without_stochastic_steps_the_copy_samples_by_the_ode(
    sampling_arguments: dict[str, Any], pictures: list[Image]
) -> None:
    policy: Policy = sampling_arguments["policy"]
    arguments = {**sampling_arguments, "algorithm": DiffusionNFT()}
    before = make(arguments, pictures).samples.trajectories
    assert (before.sampler, len(before.window)) == (None, 0)
    with torch.no_grad():
        for parameter in policy.trained.values():
            parameter.add_(1.0)
    assert torch.equal(make(arguments, pictures).samples.trajectories.latents, before.latents)
    policy.move_copy("old", 0.0)
    assert not torch.equal(make(arguments, pictures).samples.trajectories.latents, before.latents)


class WithoutAWatchedPart:
    """A reward one of whose parts has no weight, and no value for the first picture of a call."""

    def __call__(self, *, cases: Any, references: Any, images: Sequence[Image]) -> RewardOutput:
        total = torch.arange(len(images), dtype=torch.float64)
        watched = total.clone()
        watched[0] = math.nan
        return RewardOutput(total, {"watched": watched}, torch.zeros(len(images), dtype=torch.bool))


def test_a_part_without_a_value_for_one_sample_keeps_its_mean_over_the_others(
    sampling_arguments: dict[str, Any], pictures: list[Image]
) -> None:
    rollout = replace(ROLLOUT, overlap_scoring=False)
    metrics = make(sampling_arguments | {"reward": WithoutAWatchedPart(), "rollout": rollout}, pictures).metrics()
    assert metrics["reward_mean"] == 1.5
    assert metrics["failed"] == 0
    assert metrics["watched"] == 2


def test_a_window_outside_the_schedule_is_refused_before_anything_is_sampled(
    sampling_arguments: dict[str, Any],
) -> None:
    rollout = replace(ROLLOUT, window_size=3, window_last=2)
    with pytest.raises(UserError, match=r"model\.rollout\.window_size.*make size at most 2, or make last at most 1"):
        IterationSampling(**sampling_arguments | {"rollout": rollout})
