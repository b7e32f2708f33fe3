"""Our loop against the pipelines of diffusers: the same final latents and the same picture from the same seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import ModularPipeline
from PIL.Image import Image
from torch import Tensor

from gnomon.records import Case
from rl.export import stock_inputs, stock_pipeline
from rl.generator import DiffusersGenerator
from rl.loading import has_classic_pipeline

SEED = 7


def run(pipeline: Any, inputs: dict[str, Any]) -> tuple[Tensor, np.ndarray]:
    """Return the latents behind the pipeline's last step, and its pixels `[height, width, 3]` in 0..1."""
    steps: list[Tensor] = []
    step = pipeline.scheduler.step

    def watched(*args: Any, **kwargs: Any) -> Any:
        result = step(*args, **kwargs)
        steps.append(result[0])
        return result

    pipeline.scheduler.step = watched
    if isinstance(pipeline, ModularPipeline):
        images = pipeline(**inputs, output_type="np", output="images")
    else:
        images = pipeline(**inputs, output_type="np").images
    return steps[-1], images[0]


def compare(
    generator: DiffusersGenerator, case: Case, references: list[Image], *, modular: bool
) -> tuple[float, float, float]:
    """Return the largest difference of final latents, of pixels, and the size of the latents."""
    conditioning = generator.condition([case], [references])
    ours = generator.sample(conditioning, generator.initial_latents(conditioning, [SEED]))
    pixels = generator.decode_pixels(conditioning, ours)[0]
    pipeline = stock_pipeline(generator, modular=modular)
    latents, stock = run(pipeline, stock_inputs(pipeline, generator, case, references, SEED))
    if latents.shape != ours.shape or pixels.shape != stock.shape:
        return float("inf"), float("inf"), ours.abs().max().item()
    return (
        (ours - latents).abs().max().item(),
        float(np.abs(pixels - stock).max()),
        ours.abs().max().item(),
    )


def test_our_ode_is_the_stock_modular_pipeline(
    family: Any, guidance: str, num_references: int, cases: list[Case], pictures: list[Image],
    family_generator: Callable[[Any, str], DiffusersGenerator],
) -> None:  # fmt: skip
    generator = family_generator(family, guidance)
    latents, pixels, size = compare(generator, cases[0], pictures[:num_references], modular=True)
    assert latents < 1e-5, f"latents of size {size} differ by {latents}"
    assert pixels < 1e-5


def test_our_ode_is_the_stock_classic_pipeline_where_the_two_agree(
    family: Any, guidance: str, num_references: int, cases: list[Case], pictures: list[Image],
    family_generator: Callable[[Any, str], DiffusersGenerator],
) -> None:  # fmt: skip
    if not has_classic_pipeline(str(family.folder), None):
        pytest.skip("the family has no classic pipeline")
    generator = family_generator(family, guidance)
    latents, pixels, size = compare(generator, cases[0], pictures[:num_references], modular=False)
    reason = family.classic_differs.get(guidance)
    if reason is None:
        assert latents < 1e-5, f"latents of size {size} differ by {latents}"
        assert pixels < 1e-5
    else:
        assert latents > 1e-5, f"they agree now, but {family.name} says: {reason}"


def watch_times(model: torch.nn.Module) -> list[Tensor]:
    """Return the times that a transformer is asked at, as it sees them, from now on."""
    times: list[Tensor] = []

    def look(_module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        time: Tensor = kwargs["t"] if "t" in kwargs else kwargs["timestep"]
        times.append(time.detach().clone())

    model.register_forward_pre_hook(look, with_kwargs=True)
    return times


def test_the_model_is_asked_at_the_times_of_the_stock_pipeline_in_16_bit_too_in_rollout_and_in_replay(
    family: Any, cases: list[Case], pictures: list[Image]
) -> None:
    generator = DiffusersGenerator(**family.arguments("off"), dtype="bfloat16")
    references = pictures[: family.references[-1]]
    pipeline = stock_pipeline(generator, modular=True)
    expected, times = watch_times(pipeline.transformer), watch_times(generator.transformer)
    run(pipeline, stock_inputs(pipeline, generator, cases[0], references, SEED))
    conditioning = generator.condition(cases[:1], [references])
    latents = generator.initial_latents(conditioning, [SEED])
    generator.sample(conditioning, latents)
    assert len(times) == len(expected) == generator.num_inference_steps
    for step in range(generator.num_inference_steps):
        generator.velocity(conditioning, latents, step)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(times, [*expected, *expected], strict=True))
    assert {time.dtype for time in times} == {time.dtype for time in expected}


def test_guidance_changes_the_picture(
    family: Any, cases: list[Case], pictures: list[Image],
    family_generator: Callable[[Any, str], DiffusersGenerator],
) -> None:  # fmt: skip
    if "on" not in family.guidance:
        pytest.skip("the family has no guidance")
    references = pictures[: family.references[-1]]
    latents = []
    for guidance in ("off", "on"):
        generator = family_generator(family, guidance)
        conditioning = generator.condition(cases[:1], [references])
        latents.append(generator.sample(conditioning, generator.initial_latents(conditioning, [SEED])))
    assert (latents[0] - latents[1]).abs().max() > 1e-3
