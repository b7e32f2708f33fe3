"""The first ratio of policies is exactly 1, in every family: rollout and training are the same function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import torch
from PIL.Image import Image

from gnomon.records import Case
from rl.generator import DiffusersGenerator
from rl.samplers import SDEKind, StepSigmas, StochasticSampler, noise_for

SAMPLERS = [StochasticSampler(kind, 0.7) for kind in get_args(SDEKind)]
STEPS = (0, 1)  # the first, where sigma is 1, and one behind it


def test_a_replayed_step_has_a_ratio_of_exactly_one_with_every_sampler(
    family: Any, guidance: str, num_references: int, cases: list[Case], pictures: list[Image],
    family_generator: Callable[[Any, str], DiffusersGenerator],
) -> None:  # fmt: skip
    generator = family_generator(family, guidance)
    conditioning = generator.condition(cases, [pictures[:num_references]] * 2).expand(2)
    latents = generator.initial_latents(conditioning, [1, 2, 3, 4])
    rows = [0, 2, 3]  # a micro-batch that cuts a group
    part = conditioning.select(rows)
    for step in STEPS:
        noise = torch.stack([noise_for((seed, step), latents.shape[1:]) for seed in range(4)])
        sigmas = StepSigmas.of(conditioning.sigmas, step)
        with torch.no_grad():
            rolled = generator.velocity(conditioning, latents, step)
            before = generator.velocity(part, latents[rows], step)
        # A trainer sets training mode and asks for gradients.
        generator.transformer.train().requires_grad_(True)
        after = generator.velocity(part, latents[rows], step)
        generator.transformer.eval().requires_grad_(False)
        for sampler in SAMPLERS:
            rollout = sampler.step(latents, rolled, sigmas, noise=noise)
            stored = rollout.sample_next[rows]
            old, new = (
                sampler.step(latents[rows], velocity, sigmas, sample_next=stored) for velocity in (before, after)
            )
            assert new.log_prob.requires_grad
            assert torch.equal(torch.exp(new.log_prob.detach() - old.log_prob), torch.ones(len(rows)))
            # Where the batch is another one, rounding is all that may differ.
            assert (rollout.log_prob[rows] - old.log_prob).abs().max() < 1e-5
        latents = rollout.sample_next


def test_the_ratio_is_exactly_one_in_16_bit_too(
    family: Any, guidance: str, cases: list[Case], pictures: list[Image]
) -> None:
    generator = DiffusersGenerator(**family.arguments(guidance), dtype="bfloat16")
    conditioning = generator.condition(cases, [pictures[: family.references[-1]]] * 2)
    latents = generator.initial_latents(conditioning, [1, 2])
    sigmas = StepSigmas.of(conditioning.sigmas, 0)
    noise = torch.stack([noise_for((seed,), latents.shape[1:]) for seed in range(2)])
    with torch.no_grad():
        before = generator.velocity(conditioning, latents, 0)
    generator.transformer.requires_grad_(True)
    after = generator.velocity(conditioning, latents, 0)
    for sampler in SAMPLERS:
        rollout = sampler.step(latents, before, sigmas, noise=noise)
        assert rollout.sample_next.dtype == torch.float32
        new = sampler.step(latents, after, sigmas, sample_next=rollout.sample_next)
        assert torch.equal(torch.exp(new.log_prob.detach() - rollout.log_prob), torch.ones(2))
