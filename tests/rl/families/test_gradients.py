"""Gradients of the velocity reach every tensor of an adapter, through both branches of guidance."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from PIL.Image import Image
from torch import Tensor

from gnomon.records import Case
from rl.generator import DiffusersGenerator
from tests.rl.families.parts import add_trained_lora

STEP = 1e-3


def adapted(family: Any, guidance: str) -> DiffusersGenerator:
    """Return a generator with an adapter whose B is not zero, so that A has gradients too."""
    generator = DiffusersGenerator(**family.arguments(guidance))
    add_trained_lora(generator.transformer, alpha=4, std=0.3)
    return generator


def gradients(generator: DiffusersGenerator, cases: list[Case], references: list[list[Image]]) -> dict[str, Tensor]:
    conditioning = generator.condition(cases, references)
    velocity = generator.velocity(conditioning, generator.initial_latents(conditioning, [1, 2]), 1)
    named = {name: value for name, value in generator.transformer.named_parameters() if value.requires_grad}
    found = torch.autograd.grad(velocity.square().mean(), list(named.values()), materialize_grads=True)
    return dict(zip(named, found, strict=True))


def test_gradients_reach_every_tensor_of_the_adapter(
    family: Any, guidance: str, num_references: int, cases: list[Case], pictures: list[Image]
) -> None:
    found = gradients(adapted(family, guidance), cases, [pictures[:num_references]] * 2)
    assert found
    unreached = family.unreached if num_references == 0 else ()
    expected = {name for name in found if name.startswith(tuple(unreached))}
    assert {name for name, value in found.items() if not bool((value != 0).any())} == expected
    assert len(expected) < len(found)
    assert all(bool(value.isfinite().all()) for value in found.values())


def test_gradients_are_those_of_the_whole_velocity_guidance_included(
    family: Any, guidance: str, cases: list[Case], pictures: list[Image]
) -> None:
    """Against central differences along a random direction: a branch without gradient would be missing."""
    generator = adapted(family, guidance)
    conditioning = generator.condition(cases[:1], [pictures[: family.references[-1]]])
    latents = generator.initial_latents(conditioning, [1])
    noise = torch.Generator().manual_seed(1)
    weight = torch.randn(latents.shape, generator=noise)
    parameters = [value for value in generator.transformer.parameters() if value.requires_grad]
    direction = [torch.randn(value.shape, generator=noise) for value in parameters]
    loss = (weight * generator.velocity(conditioning, latents, 1)).sum()
    found = torch.autograd.grad(loss, parameters, materialize_grads=True)
    expected = sum(float((one * other).sum()) for one, other in zip(found, direction, strict=True))

    def moved(by: float) -> float:
        with torch.no_grad():
            for value, way in zip(parameters, direction, strict=True):
                value.add_(by * way)
            return float((weight * generator.velocity(conditioning, latents, 1)).sum())

    ahead, behind = moved(STEP), moved(-2 * STEP)
    assert (ahead - behind) / (2 * STEP) == pytest.approx(expected, rel=0.05)
