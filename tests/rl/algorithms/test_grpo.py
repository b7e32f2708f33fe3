"""Flow-GRPO and GRPO-Guard on a tiny editor: the first step, the KL, and settings out of range."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from PIL.Image import Image

from gnomon.errors import UserError
from gnomon.records import Case, Text
from rl.algorithms import FlowGRPO, GRPOGuard, Samples
from rl.generator import DiffusersGenerator
from rl.policy import Policy
from rl.rollouts import sample_group_trajectories
from rl.samplers import StochasticSampler
from rl.settings import LoraSettings

SAMPLERS = [StochasticSampler("flow_sde", 0.9), StochasticSampler("dance_sde", 0.3), StochasticSampler("cps", 0.8)]
CLIP: dict[str, Any] = {"clip_low": 0.5, "clip_high": 0.5}
WINDOW = range(1, 3)


@pytest.fixture
def policy(generator_settings: dict[str, Any]) -> Policy:
    policy = Policy(DiffusersGenerator(**generator_settings), LoraSettings(rank=4, alpha=8))
    shake(policy, 0)
    return policy


def shake(policy: Policy, seed: int) -> None:
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.trained.values():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=noise))


def samples(policy: Policy, pictures: list[Image], sampler: StochasticSampler) -> Samples:
    cases = [Case(id=name, benchmark="toy", task="x", instruction=Text(en=f"make {name} red")) for name in "ab"]
    conditioning = policy.generator.condition(cases, [pictures[:1], pictures[:1]]).expand(2)
    trajectories = sample_group_trajectories(policy.generator, conditioning, [1, 2, 3, 4], WINDOW, sampler)
    advantages = torch.tensor([1.0, -1.0, 0.5, -0.5])
    return Samples(trajectories, advantages, torch.ones(4, dtype=torch.bool), seed=0, iteration=0)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: sampler.kind)
@pytest.mark.parametrize("kind", [FlowGRPO, GRPOGuard])
def test_the_first_step_has_a_ratio_of_exactly_one_no_loss_and_a_gradient(
    kind: type[FlowGRPO], sampler: StochasticSampler, policy: Policy, pictures: list[Image]
) -> None:
    algorithm = kind(**CLIP)
    with torch.no_grad():
        batches = algorithm.micro_batches(policy, samples(policy, pictures, sampler), 2)
    assert [(batch.transitions.step, len(batch.advantages)) for batch in batches] == [(1, 2), (2, 2), (1, 2), (2, 2)]
    outputs = [algorithm.loss(policy, batch, True) for batch in batches]
    assert [output.metrics["ratio_deviation"].item() for output in outputs] == [0.0] * 4
    # The rollout was sampled four at a time and is replayed in twos: rounding is all that may differ.
    assert max(output.metrics["log_prob_gap"].item() for output in outputs) < 1e-6
    loss = torch.stack([output.loss for output in outputs]).sum()
    assert loss.item() == 0.0
    gradients = torch.autograd.grad(loss, list(policy.trained.values()))
    assert all(bool((gradient != 0).any()) for gradient in gradients)

    shake(policy, 1)
    assert algorithm.loss(policy, batches[0], False).metrics["ratio_deviation"] > 0
    with pytest.raises(UserError, match="ratio_tolerance"):
        algorithm.loss(policy, batches[0], True)


def test_the_guarded_loss_of_a_step_is_divided_by_its_length(policy: Policy, pictures: list[Image]) -> None:
    algorithm = GRPOGuard(**CLIP)
    with torch.no_grad():
        batches = algorithm.micro_batches(policy, samples(policy, pictures, SAMPLERS[0]), 4)
    shake(policy, 1)
    for batch in batches:
        step = batch.transitions.step
        before, after = batch.transitions.conditioning.sigmas[step : step + 2]
        output = algorithm.loss(policy, replace(batch, advantages=torch.ones(4)), False)
        assert output.metrics["ratio_deviation"] > 0
        torch.testing.assert_close(output.loss, -output.metrics["ratio_mean"] / (before - after))


@pytest.mark.parametrize("form", ["velocity", "exact", "mean_space"])
def test_the_kl_counts_by_its_form_and_weight(form: Any, policy: Policy, pictures: list[Image]) -> None:
    weighted, free = FlowGRPO(**CLIP, kl_weight=0.5, kl_form=form), FlowGRPO(**CLIP)
    with torch.no_grad():
        batch = weighted.micro_batches(policy, samples(policy, pictures, SAMPLERS[0]), 4)[0]
        reference = policy.velocity_of(None, batch.transitions.conditioning, batch.transitions.latents, 1)
        velocity = policy.generator.velocity(batch.transitions.conditioning, batch.transitions.latents, 1)
    sigma, sigma_next = (batch.transitions.conditioning.sigmas[step].item() for step in (1, 2))
    g, delta = 0.9 * (sigma / (1 - sigma)) ** 0.5, sigma - sigma_next
    exact = delta / 2 * (1 / g + g * (1 - sigma) / (2 * sigma)) ** 2
    factor = {"velocity": 1.0, "exact": exact, "mean_space": delta * exact}[form]
    output = weighted.loss(policy, batch, True)
    expected = factor * ((velocity - reference) ** 2).mean()
    torch.testing.assert_close(output.metrics["kl"], expected, rtol=1e-4, atol=0)
    torch.testing.assert_close(output.loss, free.loss(policy, batch, True).loss + 0.5 * output.metrics["kl"])
    still = replace(batch, advantages=torch.zeros(4))
    gradients = torch.autograd.grad(weighted.loss(policy, still, True).loss, list(policy.trained.values()))
    assert any(bool((gradient != 0).any()) for gradient in gradients)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clip_low": 0.0}, "clip_low"),
        ({"clip_high": -1.0}, "clip_high"),
        ({"kl_weight": -0.1}, "kl_weight"),
        ({"kl_weight": float("inf")}, "kl_weight"),
        ({"ratio_tolerance": float("nan")}, "ratio_tolerance"),
        ({"kl_form": "l2"}, "kl_form velocity, exact, mean_space, got 'l2'"),
    ],
)
def test_settings_out_of_their_range_are_refused(change: dict[str, Any], message: str) -> None:
    for kind in (FlowGRPO, GRPOGuard):
        with pytest.raises(UserError, match=message):
            kind(**change)
