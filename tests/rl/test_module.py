"""Every algorithm end to end on a tiny editor: it trains, resumes exactly, and stops where it should."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from PIL.Image import Image
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.plugins.precision import MixedPrecision
from torch import Tensor

from gnomon.errors import UserError
from gnomon.records import Case
from rl.algorithms import DiffusionNFT, FlowGRPO, GRPOGuard
from rl.data import CaseData
from rl.module import PolicyTraining
from rl.rewards import RewardOutput
from rl.rollouts import replay_log_prob
from rl.settings import AdvantageSettings, EmaSettings, LoraSettings, OptimizerSettings, RolloutSettings

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*in eval mode at the start of training"),
    pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
    pytest.mark.filterwarnings("ignore:.*smaller than the logging interval"),
]

ROLLOUT = RolloutSettings(
    num_prompts=3, num_candidates=4, micro_batch_size=6, window_size=2, window_last=1, noise_level=0.9
)
CLIP: dict[str, Any] = {"clip_low": 2e-3, "clip_high": 2e-3}
# What each algorithm is tried with; the rows of a test are its names.
SETUPS: dict[str, dict[str, Any]] = {
    "grpo": {"algorithm": FlowGRPO(**CLIP, kl_weight=0.1)},
    "guard": {"algorithm": GRPOGuard(**CLIP), "rollout": replace(ROLLOUT, sampler="dance_sde", noise_level=0.5)},
    "cps": {
        "algorithm": FlowGRPO(**CLIP), "rollout": replace(ROLLOUT, sampler="cps", noise_level=0.8),
        "ema": EmaSettings(decay=0.5, validate=True),
    },
    "nft": {
        "algorithm": DiffusionNFT(timestep_fraction=0.4, eta_rate=0.1), "ema": EmaSettings(decay=0.5),
    },
}  # fmt: skip
Build = Callable[..., PolicyTraining]


@pytest.fixture
def build(build: Build) -> Build:
    return partial(build, rollout=ROLLOUT)


@pytest.fixture
def fit(case_folders: tuple[Path, Path], tmp_path: Path) -> Callable[..., Trainer]:
    def run(module: PolicyTraining, iterations: int, *, resume: Path | None = None, **changes: Any) -> Trainer:
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


def weights(module: PolicyTraining) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.transformer.state_dict().items()}


@pytest.mark.parametrize("setup", SETUPS)
def test_training_changes_the_adapter_and_nothing_else(setup: str, build: Build, fit: Callable[..., Trainer]) -> None:
    module = build(**SETUPS[setup])
    before = weights(module)
    trainer = fit(module, 1)
    changed = {name for name, value in weights(module).items() if not torch.equal(value, before[name])}
    assert {name for name in changed if ".old." not in name}
    assert any(".old." in name for name in changed) == (setup == "nft")
    assert all("lora_" in name for name in changed)
    assert trainer.global_step == 2
    assert module.ema is None or module.ema.steps == 2
    metrics = trainer.callback_metrics
    assert metrics["rollout/failed"] == 0
    assert metrics["train/grad_norm"] > 0
    own = ["train/eta", "train/old_deviation"] if setup == "nft" else ["train/ratio_deviation", "train/clip_fraction"]
    for name in ("rollout/reward_mean", "rollout/brightness", "rollout/group_std", "rollout/zero_std_groups",
                 "rollout/sharpness", "time/rollout", *own):  # fmt: skip
        assert math.isfinite(metrics[name])


@pytest.mark.parametrize("setup", SETUPS)
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    setup: str, build: Build, fit: Callable[..., Trainer]
) -> None:
    straight = build(**SETUPS[setup])
    fit(straight, 2)
    torch.manual_seed(99)  # no state of a global generator may matter
    first = fit(build(**SETUPS[setup]), 1)
    resumed = build(**SETUPS[setup])
    fit(resumed, 2, resume=last_checkpoint(first))
    expected = weights(straight)
    assert all(torch.equal(value, expected[name]) for name, value in weights(resumed).items())
    assert any(".old." in name for name in expected) == (setup == "nft")
    if straight.ema is not None:
        assert resumed.ema is not None
        assert all(torch.equal(value, straight.ema.weights[name]) for name, value in resumed.ema.weights.items())


def test_judging_beside_the_sampling_changes_nothing(build: Build, fit: Callable[..., Trainer]) -> None:
    runs = []
    for overlap in (True, False):
        module = build(rollout=replace(ROLLOUT, overlap_scoring=overlap))
        fit(module, 1)
        runs.append(weights(module))
    assert all(torch.equal(value, runs[1][name]) for name, value in runs[0].items())


def test_recomputed_activations_change_nothing(build: Build, fit: Callable[..., Trainer]) -> None:
    runs = []
    for recompute in (True, False):
        module = build(optimizer=OptimizerSettings(learning_rate=1e-2, gradient_checkpointing=recompute))
        assert module.transformer.is_gradient_checkpointing == recompute
        fit(module, 1)
        runs.append(weights(module))
    assert all(torch.equal(value, runs[1][name]) for name, value in runs[0].items())


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
    assert set(seen) == {False}
    assert any(not torch.equal(value, weights(full)[name]) for name, value in weights(mixed).items())


def test_failed_rewards_are_masked_until_there_are_too_many(
    build: Build, fit: Callable[..., Trainer], toy_rewards: ModuleType
) -> None:
    rollout = replace(ROLLOUT, overlap_scoring=False)  # one call for all 12
    trainer = fit(build(rollout=rollout, reward=Unreliable(toy_rewards.Brightness(), 1)), 1)
    assert trainer.callback_metrics["rollout/failed"] == 1
    assert math.isfinite(trainer.callback_metrics["rollout/reward_mean"])
    with pytest.raises(UserError, match="failed on 6 of 12"):
        fit(build(rollout=rollout, reward=Unreliable(toy_rewards.Brightness(), 6)), 1)


def test_the_budget_of_failures_is_that_of_a_whole_validation_and_not_of_a_batch(
    build: Build, case_folders: tuple[Path, Path], toy_rewards: ModuleType
) -> None:
    # 3 held-out cases in batches of 2 and 1; the first of each fails, so all of the second batch.
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, inference_mode=False)
    data = CaseData(*map(str, case_folders), validation_batch_size=2)
    reward = Unreliable(toy_rewards.Brightness(), 1)
    result = trainer.validate(build(reward=reward, rollout=replace(ROLLOUT, max_failed_share=0.7)), data, verbose=False)
    assert result[0]["validation/failed"] == 2
    with pytest.raises(UserError, match="failed on 2 of 3"):
        trainer.validate(build(reward=reward, rollout=replace(ROLLOUT, max_failed_share=0.6)), data, verbose=False)


def test_the_kl_to_the_reference_is_zero_at_first_and_pulls_afterwards(
    build: Build, fit: Callable[..., Trainer]
) -> None:
    module, keep = build(algorithm=FlowGRPO(clip_low=1.0, clip_high=1.0, kl_weight=0.1)), KeepSamples()
    trainer = fit(module, 1, accumulate_grad_batches=4, callbacks=[keep], enable_checkpointing=False)
    assert trainer.callback_metrics["train/kl"] == 0  # all four micro-batches came before the only optimizer step
    batch = replace(keep.micro_batches[0], advantages=torch.zeros(6))  # only the KL is left of the loss
    output = module.algorithm.loss(module.policy, batch, False)
    assert output.metrics["kl"] > 0
    assert output.loss.item() == pytest.approx(0.1 * output.metrics["kl"].item())
    gradients = torch.autograd.grad(output.loss, list(module.policy.trained.values()))
    assert any(bool((gradient != 0).any()) for gradient in gradients)


class Weighted:
    """A reward of two parts, one of which varies a thousand times as much."""

    def __init__(self, reward: Callable[..., RewardOutput]) -> None:
        self.reward = reward
        self.weights = {"small": 1.0, "large": 0.5}

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> RewardOutput:
        output = self.reward(cases=cases, references=references, images=images)
        parts = {"small": output.total, "large": -1000 * output.total}
        return replace(output, total=parts["small"] + 0.5 * parts["large"], breakdown=parts)


def test_rewards_kept_apart_weigh_as_they_are_told(
    build: Build, fit: Callable[..., Trainer], toy_rewards: ModuleType
) -> None:
    # Two parts want opposite things. The heavier one wins where each is normalised, else the one of larger numbers.
    gdpo = AdvantageSettings(combine="gdpo", epsilon=1e-9)
    advantages = []
    for settings in (gdpo, replace(gdpo, combine="sum")):
        keep = KeepSamples()
        module = build(reward=Weighted(toy_rewards.Brightness()), advantage=settings)
        fit(module, 1, callbacks=[keep], enable_checkpointing=False)
        advantages.append(torch.cat([batch.advantages for batch in keep.micro_batches]))
    assert torch.equal(advantages[0].sign(), -advantages[1].sign())
    assert advantages[0].abs().min() > 0
    with pytest.raises(UserError, match=r"weights.*gdpo.*Brightness has none"):
        build(advantage=gdpo)


def test_a_checkpoint_with_or_without_an_average_wants_a_run_like_it(build: Build, fit: Callable[..., Trainer]) -> None:
    path = last_checkpoint(fit(build(ema=EmaSettings()), 1))
    with pytest.raises(UserError, match="without an average"):
        fit(build(), 2, resume=path)
    with pytest.raises(UserError, match="copies of the adapter: old, got none"):
        fit(build(ema=EmaSettings(), algorithm=DiffusionNFT(timestep_fraction=0.4)), 2, resume=path)


def test_sixteen_bit_adapters_are_refused_before_any_work(build: Build, fit: Callable[..., Trainer]) -> None:
    module = build()
    with pytest.raises(UserError, match="got bf16-true"):
        fit(module, 1, precision="bf16-true")
    assert module.generator.num_conditionings == 0


def test_an_overflow_of_a_scaled_loss_is_a_skipped_step_and_one_without_a_scale_a_divergence(
    build: Build, fit: Callable[..., Trainer]
) -> None:
    module = build()
    before = weights(module)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100, growth_interval=1000)
    plugin = MixedPrecision("16-mixed", "cpu", scaler=scaler)
    trainer = fit(module, 1, plugins=[plugin])
    assert trainer.callback_metrics["train/skipped_steps"] == 1
    assert all(torch.equal(value, before[name]) for name, value in weights(module).items())
    assert scaler.get_scale() < 2.0**100

    module.trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    for parameter in module.policy.trained.values():
        parameter.grad = torch.full_like(parameter, math.inf)
    with pytest.raises(UserError, match="diverged"):
        module.on_before_optimizer_step(torch.optim.SGD(module.policy.trained.values()))


def test_a_validation_before_any_training_brings_the_generator_to_the_device(
    build: Build, case_folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = build()
    seen: list[torch.device] = []
    monkeypatch.setattr(module.generator, "to", seen.append)
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, inference_mode=False)
    trainer.validate(module, CaseData(*map(str, case_folders)), verbose=False)
    assert seen == [torch.device("cpu")]


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
    with pytest.raises(UserError, match=r"at least model.rollout.num_prompts = 6 cases in data.train .*, got 5"):
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
        self.micro_batches: list[Any] = []

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.micro_batches.append(batch)


def test_a_step_makes_better_candidates_likelier_than_worse_ones(build: Build, fit: Callable[..., Trainer]) -> None:
    module, keep = (
        build(algorithm=FlowGRPO(clip_low=1.0, clip_high=1.0)),
        KeepSamples(),
    )
    fit(module, 1, accumulate_grad_batches=4, callbacks=[keep], enable_checkpointing=False)
    with torch.no_grad():
        gains = [
            (batch.advantages * (replay_log_prob(module.generator, batch.transitions).log_prob - batch.old_log_prob))
            for batch in keep.micro_batches
        ]
    assert torch.cat(gains).sum() > 0
