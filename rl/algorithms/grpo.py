"""Policy gradients on the stochastic steps of a rollout: Flow-GRPO, and GRPO-Guard."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from torch import Tensor

from gnomon.errors import UserError
from rl.algorithms.base import Samples
from rl.losses import LossOutput, grpo_loss, guard_loss, kl_exact, kl_mean_space, kl_velocity
from rl.policy import TRAINED, Policy
from rl.rollouts import Replay, Transitions, replay_log_prob

KLForm = Literal["velocity", "exact", "mean_space"]


@dataclass(frozen=True, eq=False)
class StepBatch:
    """One stochastic step of some samples with what is needed to judge it.

    `old_log_prob` (of a replay before training), `drawn_log_prob` (of the rollout itself) and `advantages` are float32
    `[batch]`, `mask` (False: the reward failed) is boolean `[batch]`; `old_mean`, of the transition under the policy
    that sampled, has the shape of the latents, where it is needed.
    """

    transitions: Transitions
    old_log_prob: Tensor
    drawn_log_prob: Tensor
    old_mean: Tensor | None
    advantages: Tensor
    mask: Tensor


@dataclass(frozen=True, kw_only=True)
class FlowGRPO:
    """Clipped policy gradients on the log-probabilities of stochastic steps (Flow-GRPO, arXiv 2505.05470).

    Raises:
        UserError: when a number is out of its range.
    """

    copies: ClassVar[tuple[str, ...]] = ()
    sampling_adapter: ClassVar[str] = TRAINED
    stochastic: ClassVar[bool] = True
    _keeps_means: ClassVar[bool] = False

    clip_low: float = 1e-4
    """How far the ratio may fall below 1. Log-probabilities are **means** over the latent elements, so a ratio is the
    true one to the power of 1 / elements; that is why 1e-4 is usual for an SDE and 1e-5 for CPS, where PPO takes 0.2,
    and why the range grows where latents are small."""

    clip_high: float = 1e-4
    """How far it may rise above 1; may differ (1e-4 and 5e-4 are used together)."""

    kl_weight: float = 0.0
    """Weight of the KL to the model without the adapter; above 0 it costs one more forward pass."""

    kl_form: KLForm = "velocity"
    """Which KL: plain difference of velocities, the exact one of the stochastic steps, or Flow-GRPO's, which leaves out
    the length of a step (its weight there is 0.04)."""

    ratio_tolerance: float = 0.0
    """Largest |ratio - 1| before the first optimizer step of an iteration; more means that replay is not rollout."""

    def __post_init__(self) -> None:
        if not self.clip_low > 0 or not self.clip_high > 0:
            raise UserError(
                f"expected model.algorithm.clip_low and clip_high > 0, got {self.clip_low} and {self.clip_high}"
            )
        if not 0 <= self.kl_weight < math.inf or not self.ratio_tolerance >= 0:
            raise UserError(
                "expected model.algorithm.kl_weight and ratio_tolerance >= 0, got "
                f"{self.kl_weight} and {self.ratio_tolerance}"
            )
        if self.kl_form not in get_args(KLForm):
            raise UserError(f"expected model.algorithm.kl_form {', '.join(get_args(KLForm))}, got {self.kl_form!r}")

    def num_trained_steps(self, window_size: int, num_inference_steps: int) -> int:
        """Train the stochastic steps."""
        return window_size

    def num_kept_latents(self, window_size: int) -> int:
        """Keep both ends of each stochastic step, and its mean where the loss compares means."""
        return (3 if self._keeps_means else 2) * window_size

    def micro_batches(self, policy: Policy, samples: Samples, size: int) -> list[Any]:
        """Replay each stochastic step once, in the micro-batches that training will use, for the old probabilities."""
        batches: list[Any] = []
        for rows in samples.slices(size):
            for place, step in enumerate(samples.trajectories.window):
                transitions = samples.trajectories.transitions(rows, step)
                old = replay_log_prob(policy.generator, transitions)
                batches.append(
                    StepBatch(
                        transitions,
                        old.log_prob,
                        samples.trajectories.log_probs[rows, place],
                        old.mean if self._keeps_means else None,
                        samples.advantages[rows],
                        samples.mask[rows],
                    )
                )
        return batches

    def loss(self, policy: Policy, batch: Any, on_policy: bool) -> LossOutput:
        """Replay a step and return the clipped loss, plus the KL where it has a weight.

        Raises:
            UserError: when the ratio is not 1 although nothing has changed since the rollout.
        """
        replay = replay_log_prob(policy.generator, batch.transitions)
        output = self._policy_loss(replay, batch)
        if on_policy:
            self._check_ratio(output.metrics["ratio_deviation"])
        gap = (batch.old_log_prob - batch.drawn_log_prob).abs().max()
        metrics = output.metrics | {"log_prob_gap": gap}
        if self.kl_weight == 0:
            return LossOutput(output.loss, metrics)
        kl = self._kl(policy, batch.transitions, replay.velocity).mean()
        return LossOutput(output.loss + self.kl_weight * kl, metrics | {"kl": kl.detach()})

    def _policy_loss(self, replay: Replay, batch: StepBatch) -> LossOutput:
        return grpo_loss(
            replay.log_prob,
            batch.old_log_prob,
            batch.advantages,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            mask=batch.mask,
        )

    def _check_ratio(self, deviation: Tensor) -> None:
        if not deviation.item() <= self.ratio_tolerance:
            raise UserError(
                f"expected the ratio of new to old probabilities to be 1 before the first optimizer step, it is off by "
                f"{deviation.item():.3g}: the replay is not the rollout (dropout, another batch shape, a kernel that "
                "adds in another order each time), so clipping would work on noise. Turn the cause off, or allow "
                "a small deviation with model.algorithm.init_args.ratio_tolerance"
            )

    def _kl(self, policy: Policy, transitions: Transitions, velocity: Tensor) -> Tensor:
        """Return the KL `[batch]`; the reference has no gradient, the KL has one."""
        reference = policy.velocity_of(None, transitions.conditioning, transitions.latents, transitions.step)
        if self.kl_form == "velocity":
            return kl_velocity(velocity, reference)
        kl = kl_exact if self.kl_form == "exact" else kl_mean_space
        return kl(velocity, reference, transitions.sampler, transitions.sigmas)

    def after_iteration(self, policy: Policy, num_optimizer_steps: int) -> dict[str, float]:
        """Do nothing: the next rollout samples from the trained adapter."""
        return {}


@dataclass(frozen=True, kw_only=True)
class GRPOGuard(FlowGRPO):
    """Flow-GRPO with a ratio whose bias and spread do not depend on the time step (GRPO-Guard, arXiv 2510.22319)."""

    _keeps_means: ClassVar[bool] = True

    clip_low: float = 4e-6
    """As in `FlowGRPO`, of a ratio that is smaller by about the std of a step: 2e-6 to 4e-6 are usual."""

    clip_high: float = 4e-6
    """Likewise."""

    def _policy_loss(self, replay: Replay, batch: StepBatch) -> LossOutput:
        assert batch.old_mean is not None
        now, after = batch.transitions.sigmas.like(replay.std)
        return guard_loss(
            replay.mean,
            batch.old_mean,
            batch.transitions.latents_next,
            replay.std,
            now - after,
            batch.advantages,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            mask=batch.mask,
        )
