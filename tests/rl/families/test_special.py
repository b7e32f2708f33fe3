"""What is special to one family, against a direct call of its transformer or against a known answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL.Image import Image
from torch import Tensor

from gnomon.errors import UserError
from gnomon.records import Case
from rl.conditioning import Conditioning
from rl.generator import DiffusersGenerator
from rl.lora import add_lora, block_linears, unused_linears

Loader = Callable[[str, dict[str, Any]], DiffusersGenerator]


@pytest.fixture
def load(family_folder: Callable[[str], Path], family_module: Callable[[str], Any]) -> Loader:
    """Return a function that loads a family's generator with further `pipeline_kwargs`."""

    def generator(name: str, kwargs: dict[str, Any]) -> DiffusersGenerator:
        settings = family_module(name).SETTINGS
        kwargs = {**settings.get("pipeline_kwargs", {}), **kwargs}
        return DiffusersGenerator(**{"model": str(family_folder(name)), **settings, "pipeline_kwargs": kwargs})

    return generator


def start(
    generator: DiffusersGenerator, case: Case, references: list[Image]
) -> tuple[Conditioning, dict[str, Any], Tensor]:
    """Return conditioning, inputs of the loop and latents of one case."""
    conditioning = generator.condition([case], [references])
    return conditioning, conditioning.batch("loop"), generator.initial_latents(conditioning, [1])


@torch.no_grad()
def test_z_image_is_asked_by_time_that_runs_to_1_and_its_answer_points_the_other_way(
    load: Loader, cases: list[Case]
) -> None:
    generator = load("z_image", {"guidance_scale": 1.0})
    conditioning, state, latents = start(generator, cases[0], [])
    cleanness = 1 - conditioning.sigmas[1]
    towards_data = generator.transformer([latents[0][:, None]], cleanness[None], state["prompt_embeds"])[0][0]
    velocity = generator.velocity(conditioning, latents, 1)
    torch.testing.assert_close(velocity[0], -towards_data[:, 0], atol=1e-5, rtol=0)
    assert velocity.abs().max() > 1e-2


@torch.no_grad()
def test_stable_diffusion_3_is_guided_away_from_a_blank_prompt_without_being_told_so(
    load: Loader, cases: list[Case]
) -> None:
    generator = load("sd3", {"guidance_scale": 7.0})
    conditioning, state, latents = start(generator, cases[0], [])

    def ask(prefix: str) -> Tensor:
        prediction: Tensor = generator.transformer(
            hidden_states=latents,
            timestep=1000 * conditioning.sigmas[1:2],
            encoder_hidden_states=state[f"{prefix}prompt_embeds"],
            pooled_projections=state[f"{prefix}pooled_prompt_embeds"],
            return_dict=False,
        )[0]
        return prediction

    prompted, blank = ask(""), ask("negative_")
    expected = blank + 7 * (prompted - blank)
    torch.testing.assert_close(generator.velocity(conditioning, latents, 1), expected, atol=1e-4, rtol=0)
    assert (expected - prompted).abs().max() > 1e-2


@pytest.mark.parametrize(("name", "num_references"), [("qwen_image", 0), ("qwen_image_edit", 1)])
@torch.no_grad()
def test_guidance_turns_a_velocity_of_qwen_image_and_keeps_its_length(
    name: str, num_references: int, load: Loader, cases: list[Case], pictures: list[Image]
) -> None:
    velocities = []
    for scale in (1.0, 4.0):
        generator = load(name, {"guidance_scale": scale})
        conditioning, _, latents = start(generator, cases[0], pictures[:num_references])
        velocities.append(generator.velocity(conditioning, latents, 1))
    off, on = velocities
    torch.testing.assert_close(on.norm(dim=-1), off.norm(dim=-1), atol=1e-5, rtol=1e-5)
    assert (on - off).abs().max() > 1e-4


@pytest.mark.parametrize("name", ["qwen_image", "sd3"])
def test_layers_without_a_path_to_the_velocity_are_all_known(name: str, load: Loader, cases: list[Case]) -> None:
    generator = load(name, {"guidance_scale": 1.0})
    conditioning, _, latents = start(generator, cases[0], [])
    generator.transformer.requires_grad_(True)
    generator.velocity(conditioning, latents, 1).square().mean().backward()
    weights = {
        name: generator.transformer.get_parameter(f"{name}.weight") for name in block_linears(generator.transformer)
    }
    dead = {name for name, weight in weights.items() if weight.grad is None or not weight.grad.any()}
    assert dead == unused_linears(generator.transformer) != set()


def test_targets_that_mean_only_layers_without_a_path_to_the_velocity_are_refused(load: Loader) -> None:
    generator = load("qwen_image", {})
    with pytest.raises(UserError, match=r"LoRA targets .*none of transformer.*to_add_out has a path"):
        add_lora(generator.transformer, rank=2, alpha=2, targets=["transformer_blocks.1.attn.to_add_out"])
    names = add_lora(generator.transformer, rank=2, alpha=2, targets=["to_add_out"])
    assert {name.split(".lora_")[0] for name in names} == {"transformer_blocks.0.attn.to_add_out"}


def test_pictures_with_opacity_are_handed_out_on_white(load: Loader, cases: list[Case], pictures: list[Image]) -> None:
    generator = load("qwen_image_21", {})
    conditioning, _, latents = start(generator, cases[0], pictures[:1])
    pixels = generator.decode_pixels(conditioning, latents)[0]
    assert pixels.shape == (64, 64, 4)
    (picture,) = generator.decode(conditioning, latents)
    assert picture.mode == "RGB"
    colours, opacity = pixels[..., :3], pixels[..., 3:]
    expected = 255 * (colours * opacity + 1 - opacity)
    assert np.abs(np.asarray(picture) - expected).max() <= 2
    assert np.abs(255 * colours - expected).max() > 10


def test_the_number_of_steps_is_that_of_a_schedule_that_comes_with_the_checkpoint_or_is_given(
    load: Loader, family_folder: Callable[[str], Path], cases: list[Case]
) -> None:
    generator = load("qwen_image_21_turbo", {})
    assert generator.num_inference_steps == 3
    assert len(generator.condition(cases[:1], [[]]).sigmas) == 4
    given = load("qwen_image_21_turbo", {"sigmas": [1.0, 0.5]})
    assert given.num_inference_steps == 2
    assert len(given.condition(cases[:1], [[]]).sigmas) == 3
    with pytest.raises(UserError, match="num_inference_steps 3"):
        DiffusersGenerator(str(family_folder("qwen_image_21_turbo")), num_inference_steps=8)
