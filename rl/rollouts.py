"""Rollouts of the policy, and their replay: one function for old log-probabilities and for training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from PIL.Image import Image
from torch import Tensor

from gnomon.hashing import stable_seed
from gnomon.records import Case
from rl.conditioning import Conditioning
from rl.generator import DiffusersGenerator
from rl.samplers import StepResult, StepSigmas, StochasticSampler, noise_for, ode_step


@dataclass(frozen=True, eq=False)
class Transitions:
    """One stochastic step of several samples: what a replay needs.

    `latents` and `latents_next` are float32 `[batch, tokens, channels]`; `step` is the index into the schedule.
    """

    conditioning: Conditioning
    latents: Tensor
    latents_next: Tensor
    step: int
    sampler: StochasticSampler

    @property
    def sigmas(self) -> StepSigmas:
        """Where the step lies in the schedule."""
        return StepSigmas.of(self.conditioning.sigmas, self.step)


@dataclass(frozen=True, eq=False)
class Trajectories:
    """What a rollout left: latents around the stochastic steps in float32, and the pictures.

    Attributes:
        conditioning: one state per sample.
        seeds: one per sample; with window and sampler they make the sample again.
        window: the stochastic steps; empty for a rollout by the ODE alone.
        sampler: of those steps; None without any.
        latents: at the borders of the window's steps, `[batch, len(window) + 1, tokens, channels]`. An empty window has
            one border, the end of the walk: the clean latents.
        log_probs: of the steps as they were drawn, float32 `[batch, len(window)]`. Training takes those of a replay;
            the difference shows what another batch shape or kernel makes of the same step.
        images: the decoded pictures.
    """

    conditioning: Conditioning
    seeds: list[int]
    window: range
    sampler: StochasticSampler | None
    latents: Tensor
    log_probs: Tensor
    images: list[Image]

    def transitions(self, rows: Sequence[int], step: int) -> Transitions:
        """Cut out one step of the window for some of the samples."""
        assert self.sampler is not None
        place = self.window.index(step)
        chosen = list(rows)
        return Transitions(
            self.conditioning.select(chosen),
            self.latents[chosen, place],
            self.latents[chosen, place + 1],
            step,
            self.sampler,
        )


@dataclass(frozen=True, eq=False)
class Replay:
    """A replayed step, with gradient if enabled.

    `log_prob` and `std` (of the transition) are `[batch]`; `mean` and the `velocity` it came from have the shape of the
    latents.
    """

    log_prob: Tensor
    velocity: Tensor
    mean: Tensor
    std: Tensor


def replay_log_prob(generator: DiffusersGenerator, transitions: Transitions) -> Replay:
    """Ask the current policy how likely a stored step is.

    Old log-probabilities and those of training both come from here, on the same rows: what depends on the shape
    of a batch (16-bit products, attention kernels) then cancels, and the first ratio is exactly 1.
    """
    velocity = generator.velocity(transitions.conditioning, transitions.latents, transitions.step)
    step = transitions.sampler.step(
        transitions.latents, velocity, transitions.sigmas, sample_next=transitions.latents_next
    )
    return Replay(step.log_prob, velocity, step.mean, step.std)


def candidate_seeds(seed: int, iteration: int, cases: Sequence[Case], num_candidates: int) -> list[int]:
    """Give every candidate its own seed, members of a case side by side; a function of names, not of any order."""
    return [
        stable_seed(seed, "candidate", iteration, case.id, member) for case in cases for member in range(num_candidates)
    ]


def condition_rows(
    generator: DiffusersGenerator, cases: Sequence[Case], references: Sequence[list[Image]]
) -> Conditioning:
    """Condition rows of which several may belong to one case; its texts and pictures are encoded once."""
    first = {case.id: place for place, case in reversed(list(enumerate(cases)))}
    places = sorted(first.values())
    unique = generator.condition([cases[place] for place in places], [references[place] for place in places])
    number = {cases[place].id: position for position, place in enumerate(places)}
    return unique.select([number[case.id] for case in cases])


@torch.no_grad()
def sample_group_trajectories(
    generator: DiffusersGenerator,
    conditioning: Conditioning,
    seeds: Sequence[int],
    window: range,
    sampler: StochasticSampler | None,
    *,
    same_latent: bool = False,
    on_images: Callable[[list[int], list[Image]], None] | None = None,
) -> Trajectories:
    """Sample candidates: stochastic steps inside the window, ODE steps outside it (MixGRPO, arXiv 2507.21802).

    A candidate depends on its own seed only, not on the batch that it was sampled in (up to rounding).

    Args:
        generator: the policy.
        conditioning: one row per candidate, the members of a group side by side (`Conditioning.expand`).
        seeds: one per candidate.
        window: the stochastic steps; they may not hold the last step. Empty, if and only if there is no sampler: the
            ODE then makes all steps.
        sampler: of the steps in the window.
        same_latent: start all candidates of a case from one noise, that of its first seed; by default each has
            its own, which makes them differ in kind and not only in detail.
        on_images: called with rows and their pictures as soon as some are finished, so that they can be judged while
            others are sampled; otherwise all are decoded at the end.

    Raises:
        ValueError: when the window leaves the schedule or holds the last step, or lengths differ.
        UserError: when the cases make pictures of different sizes.
    """
    sigmas = conditioning.sigmas
    _check_window(window, sampler, len(sigmas) - 1)
    initial = generator.initial_latents(conditioning, _initial_seeds(conditioning, seeds, same_latent))
    kept = initial.new_empty(len(seeds), len(window) + 1, *initial.shape[1:])
    log_probs = initial.new_empty(len(seeds), len(window))
    final = torch.empty_like(initial)
    pictures: dict[int, Image] = {}
    for rows in generator.chunks(conditioning):
        part, part_seeds = conditioning.select(rows), [seeds[row] for row in rows]
        current = initial[rows]
        for step in range(len(sigmas) - 1):
            if step == window.start and sampler is not None:
                kept[rows, 0] = current
            velocity = generator.velocity(part, current, step)
            if step in window and sampler is not None:
                drawn = _stochastic_step(current, velocity, sigmas, step, sampler, part_seeds)
                current = drawn.sample_next
                kept[rows, step - window.start + 1] = current
                log_probs[rows, step - window.start] = drawn.log_prob
            else:
                current = ode_step(current, velocity, sigmas[step], sigmas[step + 1])
        final[rows] = current
        if on_images is not None:
            finished = generator.decode(part, current)
            pictures.update(zip(rows, finished, strict=True))
            on_images(rows, finished)
    if sampler is None:
        kept = final[:, None]
    if on_images is None:
        pictures = dict(enumerate(generator.decode(conditioning, final)))
    images = [pictures[row] for row in range(len(seeds))]
    return Trajectories(conditioning, list(seeds), window, sampler, kept, log_probs, images)


def _check_window(window: range, sampler: StochasticSampler | None, num_steps: int) -> None:
    if sampler is None:
        if len(window):
            raise ValueError(f"expected no stochastic steps without a sampler, got {window}")
    elif not len(window) or window.start < 0 or window.stop > num_steps - 1:
        raise ValueError(
            f"expected stochastic steps inside 0..{num_steps - 2} (the last step is never stochastic), got {window}"
        )


def _initial_seeds(conditioning: Conditioning, seeds: Sequence[int], same_latent: bool) -> list[int]:
    if not same_latent:
        return list(seeds)
    first: dict[str, int] = {}
    return [first.setdefault(case, seed) for case, seed in zip(conditioning.case_ids, seeds, strict=True)]


def _stochastic_step(
    current: Tensor, velocity: Tensor, sigmas: Tensor, step: int, sampler: StochasticSampler, seeds: list[int]
) -> StepResult:
    noise = torch.stack([noise_for((seed, "sde", step), current.shape[1:]) for seed in seeds]).to(current.device)
    return sampler.step(current, velocity, StepSigmas.of(sigmas, step), noise=noise)
