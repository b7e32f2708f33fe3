"""Settings of a reinforcement-learning run, as they stand in a config, with the arithmetic of its batches."""

from __future__ import annotations

from dataclasses import dataclass

from gnomon.errors import UserError
from rl.advantages import StdMode


@dataclass(frozen=True)
class RolloutSettings:
    """What one iteration samples, and how it is cut into micro-batches."""

    num_prompts: int = 8
    """Cases per iteration; each is one group."""

    num_candidates: int = 12
    """Candidates per case (the size of a group), at least 2."""

    micro_batch_size: int = 48
    """Samples in one forward and backward pass; it divides num_prompts * num_candidates."""

    window_size: int = 3
    """Stochastic steps per trajectory; only these are trained."""

    window_first: int = 0
    """Earliest step at which the window starts."""

    window_last: int = 2
    """Latest step at which it starts; the window moves from iteration to iteration and never holds the last step."""

    noise_level: float = 0.9
    """Scale of the SDE's noise."""

    same_latent: bool = False
    """Whether the candidates of a case start from one noise."""

    def __post_init__(self) -> None:
        if self.num_prompts < 1 or self.num_candidates < 2:
            raise UserError(
                f"expected num_prompts >= 1 and num_candidates >= 2 (one candidate has nothing to be compared with), "
                f"got {self.num_prompts} and {self.num_candidates}"
            )
        if self.micro_batch_size < 1 or self.num_samples % self.micro_batch_size:
            raise UserError(
                f"expected a micro_batch_size that divides num_prompts x num_candidates = {self.num_prompts} x "
                f"{self.num_candidates} = {self.num_samples}, got {self.micro_batch_size}"
            )
        if self.noise_level <= 0:
            raise UserError(f"expected noise_level > 0, got {self.noise_level}")

    @property
    def num_samples(self) -> int:
        """Samples per iteration."""
        return self.num_prompts * self.num_candidates

    @property
    def num_micro_batches(self) -> int:
        """Forward and backward passes per iteration: every sample once per stochastic step."""
        return self.num_samples // self.micro_batch_size * self.window_size

    def layout(self, accumulate: int) -> str:
        """Describe the batches of an iteration in one line.

        Args:
            accumulate: the Trainer's `accumulate_grad_batches`.

        Raises:
            UserError: when accumulation does not divide the micro-batches, so that the last step would be smaller.
        """
        if self.num_micro_batches % accumulate:
            raise UserError(
                f"expected trainer.accumulate_grad_batches to divide the {self.num_micro_batches} micro-batches of an "
                f"iteration ({self.num_samples} samples / {self.micro_batch_size} x {self.window_size} steps), "
                f"got {accumulate}"
            )
        return (
            f"{self.num_prompts} prompts x {self.num_candidates} candidates = {self.num_samples} samples; "
            f"{self.num_micro_batches} micro-batches ({self.num_samples // self.micro_batch_size} x "
            f"{self.micro_batch_size} samples at {self.window_size} steps), {accumulate} per optimizer step = "
            f"{self.num_micro_batches // accumulate} optimizer steps per iteration"
        )


@dataclass(frozen=True)
class ObjectiveSettings:
    """How advantages and the loss are made."""

    clip_low: float = 2e-3
    """How far the ratio may fall below 1. Log-probabilities are means over elements, so 1e-5 to 1e-2 is the range."""

    clip_high: float = 2e-3
    """How far it may rise above 1."""

    advantage_epsilon: float = 0.02
    """Added to the standard deviation of rewards."""

    advantage_std: StdMode = "group"
    """What that standard deviation is taken over: group, global or none."""

    advantage_clip: float = 5.0
    """Largest absolute advantage."""

    kl_weight: float = 0.0
    """Weight of the KL to the model without the adapter (in velocity space); above 0 it costs one more forward pass."""

    max_failed_share: float = 0.1
    """Largest share of failed rewards in an iteration or a validation before the run stops."""

    ratio_tolerance: float = 0.0
    """Largest |ratio - 1| before the first optimizer step of an iteration; more means that replay is not rollout."""


@dataclass(frozen=True)
class LoraSettings:
    """The adapter that is trained."""

    rank: int = 16
    """Rank of the update of each layer."""

    alpha: int = 16
    """The update is scaled by alpha / rank."""

    targets: list[str] | None = None
    """Endings of the layers' names; default all linear layers of the transformer's blocks."""


@dataclass(frozen=True)
class OptimizerSettings:
    """AdamW on the adapter's weights."""

    learning_rate: float = 1e-3
    """Constant; an adapter of a small model takes 1e-3, of a large one 1e-4."""

    weight_decay: float = 0.0
    """Decoupled weight decay."""

    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of the running moments."""
