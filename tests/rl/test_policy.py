"""One generator with a trained adapter, copies of it, and the model beneath."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL.Image import Image
from safetensors.torch import load_file
from torch import Tensor

from gnomon.errors import UserError
from gnomon.records import Case, Text
from rl.conditioning import Conditioning
from rl.generator import DiffusersGenerator
from rl.lora import save_lora
from rl.policy import TRAINED, Policy
from rl.settings import LoraSettings

CASE = Case(id="a", benchmark="toy", task="recolour", instruction=Text(en="make it red"))


@pytest.fixture
def policy(generator_settings: dict[str, Any]) -> Policy:
    return Policy(DiffusersGenerator(**generator_settings), LoraSettings(rank=4, alpha=8), copies=("old",), seed=3)


@pytest.fixture
def conditioning(policy: Policy, pictures: list[Image]) -> Conditioning:
    return policy.generator.condition([CASE], [pictures[:1]])


def shake(weights: dict[str, torch.nn.Parameter], seed: int) -> None:
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in weights.values():
            parameter.normal_(std=0.3, generator=noise)


def test_a_copy_starts_equal_frozen_and_without_touching_the_global_generator(
    generator_settings: dict[str, Any],
) -> None:
    before = torch.get_rng_state()
    policy = Policy(DiffusersGenerator(**generator_settings), LoraSettings(rank=4, alpha=8), copies=("old",))
    assert torch.equal(before, torch.get_rng_state())
    assert policy.trained.keys() == policy.copies["old"].keys()
    for name, parameter in policy.trained.items():
        own = policy.copies["old"][name]
        assert torch.equal(own, parameter)
        assert own.data_ptr() != parameter.data_ptr()
        assert (parameter.requires_grad, own.requires_grad) == (True, False)
        assert own.dtype == torch.float32


def test_three_sets_of_weights_make_three_velocities(policy: Policy, conditioning: Conditioning) -> None:
    latents = policy.generator.initial_latents(conditioning, [1])
    beneath = policy.velocity_of(None, conditioning, latents, 1)
    assert torch.equal(policy.velocity_of("old", conditioning, latents, 1), beneath)  # B is 0 in both
    shake(policy.trained, 1)
    shake(policy.copies["old"], 2)
    trained, old = (policy.velocity_of(name, conditioning, latents, 1) for name in (TRAINED, "old"))
    assert torch.equal(policy.velocity_of(None, conditioning, latents, 1), beneath)
    for first, second in ((trained, old), (trained, beneath), (old, beneath)):
        assert not torch.equal(first, second)

    with policy.using("old"):
        assert torch.equal(policy.generator.velocity(conditioning, latents, 1).detach(), old)
    velocity = policy.generator.velocity(conditioning, latents, 1)
    assert torch.equal(velocity.detach(), trained)
    gradients = torch.autograd.grad(velocity.sum(), list(policy.trained.values()))
    assert all(bool((gradient != 0).any()) for gradient in gradients)
    assert not any(parameter.requires_grad for parameter in policy.copies["old"].values())


def test_an_error_inside_leaves_the_trained_adapter_in_place(policy: Policy, conditioning: Conditioning) -> None:
    shake(policy.trained, 1)
    latents = policy.generator.initial_latents(conditioning, [1])
    trained = policy.generator.velocity(conditioning, latents, 1)
    for adapter in ("old", None):
        with pytest.raises(RuntimeError, match="inside"), policy.using(adapter):
            raise RuntimeError("inside")
        assert torch.equal(policy.generator.velocity(conditioning, latents, 1), trained)
        assert all(parameter.requires_grad for parameter in policy.trained.values())


def test_a_copy_moves_towards_the_trained_weights_by_its_share(policy: Policy) -> None:
    shake(policy.trained, 1)
    shake(policy.copies["old"], 2)
    before = policy.copies_state()["old"]
    policy.move_copy("old", 0.25)
    for name, parameter in policy.copies["old"].items():
        torch.testing.assert_close(parameter.detach(), 0.25 * before[name] + 0.75 * policy.trained[name].detach())
    policy.move_copy("old", 0.0)
    assert all(torch.equal(policy.copies["old"][name], value) for name, value in policy.trained.items())


def test_the_state_of_copies_is_whole_and_that_of_other_copies_refused(policy: Policy) -> None:
    shake(policy.copies["old"], 2)
    state: dict[str, dict[str, Tensor]] = policy.copies_state()
    shake(policy.copies["old"], 3)
    policy.load_copies_state(state)
    assert all(torch.equal(policy.copies["old"][name], value) for name, value in state["old"].items())
    with pytest.raises(UserError, match=re.escape("copies of the adapter: old, got none")):
        policy.load_copies_state({})


def test_dropout_is_off_so_that_training_mode_changes_nothing(
    generator_settings: dict[str, Any], pictures: list[Image]
) -> None:
    generator = DiffusersGenerator(**generator_settings)
    layers = [layer for layer in generator.transformer.modules() if isinstance(layer, torch.nn.Dropout)]
    assert layers
    for layer in layers:
        layer.p = 0.5
    conditioning = generator.condition([CASE], [pictures[:1]])
    latents = generator.initial_latents(conditioning, [1])
    policy = Policy(generator, LoraSettings(rank=4, alpha=8))
    shake(policy.trained, 1)
    generator.transformer.train()
    in_training = generator.velocity(conditioning, latents, 1)
    assert torch.equal(generator.velocity(conditioning, latents, 1), in_training)
    generator.transformer.eval()
    assert torch.equal(generator.velocity(conditioning, latents, 1), in_training)


@pytest.mark.parametrize("in_use", [TRAINED, "old"])
def test_what_is_saved_is_the_trained_adapter_and_no_copy(policy: Policy, in_use: str, tmp_path: Path) -> None:
    shake(policy.trained, 1)
    shake(policy.copies["old"], 2)
    with policy.using(in_use):
        saved = load_file(save_lora(policy.generator.pipeline, tmp_path))
    expected = {f"transformer.{name.replace('.default.', '.')}": value for name, value in policy.trained.items()}
    assert saved.keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in saved.items())


def test_a_model_without_gradient_checkpointing_is_refused_by_name(policy: Policy) -> None:
    policy.recompute_activations()
    assert policy.generator.transformer.is_gradient_checkpointing
    setattr(policy.generator.transformer, "_supports_gradient_checkpointing", False)  # noqa: B010
    with pytest.raises(UserError, match="Flux2Transformer2DModel has no gradient checkpointing"):
        policy.recompute_activations()
