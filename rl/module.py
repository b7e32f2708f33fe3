"""Flow-GRPO as a LightningModule: an epoch is one iteration of sample, judge, replay and train.

At the start of an epoch the module samples groups of candidates from the policy, has them judged, turns the rewards
into advantages and fills the buffer that the train dataloader serves; from there on it is ordinary training with
automatic optimisation. Whatever is drawn is a function of (seed, iteration, case, member), so a resumed run goes on
exactly as if it had not stopped, and no random state needs to be saved.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from PIL.Image import Image
from pytorch_lightning import LightningModule
from torch import Tensor

from gnomon.errors import UserError
from gnomon.hashing import stable_seed
from gnomon.records import Case
from rl.advantages import Advantages, group_advantages
from rl.buffer import MicroBatch, RolloutBuffer
from rl.conditioning import Conditioning
from rl.data import CaseData, prompt_indices
from rl.generator import DiffusersGenerator
from rl.lora import add_lora
from rl.losses import grpo_loss, kl_velocity
from rl.rewards import Reward, RewardOutput, apply_reward, image_monitors
from rl.rollouts import Trajectories, Transitions, candidate_seeds, replay_log_prob, sample_group_trajectories
from rl.samplers import sde_window
from rl.settings import LoraSettings, ObjectiveSettings, OptimizerSettings, RolloutSettings

_ROLLOUT, _OBJECTIVE, _LORA, _OPTIMIZER = RolloutSettings(), ObjectiveSettings(), LoraSettings(), OptimizerSettings()


class FlowGRPO(LightningModule):
    """Trains a LoRA on a flow-matching generator with group-relative policy gradients (arXiv 2505.05470).

    Attributes:
        generator: the policy; its transformer carries the adapter.
        reward: what is maximised.
        monitors: further judges that see held-out pictures and reward nothing.
        buffer: the micro-batches of the current iteration.
    """

    def __init__(
        self,
        generator: DiffusersGenerator,
        reward: Reward,
        *,
        rollout: RolloutSettings = _ROLLOUT,
        objective: ObjectiveSettings = _OBJECTIVE,
        lora: LoraSettings = _LORA,
        optimizer: OptimizerSettings = _OPTIMIZER,
        monitors: dict[str, Reward] | None = None,
        seed: int = 0,
    ) -> None:
        """Put a fresh adapter on the generator.

        Args:
            generator: the model to steer.
            reward: its judge.
            rollout: what an iteration samples.
            objective: advantages and loss.
            lora: the adapter.
            optimizer: AdamW's settings.
            monitors: judges by name whose opinion is logged as `validation/<name>`.
            seed: of everything that is drawn.

        Raises:
            UserError: when the generator already carries an adapter, LoRA targets match nothing, or the window does
                not fit into the schedule.
        """
        super().__init__()
        self.strict_loading = False  # checkpoints hold the adapter only; on_load_checkpoint wants all of it
        self.generator = generator
        self.reward = reward
        self.monitors = dict(monitors or {})
        self.rollout = rollout
        self.objective = objective
        self.optimizer_settings = optimizer
        self.seed = seed
        self.transformer = generator.transformer
        if getattr(self.transformer, "peft_config", None):
            raise UserError("expected a generator without an adapter to train one; merge the LoRA into the model first")
        names = add_lora(self.transformer, rank=lora.rank, alpha=lora.alpha, targets=lora.targets, seed=seed)
        self._adapter = {name: self.transformer.get_parameter(name) for name in names}
        _without_dropout(self.transformer)
        self.buffer = RolloutBuffer(self.rollout.num_micro_batches)
        self._check_window(0)
        self._steps_before = 0
        self._held_out: dict[str, Conditioning] = {}
        self._validation: dict[str, list[Tensor]] = {}

    # ------------------------------------------------------------------------------------------------ checkpoints

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the adapter and drop the frozen model, which is many times larger."""
        state = checkpoint["state_dict"]
        checkpoint["state_dict"] = {name: state[name] for name in (f"transformer.{name}" for name in self._adapter)}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse a checkpoint of another adapter."""
        found = {name: tuple(value.shape) for name, value in checkpoint["state_dict"].items()}
        if found != {f"transformer.{name}": tuple(value.shape) for name, value in self._adapter.items()}:
            raise UserError(
                f"expected a checkpoint of this adapter ({len(self._adapter)} tensors), got {len(found)} tensors with "
                "other names or shapes; start in a new folder"
            )

    # --------------------------------------------------------------------------------------------------- training

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW on the adapter's weights only."""
        settings = self.optimizer_settings
        return torch.optim.AdamW(
            self._adapter.values(), lr=settings.learning_rate, weight_decay=settings.weight_decay, betas=settings.betas
        )

    def on_fit_start(self) -> None:
        """Check that the batches fit together, say what they are, and move what is not ours to the device."""
        if self.trainer.world_size > 1:
            raise UserError(f"expected one process, got {self.trainer.world_size}; several ranks are not supported yet")
        num_cases = len(self.data.train_cases)
        if num_cases < self.rollout.num_prompts:
            raise UserError(f"expected at least num_prompts = {self.rollout.num_prompts} cases, got {num_cases}")
        print(f"rl: {self.rollout.layout(self.trainer.accumulate_grad_batches)}", file=sys.stderr)
        self.generator.to(self.device)

    @property
    def data(self) -> CaseData:
        """The cases."""
        data = getattr(self.trainer, "datamodule", None)
        assert isinstance(data, CaseData)
        return data

    def on_train_epoch_start(self) -> None:
        """Fill the buffer: sample, judge, compare, replay."""
        self._steps_before = self.trainer.global_step
        iteration = self.trainer.current_epoch
        with torch.no_grad(), self.trainer.precision_plugin.forward_context():
            with self._timed("rollout"):
                cases, references, trajectories = self.sample(iteration)
            with self._timed("reward"):
                rewards = self.judge(cases, references, trajectories.images)
            # One case is one group: the same instruction and the same references.
            advantages = self._advantages(rewards, [case.id for case in cases])
            with self._timed("replay"):
                self.buffer.fill(self._micro_batches(trajectories, advantages))
        self._log_rollout(rewards, advantages, image_monitors(trajectories.images, references))

    def sample(self, iteration: int) -> tuple[list[Case], list[list[Image]], Trajectories]:
        """Sample the groups of an iteration; cases and references have one entry per candidate."""
        settings = self.rollout
        prompts = prompt_indices(len(self.data.train_cases), settings.num_prompts, self.seed, iteration)
        cases = [self.data.train_cases[index] for index in prompts]
        references = self.data.references(cases)
        conditioning = self.generator.condition(cases, references).expand(settings.num_candidates)
        trajectories = sample_group_trajectories(
            self.generator,
            conditioning,
            candidate_seeds(self.seed, iteration, cases, settings.num_candidates),
            self._check_window(iteration),
            settings.noise_level,
            same_latent=settings.same_latent,
        )
        return (
            [case for case in cases for _ in range(settings.num_candidates)],
            [pictures for pictures in references for _ in range(settings.num_candidates)],
            trajectories,
        )

    def _check_window(self, iteration: int) -> range:
        settings = self.rollout
        try:
            return sde_window(
                self.seed,
                iteration,
                self.generator.num_inference_steps,
                settings.window_size,
                settings.window_first,
                settings.window_last,
            )
        except ValueError as error:
            raise UserError(f"model.rollout.window_*: {error}") from error

    def judge(self, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]) -> RewardOutput:
        """Reward pictures; see `apply_reward`."""
        return self._ask(self.reward, cases, references, images, self.objective.max_failed_share)

    def _ask(
        self,
        judge: Reward,
        cases: Sequence[Case],
        references: Sequence[list[Image]],
        images: Sequence[Image],
        max_failed_share: float,
    ) -> RewardOutput:
        # The trainer's mixed precision is the policy's; a judge has its own.
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            return apply_reward(
                judge, cases=cases, references=references, images=images, max_failed_share=max_failed_share
            )

    def _advantages(self, rewards: RewardOutput, group_ids: list[str]) -> Advantages:
        settings = self.objective
        return group_advantages(
            rewards.total,
            group_ids,
            failed=rewards.failed,
            epsilon=settings.advantage_epsilon,
            std_mode=settings.advantage_std,
            clip=settings.advantage_clip,
        )

    def _micro_batches(self, trajectories: Trajectories, advantages: Advantages) -> list[MicroBatch]:
        size = self.rollout.micro_batch_size
        values = advantages.values.to(self.device, torch.float32)
        valid = advantages.valid.to(self.device)
        batches = []
        for start in range(0, self.rollout.num_samples, size):
            rows = list(range(start, start + size))
            for step in trajectories.window:
                transitions = trajectories.transitions(rows, step)
                old = replay_log_prob(self.generator, transitions).log_prob
                batches.append(MicroBatch(transitions, old, values[rows], valid[rows]))
        return batches

    def training_step(self, batch: MicroBatch, batch_idx: int) -> Tensor:
        """Replay one step of some samples and return the loss."""
        settings = self.objective
        replay = replay_log_prob(self.generator, batch.transitions)
        output = grpo_loss(
            replay.log_prob,
            batch.old_log_prob,
            batch.advantages,
            clip_low=settings.clip_low,
            clip_high=settings.clip_high,
            mask=batch.mask,
        )
        if self.trainer.global_step == self._steps_before:
            self._check_ratio(output.metrics["ratio_deviation"])
        loss = output.loss
        self._log("train", output.metrics)
        if settings.kl_weight > 0:
            kl = self._kl(batch.transitions, replay.velocity)
            self._log("train", {"kl": kl.detach()})
            loss = loss + settings.kl_weight * kl
        return loss

    def _check_ratio(self, deviation: Tensor) -> None:
        if deviation.item() > self.objective.ratio_tolerance:
            raise UserError(
                f"expected the ratio of new to old probabilities to be 1 before the first optimizer step, it is off by "
                f"{deviation.item():.3g}: the replay is not the rollout (dropout, another batch shape, a kernel that "
                "adds in another order each time), so clipping would work on noise. Turn the cause off, or allow "
                "a small deviation with model.objective.ratio_tolerance"
            )

    def _kl(self, transitions: Transitions, velocity: Tensor) -> Tensor:
        with torch.no_grad(), self.reference_policy():
            reference = self.generator.velocity(transitions.conditioning, transitions.latents, transitions.step)
        sigma, sigma_next, sigma_max = transitions.sigmas
        noise_level = transitions.noise_level
        return kl_velocity(velocity, reference, sigma, sigma_next, noise_level, sigma_max=sigma_max).mean()

    @contextmanager
    def reference_policy(self) -> Iterator[None]:
        """Switch the adapter off: what is left is the model that training started from."""
        transformer: Any = self.transformer
        transformer.disable_adapters()
        try:
            yield
        finally:
            transformer.enable_adapters()

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Log the norm of the gradient before clipping, and stop a run that has diverged."""
        gradients = [parameter.grad for parameter in self._adapter.values() if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        self._log("train", {"grad_norm": norm})
        if not torch.isfinite(norm):
            raise UserError("the gradient is not finite: training diverged. Lower the learning rate, or clip harder")

    def on_train_epoch_end(self) -> None:
        """Free the samples of the iteration."""
        self.buffer.clear()

    # ------------------------------------------------------------------------------------------------- validation

    def on_validation_epoch_start(self) -> None:
        """Forget the last validation."""
        self._validation = defaultdict(list)

    def validation_step(self, cases: list[Case], batch_idx: int) -> None:
        """Edit held-out cases with the ODE sampler and fixed seeds, and have all judges look at them."""
        references = self.data.validation_references(cases)
        conditioning = self._held_out_conditioning(cases, references)
        seeds = [stable_seed(self.seed, "validation", case.id) for case in cases]
        latents = self.generator.sample(conditioning, self.generator.initial_latents(conditioning, seeds))
        images = self.generator.decode(conditioning, latents)
        rewards = self.judge(cases, references, images)
        rows = {"reward": rewards.total, "failed": rewards.failed.double(), **rewards.breakdown}
        for name, monitor in self.monitors.items():
            opinion = self._ask(monitor, cases, references, images, 1.0)
            rows |= {name: opinion.total, **{f"{name}/{key}": value for key, value in opinion.breakdown.items()}}
        for key, values in (rows | image_monitors(images, references)).items():
            self._validation[key].append(values)

    def _held_out_conditioning(self, cases: Sequence[Case], references: list[list[Image]]) -> Conditioning:
        for case, pictures in zip(cases, references, strict=True):
            if case.id not in self._held_out:
                self._held_out[case.id] = self.generator.condition([case], [pictures])
        return Conditioning(tuple(self._held_out[case.id].states[0] for case in cases))

    def on_validation_epoch_end(self) -> None:
        """Log means over held-out cases; what has no value for a case is left out of the mean."""
        values = {key: torch.cat(parts) for key, parts in self._validation.items()}
        means = {key: value.nanmean() for key, value in values.items() if key != "failed"}
        self._log("validation", {**means, "failed": values["failed"].sum()})

    # ---------------------------------------------------------------------------------------------------- logging

    def _log_rollout(self, rewards: RewardOutput, advantages: Advantages, monitors: Mapping[str, Tensor]) -> None:
        valid = rewards.total[~rewards.failed]
        self._log(
            "rollout",
            {
                "reward_mean": valid.mean(),
                "reward_std": valid.std(correction=0),
                "group_std": advantages.group_std.mean(),
                "zero_std_groups": advantages.zero_std.double().mean(),
                "failed": rewards.failed.double().sum(),
                **{name: value[~rewards.failed].mean() for name, value in rewards.breakdown.items()},
                **{name: value.nanmean() for name, value in monitors.items()},
            },
        )

    def _log(self, prefix: str, values: Mapping[str, Tensor]) -> None:
        for name, value in values.items():
            self.log(
                f"{prefix}/{name}",
                value.float(),
                on_step=False,
                on_epoch=True,
                batch_size=1,
                reduce_fx="max" if name == "ratio_deviation" else "mean",
                prog_bar=name in ("reward_mean", "reward"),
            )

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        yield
        self._log("time", {name: torch.tensor(time.monotonic() - start)})


def _without_dropout(model: torch.nn.Module) -> None:
    # Rollout, replay and training must be one function of the weights.
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.train()
