"""DiffusionNFT: learn from clean samples, good ones against bad ones, without the probability of any step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gnomon.errors import UserError
from gnomon.hashing import stable_seed
from rl.algorithms.base import Samples
from rl.conditioning import Conditioning
from rl.losses import LossOutput, kl_velocity, nft_loss
from rl.policy import Policy
from rl.samplers import noise_for

OLD = "old"


@dataclass(frozen=True, eq=False)
class CleanBatch:
    """Some clean samples, to be noised to one time step of the schedule.

    `clean` is float32 `[batch, tokens, channels]`, `seeds` has one entry per sample; `advantages` float32 and `mask`
    are `[batch]`.
    """

    conditioning: Conditioning
    clean: Tensor
    seeds: list[int]
    step: int
    advantages: Tensor
    mask: Tensor

    def noised(self) -> tuple[Tensor, float]:
        """Return `(1 - sigma) x0 + sigma e` and sigma; the noise belongs to sample and step alone."""
        sigma = self.conditioning.sigmas[self.step].item()
        noise = torch.stack([noise_for((seed, "nft", self.step), self.clean.shape[1:]) for seed in self.seeds])
        return (1 - sigma) * self.clean + sigma * noise.to(self.clean.device), sigma


@dataclass(frozen=True, kw_only=True)
class DiffusionNFT:
    """Negative-aware fine-tuning of the forward process (DiffusionNFT, arXiv 2509.16117).

    Three sets of weights: the adapter "default" is trained, its copy "old" samples and follows slowly, and without an
    adapter there is the reference. Rollouts take the ODE, so any number of steps and no window; of a sample only the
    clean latents are kept. Sample and train without guidance: the method is made for it.

    Raises:
        UserError: when a number is out of its range.
    """

    copies: ClassVar[tuple[str, ...]] = (OLD,)
    sampling_adapter: ClassVar[str] = OLD
    stochastic: ClassVar[bool] = False

    beta: float = 1.0
    """How far the trained velocity is mirrored about the old one; 1, or 0.1 with several rewards."""

    advantage_max: float = 5.0
    """Advantage at which a sample counts as all good or all bad."""

    kl_weight: float = 1e-4
    """Weight of the squared difference to the velocity of the reference; 0 saves a forward pass."""

    timestep_fraction: float = 0.99
    """Share of the schedule's steps at which each sample is trained, rounded down, at least one; which ones changes
    from iteration to iteration."""

    eta_start: int = 0
    """Optimizer steps during which the sampling policy is the trained one."""

    eta_rate: float = 1e-3
    """What is added per further optimizer step to the share of itself that the sampling policy keeps."""

    eta_max: float = 0.5
    """Largest such share."""

    def __post_init__(self) -> None:
        if not self.beta > 0 or not self.advantage_max > 0 or not 0 <= self.kl_weight < math.inf:
            raise UserError(
                "expected model.algorithm.beta > 0, advantage_max > 0 and kl_weight >= 0, got "
                f"{self.beta}, {self.advantage_max} and {self.kl_weight}"
            )
        if not 0 < self.timestep_fraction <= 1:
            raise UserError(f"expected model.algorithm.timestep_fraction in (0, 1], got {self.timestep_fraction}")
        if self.eta_start < 0 or not self.eta_rate >= 0 or not 0 <= self.eta_max < 1:
            raise UserError(
                "expected model.algorithm.eta_start >= 0, eta_rate >= 0 and eta_max from 0 to below 1, got "
                f"{self.eta_start}, {self.eta_rate} and {self.eta_max}"
            )

    def num_trained_steps(self, window_size: int, num_inference_steps: int) -> int:
        """Train a share of all steps; there is no window."""
        return max(1, int(num_inference_steps * self.timestep_fraction))

    def num_kept_latents(self, window_size: int) -> int:
        """Keep the clean sample; all steps share it."""
        return 1

    def trained_steps(self, num_inference_steps: int, seed: int, iteration: int) -> list[int]:
        """Draw the steps of an iteration: the same for all samples and ranks, in an order of their own."""
        order = np.random.default_rng(stable_seed(seed, "nft steps", iteration)).permutation(num_inference_steps)
        steps: list[int] = order[: self.num_trained_steps(0, num_inference_steps)].tolist()
        return steps

    def micro_batches(self, policy: Policy, samples: Samples, size: int) -> list[Any]:
        """Cut the clean samples up; noise and the velocities of all three policies come in the training step."""
        trajectories = samples.trajectories
        clean = trajectories.latents[:, -1].split(size)  # without a copy: one serves all steps
        steps = self.trained_steps(len(trajectories.conditioning.sigmas) - 1, samples.seed, samples.iteration)
        return [
            CleanBatch(
                trajectories.conditioning.select(rows),
                part,
                [trajectories.seeds[row] for row in rows],
                step,
                samples.advantages[rows],
                samples.mask[rows],
            )
            for rows, part in zip(samples.slices(size), clean, strict=True)
            for step in steps
        ]

    def loss(self, policy: Policy, batch: Any, on_policy: bool) -> LossOutput:
        """Noise the samples, ask all three policies for their velocities, and return the loss plus the KL."""
        noised, sigma = batch.noised()
        old = policy.velocity_of(OLD, batch.conditioning, noised, batch.step)
        reference = None
        if self.kl_weight > 0:
            reference = policy.velocity_of(None, batch.conditioning, noised, batch.step)
        velocity = policy.generator.velocity(batch.conditioning, noised, batch.step)
        output = nft_loss(
            velocity,
            old,
            noised,
            batch.clean,
            sigma,
            batch.advantages,
            beta=self.beta,
            advantage_max=self.advantage_max,
            mask=batch.mask,
        )
        if reference is None:
            return output
        kl = kl_velocity(velocity, reference).mean()
        return LossOutput(output.loss + self.kl_weight * kl, output.metrics | {"kl": kl.detach()})

    def eta(self, num_optimizer_steps: int) -> float:
        """Return the share of itself that the sampling policy keeps after so many optimizer steps.

        `min(eta_rate * max(steps - eta_start, 0), eta_max)`: published are 0.001 from the start up to 0.5, and 0.0075
        from step 75 up to 0.999.
        """
        return min(self.eta_rate * max(num_optimizer_steps - self.eta_start, 0), self.eta_max)

    def after_iteration(self, policy: Policy, num_optimizer_steps: int) -> dict[str, float]:
        """Let the sampling policy follow the trained one."""
        eta = self.eta(num_optimizer_steps)
        policy.move_copy(OLD, eta)
        return {"eta": eta}
