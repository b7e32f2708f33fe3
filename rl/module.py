"""Reinforcement learning as a LightningModule: an epoch is one iteration of sample, judge and train.

At the start of an epoch the module has groups of candidates sampled and judged (`rl.iteration`) and fills the buffer
that the train dataloader serves; from there on it is ordinary training with automatic optimisation. What is trained on
and how is the algorithm's affair (`rl.algorithms`); how held-out cases are looked at stands in `rl.validation`.

On several ranks each makes, judges and trains on its own share of an iteration's samples. Whatever is drawn is a
function of (seed, iteration, case, member), so a resumed run goes on exactly as if it had not stopped, and no random
state needs to be saved.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from pytorch_lightning import LightningModule
from torch import Tensor

from gnomon.errors import UserError
from gnomon.ranks import failing_together
from gnomon.records import Case
from gnomon.sharding import deepspeed_gradient_norm, in_step, is_sharded
from rl.algorithms import Algorithm
from rl.buffer import RolloutBuffer
from rl.data import CaseData, check_number_of_cases
from rl.ema import AdapterAverage
from rl.generator import DiffusersGenerator
from rl.iteration import IterationSampling
from rl.monitors import HackingSettings
from rl.policy import Policy
from rl.rewards import Reward, check_monitor_names
from rl.settings import (
    AdvantageSettings,
    BatchLayout,
    EmaSettings,
    LoraSettings,
    OptimizerSettings,
    RolloutSettings,
    check_precision,
)
from rl.validation import HeldOutValidation

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
        buffer: this rank's micro-batches of the current iteration.
        ema: the running average of the adapter, if there is one.
        sampling: makes the samples of an iteration.
        held_out: what the reward and its monitors think of held-out cases.
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
        self.generator, self.reward, self.algorithm, self.rollout = generator, reward, algorithm, rollout
        self.optimizer_settings, self.ema_settings = optimizer, ema
        self.transformer = generator.transformer
        self.policy = Policy(generator, lora, copies=algorithm.copies, seed=seed)
        self._adapter = self.policy.trained
        self.sampling = IterationSampling(self.policy, reward, algorithm, rollout, advantage, seed=seed)
        self.ema = None if ema is None else AdapterAverage(self._adapter, decay=ema.decay, every=ema.every)
        if optimizer.gradient_checkpointing:
            self.policy.recompute_activations()
        self._set_layout(1, 1)
        self._steps_before = self._steps_seen = 0
        self.held_out = HeldOutValidation(
            generator,
            reward,
            monitors or {},
            hacking=hacking,
            max_failed_share=rollout.max_failed_share,
            seed=seed,
        )

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
        checkpoint[_WATCH] = self.held_out.watch.state_dict()
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
        self.held_out.watch.load_state_dict(checkpoint[_WATCH])
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
            check_number_of_cases(self.data, self.rollout)

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

    def _failing_together(self) -> AbstractContextManager[None]:
        """Let an error of one rank end all: what is inside must not hold an exchange of ordinary tensors."""
        return failing_together(exchange=not is_sharded(self._adapter.values()))

    @property
    def data(self) -> CaseData:
        """The cases."""
        data = getattr(self.trainer, "datamodule", None)
        assert isinstance(data, CaseData)
        return data

    def on_train_epoch_start(self) -> None:
        """Fill the buffer: sample and judge this rank's share, compare with all ranks, cut into micro-batches."""
        self._steps_before = self._steps_seen = self.trainer.global_step
        with torch.no_grad(), self.trainer.precision_plugin.forward_context():
            made = self.sampling.make(
                self.trainer.current_epoch, self.data.train_cases, self.data.references, self.device, self._timed
            )
            with self._timed("replay"), self._failing_together():
                self.buffer.fill(self.algorithm.micro_batches(self.policy, made.samples, self.rollout.micro_batch_size))
        self._log("rollout", made.metrics())

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Return the algorithm's loss of a micro-batch."""
        on_policy = self.trainer.global_step == self._steps_before
        with self._failing_together():
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
        self.held_out.start()

    def validation_step(self, cases: list[Case], batch_idx: int) -> None:
        """Edit held-out cases and have all judges look at them."""
        with self._failing_together():
            references = self.data.validation_references(cases)
            with self.validated_weights(), in_step(self.transformer):
                images = self.held_out.draw(cases, references)
            self.held_out.judge(cases, references, images)

    def on_validation_epoch_end(self) -> None:
        """Log means over all held-out cases."""
        self._log("validation", self.held_out.finish(len(self.data.validation_cases), self.device))

    # ---------------------------------------------------------------------------------------------------- logging

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
