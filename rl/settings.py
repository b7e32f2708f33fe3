"""Settings of a reinforcement-learning run, as they stand in a config, with the arithmetic of its batches.

The defaults are the ones that published trainings of large editing models share (LoRA by AdamW, groups of 16, a short
moving window of stochastic steps). The shipped tabletop recipe sets values of its own for its tiny model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from gnomon.errors import UserError
from rl.advantages import StdMode
from rl.samplers import SDEKind, StochasticSampler, sde_window

Combination = Literal["sum", "gdpo"]
LoraInit = Literal["gaussian", "kaiming"]


@dataclass(frozen=True)
class BatchLayout:
    """How an iteration is cut up. Counts are per rank where they say so; all ranks do the same number of things.

    Attributes:
        num_prompts: groups of an iteration.
        num_candidates: samples of a group.
        num_ranks: processes.
        micro_batch_size: samples in one forward and backward pass of a rank.
        trained_steps: time steps at which each sample is trained.
        accumulate: micro-batches of a rank per optimizer step.
    """

    num_prompts: int
    num_candidates: int
    num_ranks: int
    micro_batch_size: int
    trained_steps: int
    accumulate: int

    @property
    def samples_per_rank(self) -> int:
        """Samples that a rank makes, rewards and trains on."""
        return self.num_prompts * self.num_candidates // self.num_ranks

    @property
    def micro_batches_per_rank(self) -> int:
        """Forward and backward passes of a rank in an iteration: every sample once per trained time step."""
        return self.samples_per_rank // self.micro_batch_size * self.trained_steps

    @property
    def optimizer_steps(self) -> int:
        """Optimizer steps of an iteration, the same on all ranks."""
        return self.micro_batches_per_rank // self.accumulate

    def __str__(self) -> str:
        ranks = "" if self.num_ranks == 1 else f" on {self.num_ranks} ranks, {self.samples_per_rank} on each"
        return (
            f"{self.num_prompts} prompts x {self.num_candidates} candidates = "
            f"{self.num_prompts * self.num_candidates} samples{ranks}; "
            f"{self.micro_batches_per_rank} micro-batches{' per rank' if self.num_ranks > 1 else ''} "
            f"({self.samples_per_rank // self.micro_batch_size} x {self.micro_batch_size} samples at "
            f"{self.trained_steps} steps), {self.accumulate} per optimizer step = "
            f"{self.optimizer_steps} optimizer steps per iteration"
        )


@dataclass(frozen=True)
class RolloutSettings:
    """What one iteration samples, and how it is cut into micro-batches."""

    num_prompts: int = 48
    """Cases per iteration, on all ranks together; each is one group."""

    num_candidates: int = 16
    """Candidates per case (the size of a group), at least 2."""

    micro_batch_size: int = 4
    """Samples in one forward and backward pass of a rank; it divides the rank's share of the samples."""

    sampler: SDEKind = "flow_sde"
    """How the stochastic steps are made. Clip ranges do not carry over from an SDE to "cps" (1e-4 and 1e-5)."""

    noise_level: float = 0.7
    """Scale of the noise: about 0.7 to 1 for flow_sde, 0.3 to 0.7 for dance_sde, 0.8 of at most 1 for cps."""

    window_size: int = 3
    """Stochastic steps per trajectory; only these are trained. Algorithms that sample by the ODE have none."""

    window_first: int = 0
    """Earliest step at which the window starts."""

    window_last: int = 2
    """Latest step at which it starts; the window moves from iteration to iteration and never holds the last step."""

    same_latent: bool = False
    """Whether the candidates of a case start from one noise."""

    overlap_scoring: bool = True
    """Whether finished groups are judged while others are sampled; groups are then judged one by one."""

    max_failed_share: float = 0.1
    """Largest share of failed rewards in an iteration or a validation before the run stops."""

    def __post_init__(self) -> None:
        _expect(self.num_prompts >= 1, "rollout.num_prompts >= 1", self.num_prompts)
        _expect(
            self.num_candidates >= 2,
            "rollout.num_candidates >= 2 (one candidate has nothing to be compared with)",
            self.num_candidates,
        )
        _expect(
            self.micro_batch_size >= 1 and self.num_samples % self.micro_batch_size == 0,
            f"rollout.micro_batch_size to divide num_prompts x num_candidates = {self.num_prompts} x "
            f"{self.num_candidates} = {self.num_samples}",
            self.micro_batch_size,
        )
        _expect(self.window_size >= 1, "rollout.window_size >= 1", self.window_size)
        _expect(self.window_first >= 0, "rollout.window_first >= 0", self.window_first)
        _expect(
            self.window_last >= self.window_first,
            f"rollout.window_last >= window_first = {self.window_first}",
            self.window_last,
        )
        _expect(0 <= self.max_failed_share <= 1, "rollout.max_failed_share from 0 to 1", self.max_failed_share)
        try:
            self.stochastic_sampler()
        except ValueError as error:
            raise UserError(f"model.rollout.sampler and noise_level: {error}") from error

    @property
    def num_samples(self) -> int:
        """Samples per iteration, on all ranks together."""
        return self.num_prompts * self.num_candidates

    def stochastic_sampler(self) -> StochasticSampler:
        """Return the sampler of the stochastic steps."""
        return StochasticSampler(self.sampler, self.noise_level)

    def window(self, seed: int, iteration: int, num_inference_steps: int) -> range:
        """Return the stochastic steps of an iteration, see `sde_window`.

        Raises:
            UserError: when the window does not fit into the schedule.
        """
        try:
            return sde_window(
                seed, iteration, num_inference_steps, self.window_size, self.window_first, self.window_last
            )
        except ValueError as error:
            raise UserError(
                f"model.rollout.window_size, window_first and window_last do not fit into the {num_inference_steps} "
                f"steps of model.generator.init_args.num_inference_steps: {error}"
            ) from error

    def layout(self, *, accumulate: int, trained_steps: int, num_ranks: int = 1) -> BatchLayout:
        """Work out the batches of an iteration.

        Args:
            accumulate: the Trainer's `accumulate_grad_batches`.
            trained_steps: time steps at which the algorithm trains each sample.
            num_ranks: processes that share the iteration.

        Raises:
            UserError: when ranks or micro-batches do not divide the samples, or accumulation does not divide the
                micro-batches, so that the last step would be smaller.
        """
        if self.num_samples % num_ranks or self.num_samples // num_ranks % self.micro_batch_size:
            raise UserError(
                f"expected the {self.num_samples} samples of an iteration (model.rollout.num_prompts x num_candidates "
                f"= {self.num_prompts} x {self.num_candidates}) to be divided by {num_ranks} ranks (trainer.devices x "
                f"num_nodes) and then by model.rollout.micro_batch_size = {self.micro_batch_size}; change one of them"
            )
        layout = BatchLayout(
            self.num_prompts, self.num_candidates, num_ranks, self.micro_batch_size, trained_steps, accumulate
        )
        if layout.micro_batches_per_rank % accumulate:
            raise UserError(
                f"expected trainer.accumulate_grad_batches to divide the {layout.micro_batches_per_rank} micro-batches "
                f"of an iteration ({layout.samples_per_rank} samples / {self.micro_batch_size} x {trained_steps} "
                f"steps), got {accumulate}"
            )
        return layout


