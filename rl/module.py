"""Reinforcement learning as a LightningModule: an epoch is one iteration of sample, judge and train.

At the start of an epoch the module samples groups of candidates from the policy, has them judged, turns the rewards
into advantages and fills the buffer that the train dataloader serves; from there on it is ordinary training with
automatic optimisation. What is trained on and how is the algorithm's affair (`rl.algorithms`).

On several ranks each makes, judges and trains on its own share of an iteration's samples. Rewards and failures are
gathered, so advantages, limits and figures are those of the whole iteration, computed alike everywhere. Whatever is
drawn is a function of (seed, iteration, case, member), so a resumed run goes on exactly as if it had not stopped, and
no random state needs to be saved.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from PIL.Image import Image
from pytorch_lightning import LightningModule
from pytorch_lightning.utilities import rank_zero_warn
from torch import Tensor

from gnomon.errors import UserError
from gnomon.hashing import stable_seed
from gnomon.records import Case
from rl.advantages import Advantages, gdpo_advantages, group_advantages
from rl.algorithms import Algorithm, Samples
from rl.buffer import RolloutBuffer
from rl.conditioning import Conditioning
from rl.data import CaseData, prompt_indices
from rl.ema import AdapterAverage
from rl.generator import DiffusersGenerator
from rl.judging import GroupScoring, check_failures_of_all_ranks, gather_columns, gather_rewards
from rl.monitors import HackingSettings, HackingWatch
from rl.policy import Policy
from rl.ranks import gather_items, gather_rows, rank_and_world_size, rows_of_rank
from rl.rewards import Reward, RewardOutput, ask_reward, check_monitor_names, failures, image_monitors, merge_metrics
from rl.rollouts import Trajectories, candidate_seeds, condition_rows, sample_group_trajectories
from rl.samplers import sde_window
from rl.scoring import OverlappedScoring
from rl.settings import (
    AdvantageSettings,
    BatchLayout,
    EmaSettings,
    LoraSettings,
    OptimizerSettings,
    RolloutSettings,
    check_precision,
)
from rl.sharding import deepspeed_gradient_norm, in_step, is_sharded

_ROLLOUT, _ADVANTAGE, _LORA, _OPTIMIZER = RolloutSettings(), AdvantageSettings(), LoraSettings(), OptimizerSettings()
_HACKING = HackingSettings()
_MAXIMA = ("ratio_deviation", "log_prob_gap")
_COPIES, _EMA, _WATCH = "policy_copies", "ema", "hacking_watch"


class PolicyTraining(LightningModule):
    """Trains a LoRA on a flow-matching generator by any of the algorithms.

    Attributes:
        generator: the policy; its transformer carries the adapter.
        policy: the generator with the copies of the adapter that the algorithm needs.
        reward: what is maximised.
        monitors: further judges that see held-out pictures and reward nothing.
        buffer: this rank's micro-batches of the current iteration.
        ema: the running average of the adapter, if there is one.
    """

    def __init__(
        self,
        generator: DiffusersGenerator,
        reward: Reward,
        *,
        algorithm: Algorithm,
        rollout: RolloutSettings = _ROLLOUT,
        advantage: AdvantageSettings = _ADVANTAGE,
        lora: LoraSettings = _LORA,
        optimizer: OptimizerSettings = _OPTIMIZER,
        ema: EmaSettings | None = None,
        monitors: dict[str, Reward] | None = None,
        hacking: HackingSettings = _HACKING,
        seed: int = 0,
    ) -> None:
        """Put a fresh adapter on the generator.

        Args:
            generator: the model to steer.
            reward: its judge.
            algorithm: how samples become a better policy.
            rollout: what an iteration samples.
            advantage: how rewards become advantages.
            lora: the adapter.
            optimizer: AdamW's settings.
            ema: keep a running average of the adapter beside it.
            monitors: judges by name whose opinion is logged as `validation/<name>`.
            hacking: when to warn that the reward climbs while monitors fall.
            seed: of everything that is drawn.

        Raises:
            UserError: when the generator already carries an adapter, LoRA targets match nothing, the window does not
                fit into the schedule, or rewards are to be kept apart that do not come apart.
        """
        super().__init__()
        self.strict_loading = False  # checkpoints hold the adapter only; on_load_checkpoint wants all of it
        check_monitor_names(monitors or {})
        self.generator, self.reward, self.monitors = generator, reward, dict(monitors or {})
        self.algorithm, self.rollout, self.advantage = algorithm, rollout, advantage
        self.optimizer_settings, self.ema_settings, self.seed = optimizer, ema, seed
        self._window(0)
        self._part_weights = self._weights_of_parts()
        self.transformer = generator.transformer
        self.policy = Policy(generator, lora, copies=algorithm.copies, seed=seed)
        self._adapter = self.policy.trained
        self.ema = None if ema is None else AdapterAverage(self._adapter, decay=ema.decay, every=ema.every)
        if optimizer.gradient_checkpointing:
            self.policy.recompute_activations()
        self._set_layout(1, 1)
        self._steps_before = self._steps_seen = 0
        self._held_out: dict[str, Conditioning] = {}
        self._validation: dict[str, list[Tensor]] = {}
        self._validation_failures: dict[int, tuple[str, str]] = {}
        self._watch = HackingWatch(tuple(self.monitors), hacking)

    def _weights_of_parts(self) -> dict[str, float]:
        if self.advantage.combine == "sum":
            return {}
        weights: dict[str, float] | None = getattr(self.reward, "weights", None)
        if not weights:
            raise UserError(
                f"expected a reward with `weights` of its parts for model.advantage.combine 'gdpo', which normalises "
                f"them one by one; {type(self.reward).__name__} has none. Use rl.rewards.CombinedReward, or 'sum'"
            )
        return dict(weights)

    def _set_layout(self, accumulate: int, num_ranks: int) -> None:
        steps = self.algorithm.num_trained_steps(self.rollout.window_size, self.generator.num_inference_steps)
        self.layout: BatchLayout = self.rollout.layout(accumulate=accumulate, trained_steps=steps, num_ranks=num_ranks)
        self.buffer = RolloutBuffer(self.layout.micro_batches_per_rank)

    # ------------------------------------------------------------------------------------------------ checkpoints

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the adapters and drop the frozen model, which is many times larger; called on all ranks."""
        # DeepSpeed writes the weights into files of its own, and leaves nothing here.
        state = checkpoint.get("state_dict") or {}
        names = [f"transformer.{name}" for name in self._adapter]
        checkpoint["state_dict"] = {name: state[name] for name in names if name in state}
        checkpoint[_COPIES] = self.policy.copies_state()
        checkpoint[_WATCH] = self._watch.state_dict()
        if self.ema is not None:
            checkpoint[_EMA] = self.ema.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take up what `on_save_checkpoint` wrote; refuse a checkpoint of another adapter or algorithm."""
        state = checkpoint.get("state_dict")
        if state:
            found = {name: tuple(value.shape) for name, value in state.items()}
            if found != {f"transformer.{name}": tuple(value.shape) for name, value in self._adapter.items()}:
                raise UserError(
                    f"expected a checkpoint of this adapter ({len(self._adapter)} tensors), got {len(found)} tensors "
                    "with other names or shapes; start in a new folder"
                )
        self.policy.load_copies_state(checkpoint.get(_COPIES, {}))
        self._watch.load_state_dict(checkpoint[_WATCH])
        if (self.ema is None) != (_EMA not in checkpoint):
            raise UserError(
                f"expected a checkpoint {'without' if self.ema is None else 'with'} an average of the adapter "
                "(model.ema), as this run has it; start in a new folder"
            )
        if self.ema is not None:
            self.ema.load_state_dict(checkpoint[_EMA])

    # --------------------------------------------------------------------------------------------------- training

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW on the adapter's weights only."""
        settings = self.optimizer_settings
        return torch.optim.AdamW(
            self._adapter.values(), lr=settings.learning_rate, weight_decay=settings.weight_decay, betas=settings.betas
        )

    def setup(self, stage: str) -> None:
        """Check, before any work, what only the trainer knows, and work out this rank's batches."""
        check_precision(self.trainer.precision)
        if stage == "fit":
            self._set_layout(self.trainer.accumulate_grad_batches, self.trainer.world_size)
            num_cases = len(self.data.train_cases)
            if num_cases < self.rollout.num_prompts:
                raise UserError(f"expected at least num_prompts = {self.rollout.num_prompts} cases, got {num_cases}")

    def on_fit_start(self) -> None:
        """Say what an iteration is, and move what is not ours to the device."""
        if self.trainer.is_global_zero:
            print(f"rl: {self.layout}", file=sys.stderr)
        self._move()

    def on_validation_start(self) -> None:
        """Move what is not ours to the device; a validation may come before any training."""
        self._move()

    def _move(self) -> None:
        self.generator.to(self.device)
        if self.ema is not None:
            self.ema.to(self.device)

    @property
    def data(self) -> CaseData:
        """The cases."""
        data = getattr(self.trainer, "datamodule", None)
        assert isinstance(data, CaseData)
        return data

    def on_train_epoch_start(self) -> None:
        """Fill the buffer: sample and judge this rank's share, compare with all ranks, cut into micro-batches."""
        self._steps_before = self._steps_seen = self.trainer.global_step
        iteration = self.trainer.current_epoch
        groups = self._groups(iteration)
        rows = rows_of_rank(self.rollout.num_samples, *rank_and_world_size())
        # One case is one group: the same instruction and the same references.
        cases = [group for group in groups for _ in range(self.rollout.num_candidates)]
        with torch.no_grad(), self.trainer.precision_plugin.forward_context():
            own = [cases[row] for row in rows]
            references = self._references(own)
            trajectories, rewards = self.sample_and_judge(iteration, own, references, groups, rows)
            check_failures_of_all_ranks(
                self.reward, failures(rewards, own), self.rollout.num_samples, self.rollout.max_failed_share
            )
            everyone = gather_rewards(rewards, self.device)
            advantages = self._advantages(everyone, [case.id for case in cases])
            with self._timed("replay"):
                self._check_forms(trajectories.conditioning)
                samples = Samples(
                    trajectories,
                    advantages.values[rows.start : rows.stop].to(self.device, torch.float32),
                    advantages.valid[rows.start : rows.stop].to(self.device),
                    self.seed,
                    iteration,
                )
                self.buffer.fill(self.algorithm.micro_batches(self.policy, samples, self.rollout.micro_batch_size))
        monitors = gather_columns(image_monitors(trajectories.images, references), self.device, gather_rows)
        self._log_rollout(everyone, advantages, monitors)

    def _groups(self, iteration: int) -> list[Case]:
        """Return the cases of an iteration, one per group."""
        cases = self.data.train_cases
        return [cases[index] for index in prompt_indices(len(cases), self.rollout.num_prompts, self.seed, iteration)]

    def _references(self, cases: Sequence[Case]) -> list[list[Image]]:
        """Load the pictures of each case once; one list per row."""
        unique = {case.id: case for case in cases}
        loaded = dict(zip(unique, self.data.references(list(unique.values())), strict=True))
        return [loaded[case.id] for case in cases]

    def sample_and_judge(
        self,
        iteration: int,
        cases: Sequence[Case],
        references: Sequence[list[Image]],
        groups: Sequence[Case],
        rows: range,
    ) -> tuple[Trajectories, RewardOutput]:
        """Sample this rank's candidates and have them judged, beside the sampling where that is set.

        Args:
            iteration: counted from 0.
            cases: one per row of this rank.
            references: one list per row of this rank.
            groups: the cases of the iteration, one per group.
            rows: this rank's rows among those of all ranks.
        """
        settings = self.rollout
        with OverlappedScoring(self.reward, device=self.device, overlap=settings.overlap_scoring) as judge:
            scoring = GroupScoring(judge, cases, references, by_group=settings.overlap_scoring)
            seeds = candidate_seeds(self.seed, iteration, groups, settings.num_candidates)
            with (
                self._timed("rollout"),
                self.policy.using(self.algorithm.sampling_adapter),
                in_step(self.transformer),
            ):
                trajectories = sample_group_trajectories(
                    self.generator,
                    condition_rows(self.generator, cases, references),
                    [seeds[row] for row in rows],
                    self._window(iteration),
                    settings.stochastic_sampler() if self.algorithm.stochastic else None,
                    same_latent=settings.same_latent,
                    on_images=scoring.add if settings.overlap_scoring else None,
                )
            with self._timed("reward"):  # beside the sampling: what is left to wait for
                if not settings.overlap_scoring:
                    scoring.add(range(len(cases)), trajectories.images)
                return trajectories, scoring.result()

    def _window(self, iteration: int) -> range:
        settings = self.rollout
        if not self.algorithm.stochastic:
            return range(0)
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

    def _check_forms(self, conditioning: Conditioning) -> None:
        """Refuse what would hang: in training, ranks with sharded weights must make the same forward passes."""
        if not is_sharded(self._adapter.values()):
            return
        size = self.rollout.micro_batch_size
        slices = [range(start, start + size) for start in range(0, len(conditioning), size)]
        counts = [len(conditioning.select(list(rows)).rows_by_form()) for rows in slices]
        everyone = gather_rows(torch.tensor([counts], device=self.device))
        if bool((everyone != everyone[0]).any()):
            raise UserError(
                "expected micro-batches of cases with the same number and sizes of references, because weights are "
                "sharded (ZeRO-3) and ranks would make different numbers of forward passes; choose a "
                "model.rollout.micro_batch_size that divides num_candidates, or use DDP or ZeRO-2"
            )

    def _advantages(self, rewards: RewardOutput, group_ids: list[str]) -> Advantages:
        settings = self.advantage
        if settings.combine == "gdpo":
            return gdpo_advantages(
                rewards.breakdown,
                self._part_weights,
                group_ids,
                failed=rewards.failed,
                epsilon=settings.epsilon,
                clip=settings.clip,
            )
        return group_advantages(
            rewards.total,
            group_ids,
            failed=rewards.failed,
            epsilon=settings.epsilon,
            std_mode=settings.std,
            clip=settings.clip,
        )

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Return the algorithm's loss of a micro-batch."""
        on_policy = self.trainer.global_step == self._steps_before
        output = self.algorithm.loss(self.policy, batch, on_policy)
        self._log("train", output.metrics)
        # Lightning 2.6.6 divides by the accumulated batches although DeepSpeed does it itself: once is enough.
        twice = self.trainer.accumulate_grad_batches if self.trainer.strategy.handles_gradient_accumulation else 1
        return output.loss * twice

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Log the norm of the gradient before clipping, and stop a run that has diverged."""
        gradients = [parameter.grad for parameter in self._adapter.values() if parameter.grad is not None]
        if not gradients:
            return  # DeepSpeed keeps them to itself, and tells their norm after the step
        self._take_gradient_norm(torch.nn.utils.get_total_norm(gradients))

    def _take_gradient_norm(self, norm: Tensor) -> None:
        finite = bool(torch.isfinite(norm))
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        if scaler is not None:  # in every iteration: what is logged once stands in the metrics for ever
            self._log("train", {"skipped_steps": torch.tensor(float(not finite))})
        if finite:
            self._log("train", {"grad_norm": norm})
        # A scaled 16-bit loss overflows now and then; the scaler leaves that step out and scales less from then on.
        elif scaler is None or scaler.get_scale() <= 1:
            raise UserError("the gradient is not finite: training diverged. Lower the learning rate, or clip harder")

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Let the average follow every optimizer step, and the algorithm do what is due after the last one."""
        if self.trainer.global_step > self._steps_seen:
            self._steps_seen = self.trainer.global_step
            norm = deepspeed_gradient_norm(self.trainer.strategy.model)
            if norm is not None:
                self._take_gradient_norm(torch.tensor(norm))
        if self.ema is not None:
            self.ema.update(self.trainer.global_step)
        if self.trainer.is_last_batch:
            done = self.algorithm.after_iteration(self.policy, self.trainer.global_step)
            self._log("train", {name: torch.tensor(value) for name, value in done.items()})

    def on_train_epoch_end(self) -> None:
        """Free the samples of the iteration."""
        self.buffer.clear()

    # ------------------------------------------------------------------------------------------------- validation

    def validated_weights(self) -> AbstractContextManager[None]:
        """Put those weights into the policy that validations look at: the trained ones, or their average."""
        if self.ema is not None and self.ema_settings is not None and self.ema_settings.validate:
            return self.ema.applied()
        return nullcontext()

    def on_validation_epoch_start(self) -> None:
        """Forget the last validation."""
        self._validation = defaultdict(list)
        self._validation_failures = {}

    def validation_step(self, cases: list[Case], batch_idx: int) -> None:
        """Edit held-out cases with the ODE sampler and fixed seeds, and have all judges look at them."""
        references = self.data.validation_references(cases)
        with self.validated_weights(), in_step(self.transformer):
            conditioning = self._held_out_conditioning(cases, references)
            seeds = [stable_seed(self.seed, "validation", case.id) for case in cases]
            latents = self.generator.sample(conditioning, self.generator.initial_latents(conditioning, seeds))
            images = self.generator.decode(conditioning, latents)
        rewards = ask_reward(self.reward, cases=cases, references=references, images=images)
        position = sum(len(values) for values in self._validation["reward"])
        failed_rows = rewards.failed.nonzero().flatten().tolist()
        self._validation_failures |= {
            position + row: failure for row, failure in zip(failed_rows, failures(rewards, cases), strict=True)
        }
        sources: dict[str, Mapping[str, Tensor]] = {
            "the trainer": {"reward": rewards.total, "failed": rewards.failed.double()},
            "the reward": rewards.breakdown,
            "the pictures": image_monitors(images, references),
        }
        for name, monitor in self.monitors.items():
            opinion = ask_reward(monitor, cases=cases, references=references, images=images)
            parts = {f"{name}/{key}": value for key, value in opinion.breakdown.items()}
            sources[f"monitor {name}"] = {name: opinion.total, **parts}
        for key, values in merge_metrics(sources).items():
            self._validation[key].append(values)

    def _held_out_conditioning(self, cases: Sequence[Case], references: list[list[Image]]) -> Conditioning:
        for case, pictures in zip(cases, references, strict=True):
            if case.id not in self._held_out:
                self._held_out[case.id] = self.generator.condition([case], [pictures])
        return Conditioning(tuple(self._held_out[case.id].states[0] for case in cases))

    def on_validation_epoch_end(self) -> None:
        """Log means over all held-out cases; what has no value for a case is left out of the mean."""
        own = {key: torch.cat(parts) for key, parts in self._validation.items()}
        rank, world_size = rank_and_world_size()
        num_own = len(own["reward"])
        # Ranks look at equally many cases; where they run out, a rank repeats one, which does not count.
        num_cases = min(len(self.data.validation_cases), num_own * world_size)
        failed = [
            failure for turn, failure in self._validation_failures.items() if rank + turn * world_size < num_cases
        ]
        check_failures_of_all_ranks(self.reward, failed, num_cases, self.rollout.max_failed_share)
        values = gather_columns(own, self.device, partial(gather_items, num_items=num_cases))
        means = {key: value.nanmean() for key, value in values.items() if key != "failed"}
        self._log("validation", {**means, "failed": values["failed"].sum()})
        for sign in self._watch.update({key: value.item() for key, value in means.items()}):
            rank_zero_warn(str(sign))

    # ---------------------------------------------------------------------------------------------------- logging

    def _log_rollout(self, rewards: RewardOutput, advantages: Advantages, monitors: Mapping[str, Tensor]) -> None:
        valid = rewards.total[~rewards.failed]
        metrics = merge_metrics(
            {
                "the trainer": {
                    "reward_mean": valid.mean(),
                    "reward_std": valid.std(correction=0) if len(valid) else valid.mean(),  # NaN, as of nothing
                    "group_std": advantages.group_std.mean(),
                    "zero_std_groups": advantages.zero_std.double().mean(),
                    "failed": rewards.failed.double().sum(),
                },
                "the reward": {name: value[~rewards.failed].mean() for name, value in rewards.breakdown.items()},
                "the pictures": {name: value.nanmean() for name, value in monitors.items()},
            }
        )
        self._log("rollout", metrics)

    def _log(self, prefix: str, values: Mapping[str, Tensor]) -> None:
        for name, value in values.items():
            self.log(
                f"{prefix}/{name}",
                value.float(),
                on_step=False,
                on_epoch=True,
                batch_size=1,
                reduce_fx="max" if name in _MAXIMA else "mean",
                prog_bar=name in ("reward_mean", "reward"),
                sync_dist=True,
            )

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        yield
        self._log("time", {name: torch.tensor(time.monotonic() - start)})
