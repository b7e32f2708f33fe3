"""Rollouts of the policy, and their replay: one function for old log-probabilities and for training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from PIL.Image import Image
from torch import Tensor

from gnomon.hashing import stable_seed
from gnomon.records import Case
from rl.conditioning import Conditioning
from rl.generator import DiffusersGenerator
from rl.samplers import StepResult, flow_sde_step, noise_for, ode_step


@dataclass(frozen=True, eq=False)
class Transitions:
    """One stochastic step of several samples: what a replay needs.

    `latents` and `latents_next` are float32 `[batch, tokens, channels]`; `step` is the index into the schedule.
    """

    conditioning: Conditioning
    latents: Tensor
    latents_next: Tensor
    step: int
    noise_level: float

    @property
    def sigmas(self) -> tuple[float, float, float]:
        """Noise share before the step, after it, and the bound `sigma_max` of `flow_sde_step`."""
        schedule = self.conditioning.sigmas
        return schedule[self.step].item(), schedule[self.step + 1].item(), schedule[1].item()


@dataclass(frozen=True, eq=False)
class Trajectories:
    """What a rollout left: latents around the stochastic steps in float32, and the pictures.

    Attributes:
        conditioning: one state per sample.
        seeds: one per sample; with the window they make the sample again.
        window: the stochastic steps.
        noise_level: of the SDE.
        latents: at the borders of the window's steps, `[batch, len(window) + 1, tokens, channels]`.
        images: the decoded pictures.
    """

    conditioning: Conditioning
    seeds: list[int]
    window: range
    noise_level: float
    latents: Tensor
    images: list[Image]

    def transitions(self, rows: Sequence[int], step: int) -> Transitions:
        """Cut out one step of the window for some of the samples."""
        place = self.window.index(step)
        chosen = list(rows)
        return Transitions(
            self.conditioning.select(chosen),
            self.latents[chosen, place],
            self.latents[chosen, place + 1],
            step,
            self.noise_level,
        )


@dataclass(frozen=True, eq=False)
class Replay:
    """A replayed step: `log_prob` `[batch]` and the `velocity` it came from, both with gradient if enabled."""

    log_prob: Tensor
    velocity: Tensor


def replay_log_prob(generator: DiffusersGenerator, transitions: Transitions) -> Replay:
    """Ask the current policy how likely a stored step is.

    Old log-probabilities and those of training both come from here, on the same rows: what depends on the shape
    of a batch (16-bit products, attention kernels) then cancels, and the first ratio is exactly 1.
    """
    velocity = generator.velocity(transitions.conditioning, transitions.latents, transitions.step)
    sigma, sigma_next, sigma_max = transitions.sigmas
    step = flow_sde_step(
        transitions.latents,
        velocity,
        sigma,
        sigma_next,
        transitions.noise_level,
        sample_next=transitions.latents_next,
        sigma_max=sigma_max,
    )
    return Replay(step.log_prob, velocity)


def candidate_seeds(seed: int, iteration: int, cases: Sequence[Case], num_candidates: int) -> list[int]:
    """Give every candidate its own seed, members of a case side by side; a function of names, not of any order."""
    return [
        stable_seed(seed, "candidate", iteration, case.id, member) for case in cases for member in range(num_candidates)
    ]


@torch.no_grad()
def sample_group_trajectories(
    generator: DiffusersGenerator,
    conditioning: Conditioning,
    seeds: Sequence[int],
    window: range,
    noise_level: float,
    *,
    same_latent: bool = False,
) -> Trajectories:
    """Sample candidates: SDE steps inside the window, ODE steps outside it (MixGRPO, arXiv 2507.21802).

    A candidate depends on its own seed only, not on the batch that it was sampled in (up to rounding).

    Args:
        generator: the policy.
        conditioning: one row per candidate, the members of a group side by side (`Conditioning.expand`).
        seeds: one per candidate.
        window: the stochastic steps; they may not hold the last step.
        noise_level: of the SDE.
        same_latent: start all candidates of a case from one noise, that of its first seed; by default each has
            its own, which makes them differ in kind and not only in detail.

    Raises:
        ValueError: when the window leaves the schedule or holds the last step, or lengths differ.
    """
    sigmas = conditioning.sigmas
    if not len(window) or window.start < 0 or window.stop > len(sigmas) - 2:
        raise ValueError(
            f"expected stochastic steps inside 0..{len(sigmas) - 3} (the last step is never stochastic), got {window}"
        )
    initial_seeds = list(seeds)
    if same_latent:
        first: dict[str, int] = {}
        initial_seeds = [first.setdefault(case, seed) for case, seed in zip(conditioning.case_ids, seeds, strict=True)]
    initial = generator.initial_latents(conditioning, initial_seeds)
    kept = initial.new_empty(len(seeds), len(window) + 1, *initial.shape[1:])
    final = torch.empty_like(initial)
    for rows in generator.chunks(conditioning):
        part, part_seeds = conditioning.select(rows), [seeds[row] for row in rows]
        current = initial[rows]
        for step in range(len(sigmas) - 1):
            if step == window.start:
                kept[rows, 0] = current
            velocity = generator.velocity(part, current, step)
            if step in window:
                current = _stochastic_step(current, velocity, sigmas, step, noise_level, part_seeds).sample_next
                kept[rows, step - window.start + 1] = current
            else:
                current = ode_step(current, velocity, sigmas[step], sigmas[step + 1])
        final[rows] = current
    images = generator.decode(conditioning, final)
    return Trajectories(conditioning, list(seeds), window, noise_level, kept, images)


def _stochastic_step(
    current: Tensor, velocity: Tensor, sigmas: Tensor, step: int, noise_level: float, seeds: list[int]
) -> StepResult:
    noise = torch.stack([noise_for((seed, "sde", step), current.shape[1:]) for seed in seeds]).to(current.device)
    return flow_sde_step(
        current,
        velocity,
        sigmas[step].item(),
        sigmas[step + 1].item(),
        noise_level,
        noise=noise,
        sigma_max=sigmas[1].item(),
    )
