"""Flow-GRPO end to end on a tiny editor: it trains, resumes exactly, and stops where it should."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from PIL.Image import Image
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import Tensor

from gnomon.errors import UserError
from gnomon.records import Case
from rl.buffer import MicroBatch
from rl.data import CaseData
from rl.generator import DiffusersGenerator
from rl.module import FlowGRPO
from rl.rewards import RewardOutput
from rl.rollouts import replay_log_prob
from rl.settings import LoraSettings, ObjectiveSettings, OptimizerSettings, RolloutSettings

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*in eval mode at the start of training"),
    pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
    pytest.mark.filterwarnings("ignore:.*smaller than the logging interval"),
]

ROLLOUT = RolloutSettings(num_prompts=3, num_candidates=4, micro_batch_size=6, window_size=2, window_last=1)
Build = Callable[..., FlowGRPO]


@pytest.fixture
def build(generator_settings: dict[str, Any], toy_rewards: ModuleType) -> Build:
    def make(**changes: Any) -> FlowGRPO:
        arguments = {
            "generator": DiffusersGenerator(**generator_settings),
            "reward": toy_rewards.Brightness(),
            "rollout": ROLLOUT,
            "lora": LoraSettings(rank=4, alpha=8),
            "optimizer": OptimizerSettings(learning_rate=1e-2),
        }
        return FlowGRPO(**(arguments | changes))

    return make


@pytest.fixture
def fit(case_folders: tuple[Path, Path], tmp_path: Path) -> Callable[..., Trainer]:
    def run(module: FlowGRPO, iterations: int, *, resume: Path | None = None, **changes: Any) -> Trainer:
        folder = resume.parent if resume else tmp_path / f"checkpoints-{len(list(tmp_path.iterdir()))}"
        keep = ModelCheckpoint(
            dirpath=folder, filename="last", save_on_train_epoch_end=True, enable_version_counter=False
        )
        settings: dict[str, Any] = {
            "accelerator": "cpu",
            "accumulate_grad_batches": 2,
            "callbacks": [keep],
            "default_root_dir": tmp_path,
            "enable_model_summary": False,
            "enable_progress_bar": False,
            "limit_val_batches": 0,
            "logger": False,
            "max_epochs": iterations,
            "num_sanity_val_steps": 0,
        }
        trainer = Trainer(**(settings | changes))
        data = CaseData(*map(str, case_folders))
        trainer.fit(module, data, ckpt_path=None if resume is None else str(resume), weights_only=True)
        return trainer

    return run


def last_checkpoint(trainer: Trainer) -> Path:
    assert trainer.checkpoint_callback is not None
    return Path(trainer.checkpoint_callback.best_model_path)  # type: ignore[attr-defined]


def weights(module: FlowGRPO) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.transformer.state_dict().items()}


def test_training_changes_the_adapter_and_nothing_else(build: Build, fit: Callable[..., Trainer]) -> None:
    module = build()
    before = weights(module)
    trainer = fit(module, 1)
    changed = {name for name, value in weights(module).items() if not torch.equal(value, before[name])}
    assert changed
    assert all("lora_" in name for name in changed)
    assert trainer.global_step == 2
    metrics = trainer.callback_metrics
    assert metrics["rollout/failed"] == 0
    assert metrics["train/grad_norm"] > 0
    for name in ("rollout/reward_mean", "rollout/brightness", "rollout/group_std", "rollout/zero_std_groups",
                 "rollout/sharpness", "train/ratio_deviation", "train/clip_fraction", "time/rollout"):  # fmt: skip
        assert math.isfinite(metrics[name])


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(build: Build, fit: Callable[..., Trainer]) -> None:
    straight = build()
    fit(straight, 4)
    torch.manual_seed(99)  # no state of a global generator may matter
    first = fit(build(), 2)
    resumed = build()
    fit(resumed, 4, resume=last_checkpoint(first))
    expected = weights(straight)
    assert all(torch.equal(value, expected[name]) for name, value in weights(resumed).items())


def test_the_seed_decides_everything(build: Build, fit: Callable[..., Trainer]) -> None:
    runs = []
    for seed in (0, 0, 1):
        module = build(seed=seed)
        fit(module, 1)
        runs.append(weights(module))
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])
    assert any(not torch.equal(runs[0][name], runs[2][name]) for name in runs[0])


def test_checkpoints_hold_only_the_adapter_and_differ(build: Build, fit: Callable[..., Trainer]) -> None:
    states = []
    for iterations in (1, 2):
        path = last_checkpoint(fit(build(), iterations))
        state = torch.load(path, weights_only=True)["state_dict"]
        assert state
        assert all("lora_" in name for name in state)
        states.append(state)
    assert states[0].keys() == states[1].keys()
    assert any(not torch.equal(value, states[1][name]) for name, value in states[0].items())


def test_a_checkpoint_of_another_adapter_is_refused(build: Build, fit: Callable[..., Trainer]) -> None:
    path = last_checkpoint(fit(build(), 1))
    with pytest.raises(UserError, match="checkpoint of this adapter"):
        fit(build(lora=LoraSettings(rank=8, alpha=8)), 2, resume=path)


def test_micro_batches_and_accumulation_do_not_change_the_step(build: Build, fit: Callable[..., Trainer]) -> None:
    whole, parts = build(rollout=replace(ROLLOUT, micro_batch_size=12)), build()
    fit(whole, 1, accumulate_grad_batches=2)
    fit(parts, 1, accumulate_grad_batches=4)
    for name, value in weights(parts).items():
        torch.testing.assert_close(value, weights(whole)[name], atol=1e-4, rtol=1e-3)


def test_a_replay_that_is_not_the_rollout_stops_the_run(build: Build, fit: Callable[..., Trainer]) -> None:
    module = build()
    proj_out = module.transformer.get_submodule("proj_out")
    proj_out.register_forward_hook(lambda _module, _inputs, output: output + 1e-2 * torch.randn_like(output))
    with pytest.raises(UserError, match=r"ratio .* to be 1 before the first optimizer step"):
        fit(module, 1)


class Unreliable:
    """Fails on the first candidates of every call."""

    def __init__(self, reward: Callable[..., RewardOutput], count: int) -> None:
        self.reward = reward
        self.count = count

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> RewardOutput:
        output = self.reward(cases=cases, references=references, images=images)
        total = output.total.clone()
        total[: self.count] = math.nan
        return replace(output, total=total)


@pytest.mark.filterwarnings("ignore:.*Cannot dispatch to fused implementation")
def test_mixed_precision_replays_exactly_too_and_leaves_the_judge_alone(
    build: Build, fit: Callable[..., Trainer], toy_rewards: ModuleType
) -> None:
    seen: list[bool] = []

    class Curious(toy_rewards.Brightness):  # type: ignore[misc, name-defined]
        def __call__(self, *, cases: Any, references: Any, images: Any) -> RewardOutput:
            seen.append(torch.is_autocast_enabled("cpu"))
            output: RewardOutput = super().__call__(cases=cases, references=references, images=images)
            return output

    full, mixed = build(), build(reward=Curious())
    fit(full, 1)
    fit(mixed, 1, precision="bf16-mixed")  # would stop if the first ratio were not 1
    assert seen == [False]
    assert any(not torch.equal(value, weights(full)[name]) for name, value in weights(mixed).items())


def test_failed_rewards_are_masked_until_there_are_too_many(
    build: Build, fit: Callable[..., Trainer], toy_rewards: ModuleType
) -> None:
    trainer = fit(build(reward=Unreliable(toy_rewards.Brightness(), 1)), 1)
    assert trainer.callback_metrics["rollout/failed"] == 1
    assert math.isfinite(trainer.callback_metrics["rollout/reward_mean"])
    with pytest.raises(UserError, match="failed on 6 of 12"):
        fit(build(reward=Unreliable(toy_rewards.Brightness(), 6)), 1)


def test_the_kl_to_the_reference_is_zero_at_first_and_costs_afterwards(
    build: Build, fit: Callable[..., Trainer]
) -> None:
    trainer = fit(build(objective=ObjectiveSettings(kl_weight=0.1)), 2)
    assert trainer.callback_metrics["train/kl"] > 0


def test_held_out_cases_are_judged_with_fixed_seeds_and_conditioned_once(
    build: Build, case_folders: tuple[Path, Path], toy_rewards: ModuleType, fit: Callable[..., Trainer]
) -> None:
    module = build(monitors={"half": toy_rewards.Brightness(scale=0.5)})
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, inference_mode=False)
    data = CaseData(*map(str, case_folders), validation_batch_size=2)
    first = trainer.validate(module, data, verbose=False)[0]
    second = trainer.validate(module, data, verbose=False)[0]
    assert first == second
    assert module.generator.num_conditionings == 3
    assert first["validation/half"] == pytest.approx(first["validation/reward"] / 2)
    assert first["validation/brightness"] == first["validation/reward"]
    assert {"validation/half/brightness", "validation/saturation", "validation/failed"} <= set(first)
    fit(module, 1)  # what a validation left behind must not be in the way of training


def test_what_does_not_fit_together_is_refused_before_anything_is_sampled(
    build: Build, fit: Callable[..., Trainer]
) -> None:
    with pytest.raises(UserError, match="divide the 4 micro-batches"):
        fit(build(), 1, accumulate_grad_batches=3)
    with pytest.raises(UserError, match="at least num_prompts = 6 cases, got 5"):
        fit(build(rollout=replace(ROLLOUT, num_prompts=6)), 1)
    with pytest.raises(UserError, match="window"):
        build(rollout=replace(ROLLOUT, window_last=3))
    with pytest.raises(UserError, match="to_nothing"):
        build(lora=LoraSettings(targets=["to_nothing"]))


def test_a_generator_with_an_adapter_cannot_get_another(build: Build) -> None:
    module = build()
    with pytest.raises(UserError, match="merge"):
        build(generator=module.generator)


class KeepSamples(Callback):
    """Remembers what the first iteration trained on."""

    def __init__(self) -> None:
        self.micro_batches: list[MicroBatch] = []

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.micro_batches.append(batch)


def test_a_step_makes_better_candidates_likelier_than_worse_ones(build: Build, fit: Callable[..., Trainer]) -> None:
    module, keep = (
        build(objective=ObjectiveSettings(clip_low=1.0, clip_high=1.0, advantage_epsilon=1e-4)),
        KeepSamples(),
    )
    fit(module, 1, accumulate_grad_batches=4, callbacks=[keep], enable_checkpointing=False)
    with torch.no_grad():
        gains = [
            (batch.advantages * (replay_log_prob(module.generator, batch.transitions).log_prob - batch.old_log_prob))
            for batch in keep.micro_batches
        ]
    assert torch.cat(gains).sum() > 0
