"""DiffusionNFT on a tiny editor: three policies, noised samples, and how the sampling policy follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from PIL.Image import Image

from gnomon.errors import UserError
from gnomon.records import Case, Text
from rl.algorithms import DiffusionNFT, Samples
from rl.generator import DiffusersGenerator
from rl.policy import Policy
from rl.rollouts import sample_group_trajectories
from rl.settings import LoraSettings


@pytest.fixture
def policy(generator_settings: dict[str, Any]) -> Policy:
    policy = Policy(DiffusersGenerator(**generator_settings), LoraSettings(rank=4, alpha=8), copies=("old",))
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in policy.trained.values():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=noise))
    policy.move_copy("old", 0.0)
    return policy


@pytest.fixture
def samples(policy: Policy, pictures: list[Image]) -> Samples:
    case = Case(id="a", benchmark="toy", task="x", instruction=Text(en="make it red"))
    conditioning = policy.generator.condition([case], [pictures[:1]]).expand(4)
    trajectories = sample_group_trajectories(policy.generator, conditioning, [1, 2, 3, 4], range(0), None)
    advantages = torch.tensor([1.0, -1.0, 0.5, 0.0])
    return Samples(trajectories, advantages, torch.ones(4, dtype=torch.bool), seed=0, iteration=0)


def test_while_old_and_new_are_equal_the_gradient_is_that_of_the_advantages(policy: Policy, samples: Samples) -> None:
    algorithm = DiffusionNFT(kl_weight=0.0)
    batches = algorithm.micro_batches(policy, samples, 2)
    assert len(batches) == 2 * 4  # two slices of samples, 4 of 5 steps
    for batch in batches[::3]:
        output = algorithm.loss(policy, batch, True)
        assert output.metrics["old_deviation"] == 0
        assert output.metrics["positive_loss"] == output.metrics["negative_loss"]
        gradients = torch.autograd.grad(output.loss, list(policy.trained.values()))
        assert all(bool((gradient != 0).any()) for gradient in gradients)
    still = replace(batches[0], advantages=torch.zeros(2))
    gradients = torch.autograd.grad(algorithm.loss(policy, still, True).loss, list(policy.trained.values()))
    assert max(gradient.abs().max().item() for gradient in gradients) < 1e-6


def test_the_kl_is_to_the_model_without_an_adapter_and_has_a_gradient(policy: Policy, samples: Samples) -> None:
    weighted, free = DiffusionNFT(kl_weight=0.5), DiffusionNFT(kl_weight=0.0)
    batch = weighted.micro_batches(policy, samples, 4)[0]
    noised, _ = batch.noised()
    with torch.no_grad():
        velocity = policy.generator.velocity(batch.conditioning, noised, batch.step)
    reference = policy.velocity_of(None, batch.conditioning, noised, batch.step)
    output = weighted.loss(policy, batch, True)
    torch.testing.assert_close(output.metrics["kl"], ((velocity - reference) ** 2).mean())
    torch.testing.assert_close(output.loss, free.loss(policy, batch, True).loss + 0.5 * output.metrics["kl"])
    still = replace(batch, advantages=torch.zeros(4))
    gradients = torch.autograd.grad(weighted.loss(policy, still, True).loss, list(policy.trained.values()))
    assert any(gradient.abs().max() > 1e-5 for gradient in gradients)


def test_a_sample_is_noised_by_its_own_noise_wherever_it_stands(policy: Policy, samples: Samples) -> None:
    algorithm = DiffusionNFT()
    together, alone = (algorithm.micro_batches(policy, samples, size) for size in (4, 1))
    steps = algorithm.trained_steps(5, 0, 0)
    noised, sigma = together[1].noised()
    assert together[1].step == steps[1]
    assert sigma == samples.trajectories.conditioning.sigmas[steps[1]].item()
    assert torch.equal(noised[2], alone[2 * 4 + 1].noised()[0][0])
    noise = (noised - (1 - sigma) * together[1].clean) / sigma
    assert abs(noise.std().item() - 1) < 0.1
    assert torch.equal(together[1].clean, samples.trajectories.latents[:, -1])


def test_the_trained_steps_change_from_iteration_to_iteration_and_are_a_share() -> None:
    algorithm = DiffusionNFT(timestep_fraction=0.5)
    drawn = [algorithm.trained_steps(10, 0, iteration) for iteration in range(20)]
    assert all(len(set(steps)) == len(steps) == 5 for steps in drawn)
    assert {step for steps in drawn for step in steps} == set(range(10))
    assert algorithm.trained_steps(10, 0, 3) == drawn[3]
    assert [DiffusionNFT().num_trained_steps(3, steps) for steps in (1, 6, 10)] == [1, 5, 9]


def test_eta_follows_the_published_schedules() -> None:
    early = DiffusionNFT()
    assert [early.eta(steps) for steps in (0, 100, 500, 900)] == pytest.approx([0.0, 0.1, 0.5, 0.5])
    late = DiffusionNFT(eta_start=75, eta_rate=0.0075, eta_max=0.999)
    assert [late.eta(steps) for steps in (0, 75, 175, 1000)] == pytest.approx([0.0, 0.0, 0.75, 0.999])


def test_after_an_iteration_the_sampling_policy_follows_by_eta(policy: Policy) -> None:
    before = policy.copies_state()["old"]
    with torch.no_grad():
        for parameter in policy.trained.values():
            parameter.add_(1.0)
    assert DiffusionNFT(eta_rate=0.1).after_iteration(policy, 3) == {"eta": pytest.approx(0.3)}
    for name, value in policy.copies["old"].items():
        torch.testing.assert_close(value.detach(), before[name] + 0.7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beta": 0.0}, "beta"),
        ({"advantage_max": -1.0}, "advantage_max"),
        ({"kl_weight": -1.0}, "kl_weight"),
        ({"timestep_fraction": 0.0}, "timestep_fraction"),
        ({"eta_max": 1.0}, "eta_max"),
        ({"eta_start": -1}, "eta_start"),
    ],
)
def test_settings_out_of_their_range_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DiffusionNFT(**change)
