"""The arithmetic of batches."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from gnomon.errors import UserError
from rl.settings import (
    AdvantageSettings,
    EmaSettings,
    LoraSettings,
    OptimizerSettings,
    RolloutSettings,
    check_precision,
)


def test_the_layout_of_the_tabletop_recipe() -> None:
    settings = RolloutSettings(num_prompts=8, num_candidates=12, micro_batch_size=48, window_size=3)
    assert settings.num_samples == 96
    layout = settings.layout(accumulate=3, trained_steps=3)
    assert (layout.samples_per_rank, layout.micro_batches_per_rank, layout.optimizer_steps) == (96, 6, 2)
    assert "3 per optimizer step = 2 optimizer steps per iteration" in str(layout)


def test_ranks_share_the_samples_and_take_as_many_optimizer_steps_together() -> None:
    settings = RolloutSettings(num_prompts=6, num_candidates=4, micro_batch_size=3)
    layout = settings.layout(accumulate=2, trained_steps=2, num_ranks=4)
    assert (layout.samples_per_rank, layout.micro_batches_per_rank, layout.optimizer_steps) == (6, 4, 2)
    assert "24 samples on 4 ranks, 6 on each; 4 micro-batches per rank" in str(layout)
    for num_ranks in (5, 12):
        with pytest.raises(UserError, match=f"divided by {num_ranks} ranks"):
            settings.layout(accumulate=1, trained_steps=2, num_ranks=num_ranks)


def test_the_defaults_are_two_optimizer_steps_for_48_groups_of_16() -> None:
    layout = RolloutSettings().layout(accumulate=36, trained_steps=3, num_ranks=8)
    assert (layout.samples_per_rank, layout.optimizer_steps) == (96, 2)


def test_accumulation_that_leaves_a_smaller_last_step_is_refused() -> None:
    with pytest.raises(UserError, match="accumulate_grad_batches to divide the 576 micro-batches"):
        RolloutSettings().layout(accumulate=5, trained_steps=3)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (RolloutSettings, {"num_candidates": 1}, "model.rollout.num_candidates >= 2"),
        (RolloutSettings, {"num_prompts": 0}, "model.rollout.num_prompts >= 1"),
        (RolloutSettings, {"micro_batch_size": 36}, "micro_batch_size to divide .* 48 x 16 = 768, got 36"),
        (RolloutSettings, {"noise_level": 0.0}, "model.rollout.sampler and noise_level"),
        (RolloutSettings, {"noise_level": float("inf")}, "model.rollout.sampler and noise_level.*finite"),
        (RolloutSettings, {"sampler": "cps", "noise_level": 1.2}, "model.rollout.sampler and noise_level.*CPS"),
        (RolloutSettings, {"sampler": "euler"}, "cps, got 'euler'"),
        (RolloutSettings, {"window_size": 0}, "model.rollout.window_size"),
        (RolloutSettings, {"micro_batch_size": 0}, "micro_batch_size to divide .*, got 0"),
        (RolloutSettings, {"window_first": 3}, "model.rollout.window_last >= window_first = 3, got 2"),
        (RolloutSettings, {"window_first": -1}, "model.rollout.window_first >= 0, got -1"),
        (RolloutSettings, {"max_failed_share": 1.5}, "model.rollout.max_failed_share"),
        (AdvantageSettings, {"epsilon": -1.0}, "model.advantage.epsilon"),
        (AdvantageSettings, {"clip": 0.0}, "model.advantage.clip"),
        (AdvantageSettings, {"std": "batch"}, "model.advantage.std .*got 'batch'"),
        (AdvantageSettings, {"combine": "mean"}, "model.advantage.combine"),
        (LoraSettings, {"rank": 0}, "model.lora.rank"),
        (LoraSettings, {"alpha": 0}, "model.lora.alpha"),
        (LoraSettings, {"targets": []}, "model.lora.targets"),
        (LoraSettings, {"init": "zero"}, "model.lora.init"),
        (OptimizerSettings, {"learning_rate": 0.0}, "model.optimizer.learning_rate"),
        (OptimizerSettings, {"weight_decay": -0.1}, "model.optimizer.weight_decay"),
        (OptimizerSettings, {"betas": (0.9, 1.0)}, "model.optimizer.betas"),
        (EmaSettings, {"decay": 1.0}, "model.ema.decay"),
        (EmaSettings, {"every": 0}, "model.ema.every"),
    ],
)
def test_settings_out_of_their_range_are_refused_by_their_key(kind: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        kind(**change)
    # What stands first is a key that the reader can look for in the config.
    key = re.match(r"(?:expected )?model\.(\w+)\.(\w+)", str(caught.value))
    assert key is not None, str(caught.value)
    assert f"{key[1]}settings" == kind.__name__.lower()
    assert key[2] in {field.name for field in dataclasses.fields(kind)}


def test_a_precision_that_would_round_the_adapter_is_refused_by_name() -> None:
    for precision in ("32-true", "bf16-mixed", "16-mixed"):
        check_precision(precision)
    with pytest.raises(UserError, match=r"got bf16-true.*Use bf16-mixed"):
        check_precision("bf16-true")
    with pytest.raises(UserError, match=r"got 16-true.*Use 16-mixed"):
        check_precision("16-true")


@pytest.mark.parametrize(
    ("window", "steps"), [((3, 0, 2), 5), ((3, 4, 4), 5), ((8, 0, 0), 5), ((1, 0, 0), 1), ((2, 1, 9), 6)]
)
def test_the_remedies_for_a_window_outside_the_schedule_are_ones(window: tuple[int, int, int], steps: int) -> None:
    settings = RolloutSettings(window_size=window[0], window_first=window[1], window_last=window[2])
    with pytest.raises(UserError, match=f"model.rollout.window_size, .*the {steps} steps of model.generator") as caught:
        settings.window(0, 0, steps)
    remedies = re.findall(r"(size|first and last|last|take) (?:at most|at least)? ?(-?\d+)", str(caught.value))
    assert remedies
    for what, number in remedies:
        size, first, last = window
        value = int(number)
        if what == "take":
            settings.window(0, 0, value)
        else:
            size = value if what == "size" else size
            first = value if what.startswith("first") else first
            last = value if what.endswith("last") else last
            dataclasses.replace(settings, window_size=size, window_first=first, window_last=last).window(0, 0, steps)
