"""The policy loss and the KL against hand derivations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from rl.losses import grpo_loss, kl_velocity
from rl.samplers import flow_sde_step, noise_for

CLIP: dict[str, Any] = {"clip_low": 0.1, "clip_high": 0.2}


def test_the_first_on_policy_step_has_zero_loss_and_a_gradient() -> None:
    log_prob = torch.tensor([0.3, -0.2, 0.1], requires_grad=True)
    advantages = torch.tensor([1.0, 0.5, -1.5])
    output = grpo_loss(log_prob, log_prob.detach().clone(), advantages, **CLIP)
    assert output.loss.item() == 0.0
    output.loss.backward()
    assert log_prob.grad is not None
    torch.testing.assert_close(log_prob.grad, -advantages / 3)
    assert output.metrics["ratio_mean"].item() == 1.0
    assert output.metrics["ratio_deviation"].item() == 0.0
    assert output.metrics["approx_kl"].item() == 0.0


def test_clipping_stops_the_gradient_on_the_side_that_already_moved_enough() -> None:
    ratios = torch.tensor([1.5, 0.5, 1.5, 0.5])
    log_prob = ratios.log().requires_grad_()
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0])
    output = grpo_loss(log_prob, torch.zeros(4), advantages, **CLIP)
    expected = (-1.2 - 0.5 + 1.5 + 0.9) / 4
    assert output.loss.item() == pytest.approx(expected)
    output.loss.backward()
    assert log_prob.grad is not None
    assert (log_prob.grad != 0).tolist() == [False, True, True, False]
    assert output.metrics["clip_fraction"].item() == 0.5
    assert output.metrics["ratio_deviation"].item() == pytest.approx(0.5)


def test_a_masked_sample_has_no_gradient_and_changes_no_metric() -> None:
    log_prob = torch.tensor([0.1, 5.0], requires_grad=True)
    output = grpo_loss(log_prob, torch.zeros(2), torch.tensor([1.0, 0.0]), **CLIP, mask=torch.tensor([True, False]))
    output.loss.backward()
    assert log_prob.grad is not None
    assert log_prob.grad[1].item() == 0.0
    assert output.metrics["ratio_mean"].item() == pytest.approx(torch.tensor(0.1).exp().item())
    assert output.metrics["ratio_deviation"].item() < 0.2


@given(split=st.integers(1, 5), masked=st.sets(st.integers(0, 5), max_size=4))
def test_two_micro_batches_weighted_by_size_equal_the_whole(split: int, masked: set[int]) -> None:
    log_prob, old, advantages = (noise_for((name,), (6,)) * 0.1 for name in ("new", "old", "advantage"))
    mask = torch.tensor([row not in masked for row in range(6)])
    whole = grpo_loss(log_prob, old, advantages, **CLIP, mask=mask).loss
    parts = [
        grpo_loss(log_prob[rows], old[rows], advantages[rows], **CLIP, mask=mask[rows]).loss * len(log_prob[rows]) / 6
        for rows in (slice(0, split), slice(split, 6))
    ]
    torch.testing.assert_close(whole, parts[0] + parts[1])


def test_shapes_that_would_broadcast_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        grpo_loss(torch.zeros(3), torch.zeros(3, 1), torch.zeros(3), **CLIP)
    with pytest.raises(ValueError, match="positive"):
        grpo_loss(torch.zeros(3), torch.zeros(3), torch.zeros(3), clip_low=0.0, clip_high=0.1)


@pytest.mark.parametrize(("sigma", "sigma_next"), [(1.0, 0.9), (0.9, 0.6), (0.4, 0.1)])
def test_kl_in_velocities_is_the_kl_of_the_two_gaussian_steps(sigma: float, sigma_next: float) -> None:
    x, z = noise_for(("x",), (2, 4, 3)), noise_for(("z",), (2, 4, 3))
    policy, reference = noise_for(("v",), (2, 4, 3)), noise_for(("r",), (2, 4, 3))
    ours = kl_velocity(policy, reference, sigma, sigma_next, 0.9, sigma_max=0.9)
    steps = [flow_sde_step(x, v, sigma, sigma_next, 0.9, noise=z, sigma_max=0.9) for v in (policy, reference)]
    first, second = (Normal(step.mean, step.std[:, None, None]) for step in steps)
    torch.testing.assert_close(ours, kl_divergence(first, second).mean(dim=(1, 2)), rtol=1e-4, atol=1e-6)


def test_kl_has_a_gradient_towards_the_reference_and_none_into_it() -> None:
    policy, reference = torch.ones(1, 2, 2, requires_grad=True), torch.zeros(1, 2, 2, requires_grad=True)
    kl_velocity(policy, reference, 0.9, 0.6, 0.9, sigma_max=0.9).sum().backward()
    assert policy.grad is not None
    assert bool((policy.grad > 0).all())
    assert reference.grad is None
    assert kl_velocity(policy, policy, 0.9, 0.6, 0.9, sigma_max=0.9).item() == 0.0