@dataclass(frozen=True)
class AdvantageSettings:
    """How rewards become advantages."""

    combine: Combination = "sum"
    """How several rewards come together: their weighted sum, or "gdpo": each normalised by itself first."""

    epsilon: float = 1e-4
    """Added to the standard deviation of rewards; larger values calm groups of nearly equal rewards."""

    std: StdMode = "group"
    """What that standard deviation is taken over: group, global or none ("gdpo" always takes the group's)."""

    clip: float = 5.0
    """Largest absolute advantage."""

    def __post_init__(self) -> None:
        _expect_choice(self.combine, get_args(Combination), "advantage.combine")
        _expect_choice(self.std, get_args(StdMode), "advantage.std")
        _expect(0 <= self.epsilon < math.inf, "advantage.epsilon >= 0", self.epsilon)
        _expect(self.clip > 0, "advantage.clip > 0", self.clip)


@dataclass(frozen=True)
class LoraSettings:
    """The adapter that is trained."""

    rank: int = 64
    """Rank of the update of each layer."""

    alpha: int = 128
    """The update is scaled by alpha / rank."""

    targets: list[str] | None = None
    """Endings of the layers' names; default all linear layers of the transformer's blocks."""

    init: LoraInit = "gaussian"
    """How the first factor is drawn: "gaussian" with standard deviation 1 / rank, or "kaiming" (PEFT's default)."""

    def __post_init__(self) -> None:
        _expect(self.rank >= 1, "lora.rank >= 1", self.rank)
        _expect(self.alpha > 0, "lora.alpha > 0", self.alpha)
        _expect(self.targets is None or len(self.targets) > 0, "lora.targets to name layers", self.targets)
        _expect_choice(self.init, get_args(LoraInit), "lora.init")


@dataclass(frozen=True)
class OptimizerSettings:
    """AdamW on the adapter's weights."""

    learning_rate: float = 3e-4
    """Constant; an adapter of a large model takes 3e-4 or less, of a small one 1e-3."""

    weight_decay: float = 1e-4
    """Decoupled weight decay."""

    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of the running moments."""

    gradient_checkpointing: bool = False
    """Keep few activations and compute the others again in the backward pass: less memory, about a third more time."""

    def __post_init__(self) -> None:
        _expect(0 < self.learning_rate < math.inf, "optimizer.learning_rate > 0", self.learning_rate)
        _expect(0 <= self.weight_decay < math.inf, "optimizer.weight_decay >= 0", self.weight_decay)
        _expect(all(0 <= beta < 1 for beta in self.betas), "optimizer.betas from 0 to below 1", self.betas)


@dataclass(frozen=True)
class EmaSettings:
    """A running average of the adapter's weights beside the trained ones."""

    decay: float = 0.9
    """Share of the old average at each update."""

    every: int = 1
    """Optimizer steps per update."""

    validate: bool = False
    """Whether held-out cases are edited with the averaged weights; `lora/best` then holds those."""

    def __post_init__(self) -> None:
        _expect(0 <= self.decay < 1, "ema.decay from 0 to below 1", self.decay)
        _expect(self.every >= 1, "ema.every >= 1", self.every)


def check_precision(precision: object) -> None:
    """Refuse a trainer's precision that would round the adapter itself to 16 bits.

    Raises:
        UserError: for "bf16-true" and "16-true".
    """
    if precision in ("bf16-true", "16-true"):
        mixed = str(precision).replace("true", "mixed")
        raise UserError(
            f"expected trainer.precision 32-true, bf16-mixed or 16-mixed, got {precision}: it keeps the adapter in 16 "
            f"bits, where small updates are lost, and moves the ratio off 1. Use {mixed}, and load the frozen model "
            "in 16 bits with model.generator.init_args.dtype"
        )


def _expect(holds: bool, what: str, got: object) -> None:
    if not holds:
        raise UserError(f"expected model.{what}, got {got}")


def _expect_choice(value: str, choices: tuple[str, ...], key: str) -> None:
    _expect(value in choices, f"{key} to be one of {', '.join(choices)}", repr(value))
