"""The losses and the KLs against torch.distributions, finite differences and hand derivations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from rl.losses import LossOutput, grpo_loss, guard_loss, kl_exact, kl_mean_space, kl_velocity, nft_loss
from rl.samplers import StepResult, StepSigmas, StochasticSampler, noise_for

CLIP: dict[str, Any] = {"clip_low": 0.1, "clip_high": 0.2}
SHAPE = (2, 4, 3)
SAMPLERS = [StochasticSampler("flow_sde", 0.9), StochasticSampler("dance_sde", 0.3), StochasticSampler("cps", 0.8)]
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: sampler.kind)
every_step = pytest.mark.parametrize(("sigma", "sigma_next"), [(1.0, 0.9), (0.9, 0.6), (0.4, 0.1)])


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
    advantages = torch.tensor([-1.0, -1.0])  # the masked one would have a gradient, and the larger ratio
    output = grpo_loss(log_prob, torch.zeros(2), advantages, **CLIP, mask=torch.tensor([True, False]))
    output.loss.backward()
    assert log_prob.grad is not None
    assert (log_prob.grad != 0).tolist() == [True, False]
    assert output.loss.item() == pytest.approx(math.exp(0.1) / 2)
    assert output.metrics["ratio_mean"].item() == pytest.approx(math.exp(0.1))
    assert output.metrics["ratio_deviation"].item() < 0.2


def test_a_micro_batch_of_failures_alone_has_no_loss_and_a_ratio_of_one() -> None:
    log_prob = torch.tensor([0.1, 5.0], requires_grad=True)
    output = grpo_loss(log_prob, torch.zeros(2), torch.ones(2), **CLIP, mask=torch.tensor([False, False]))
    assert output.loss.item() == 0
    assert not torch.autograd.grad(output.loss, log_prob)[0].any()
    assert output.metrics == {"ratio_mean": 1, "ratio_deviation": 0, "clip_fraction": 0, "approx_kl": 0}


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


# ------------------------------------------------------------------------------------------------------- GRPO-Guard


def guarded(
    sampler: StochasticSampler, sigma: float, sigma_next: float, policy: Tensor, advantages: Tensor, **changes: Any
) -> tuple[LossOutput, StepResult, StepResult]:
    """Draw a step of an old policy and return the loss of a new one, with the new and the old step."""
    x, z, old_policy = (noise_for((name,), SHAPE) for name in ("x", "z", "old"))
    sigmas = StepSigmas(sigma, sigma_next, 0.9)
    old = sampler.step(x, old_policy, sigmas, noise=z)
    new = sampler.step(x, policy, sigmas, sample_next=old.sample_next)
    delta = torch.full((2,), sigma - sigma_next)
    arguments = {"clip_low": 10.0, "clip_high": 10.0} | changes
    return guard_loss(new.mean, old.mean, old.sample_next, new.std, delta, advantages, **arguments), new, old


@pytest.mark.parametrize("sampler", SAMPLERS[:2], ids=lambda sampler: sampler.kind)
@every_step
def test_the_guarded_ratio_is_the_published_one(sampler: StochasticSampler, sigma: float, sigma_next: float) -> None:
    policy = noise_for(("old",), SHAPE) + 0.1 * noise_for(("change",), SHAPE)
    advantages = torch.tensor([1.0, -0.5])
    output, new, old = guarded(sampler, sigma, sigma_next, policy, advantages)
    std = new.std.double()[:, None, None]
    first, second = (Normal(step.mean.double(), std) for step in (new, old))
    gap = (first.log_prob(old.sample_next.double()) - second.log_prob(old.sample_next.double())).mean(dim=(1, 2))
    drift = ((new.mean - old.mean).double() ** 2).mean(dim=(1, 2)) / (2 * std.flatten() ** 2)
    ratio = torch.exp(std.flatten() * (gap + drift))
    assert output.metrics["ratio_mean"].item() == pytest.approx(ratio.mean().item(), rel=1e-6)
    expected = (-advantages * ratio).mean() / (sigma - sigma_next)
    assert output.loss.item() == pytest.approx(expected.item(), rel=1e-5)


@every_sampler
def test_the_first_guarded_step_has_a_ratio_of_exactly_one_and_a_gradient(sampler: StochasticSampler) -> None:
    policy = noise_for(("old",), SHAPE).requires_grad_()
    output, _, _ = guarded(sampler, 0.9, 0.6, policy, torch.tensor([1.0, -1.0]))
    assert output.loss.item() == 0.0
    assert output.metrics["ratio_deviation"].item() == 0.0
    output.loss.backward()
    assert policy.grad is not None
    assert bool((policy.grad != 0).all())


def test_the_guarded_gradient_has_the_same_size_at_every_time_step() -> None:
    # With Flow-SDE below sigma_max a mean moves by d (1 + a^2 / 2) times the velocity, so after the division by d
    # nothing of the time step is left; the plain ratio's gradient is another one at each.
    gradients, plain = [], []
    for sigma, sigma_next in ((0.9, 0.8), (0.6, 0.3), (0.3, 0.1)):
        policy = noise_for(("old",), SHAPE).requires_grad_()
        output, new, old = guarded(SAMPLERS[0], sigma, sigma_next, policy, torch.ones(2))
        gradients.append(torch.autograd.grad(output.loss, policy, retain_graph=True)[0])
        loss = grpo_loss(new.log_prob, old.log_prob, torch.ones(2), clip_low=10.0, clip_high=10.0).loss
        plain.append(torch.autograd.grad(loss, policy)[0])
    expected = -(1 + 0.9**2 / 2) * -noise_for(("z",), SHAPE) / 12 / 2
    for gradient in gradients:
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)
    assert plain[0].norm() / plain[2].norm() < 0.8


def test_a_guarded_loss_is_clipped_masked_and_divided_by_the_batch() -> None:
    policy = (noise_for(("old",), SHAPE) + noise_for(("change",), SHAPE)).requires_grad_()
    mask = torch.tensor([True, False])
    output, _, _ = guarded(SAMPLERS[0], 0.9, 0.6, policy, torch.tensor([1.0, 1.0]), mask=mask)
    gradient = torch.autograd.grad(output.loss, policy)[0]
    assert (gradient != 0).any(dim=2).any(dim=1).tolist() == [True, False]
    ratio = output.metrics["ratio_mean"].item()
    assert output.loss.item() == pytest.approx(-ratio / (0.9 - 0.6) / 2, rel=1e-5)
    sign = 1.0 if ratio > 1 else -1.0
    clipped, _, _ = guarded(
        SAMPLERS[0], 0.9, 0.6, policy, torch.full((2,), sign), mask=mask, clip_low=1e-6, clip_high=1e-6
    )
    assert clipped.metrics["clip_fraction"].item() == 1.0
    assert not torch.autograd.grad(clipped.loss, policy)[0].any()


@pytest.mark.parametrize("sampler", SAMPLERS[:2], ids=lambda sampler: sampler.kind)
def test_rows_at_different_time_steps_are_guarded_each_by_itself(sampler: StochasticSampler) -> None:
    now, after, advantages = torch.tensor([0.9, 0.4]), torch.tensor([0.6, 0.3]), torch.tensor([1.0, -0.5])
    policy = noise_for(("old",), SHAPE) + 0.1 * noise_for(("change",), SHAPE)

    def loss_of(rows: slice) -> LossOutput:
        x, z, old_policy = (noise_for((name,), SHAPE)[rows] for name in ("x", "z", "old"))
        sigmas = StepSigmas(now[rows], after[rows], 0.9)
        old = sampler.step(x, old_policy, sigmas, noise=z)
        new = sampler.step(x, policy[rows], sigmas, sample_next=old.sample_next)
        return guard_loss(
            new.mean, old.mean, old.sample_next, new.std, (now - after)[rows], advantages[rows],
            clip_low=10.0, clip_high=10.0,
        )  # fmt: skip

    together, first, second = (loss_of(rows) for rows in (slice(0, 2), slice(0, 1), slice(1, 2)))
    torch.testing.assert_close(together.loss, (first.loss + second.loss) / 2)
    torch.testing.assert_close(
        together.metrics["ratio_mean"], (first.metrics["ratio_mean"] + second.metrics["ratio_mean"]) / 2
    )


def test_guarded_shapes_that_would_broadcast_are_refused() -> None:
    mean, row = torch.zeros(SHAPE), torch.ones(2)
    with pytest.raises(ValueError, match="one shape"):
        guard_loss(mean, mean, mean, row[:, None, None], row, row, **CLIP)
    with pytest.raises(ValueError, match="2 rows"):
        guard_loss(mean[:1], mean, mean, row, row, row, **CLIP)
    with pytest.raises(ValueError, match="no ratio"):
        guard_loss(mean, mean, mean, 0 * row, row, row, **CLIP)


# ------------------------------------------------------------------------------------------------------ DiffusionNFT

NFT: dict[str, Any] = {"beta": 0.5, "advantage_max": 5.0}


def nft_inputs(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return velocities of policy and old policy, noised and clean latents at sigma 0.6."""
    policy, old, clean, noise = (noise_for((name,), SHAPE).to(dtype) for name in ("policy", "old", "clean", "e"))
    return policy, old, 0.4 * clean + 0.6 * noise, clean


def published_nft(tensors: Sequence[Any], advantages: list[float], size: Any = None) -> float:
    """The published loss in numpy; `size` are fixed divisors (of the positive and the negative prediction)."""
    policy, old, noised, clean = tensors
    total = 0.0
    for row, advantage in enumerate(advantages):
        weight = min(max(min(max(advantage, -5.0), 5.0) / 10 + 0.5, 0.0), 1.0)
        sides = (0.5 * policy[row] + 0.5 * old[row], 1.5 * old[row] - 0.5 * policy[row])
        errors = [noised[row] - 0.6 * side - clean[row] for side in sides]
        sizes = [max(np.abs(error).mean(), 1e-5) for error in errors] if size is None else size[row]
        losses = [(error**2).mean() / divisor for error, divisor in zip(errors, sizes, strict=True)]
        total += 5 * (weight * losses[0] + (1 - weight) * losses[1]) / 0.5
    return total / len(advantages)


@pytest.mark.parametrize("advantages", [[0.3, -2.0], [7.0, -9.0], [0.0, 0.0]])
def test_nft_loss_and_its_gradient_are_the_published_ones(advantages: list[float]) -> None:
    policy, old, noised, clean = nft_inputs()
    policy.requires_grad_()
    output = nft_loss(policy, old, noised, clean, 0.6, torch.tensor(advantages), **NFT)
    exact = [tensor.detach().double().numpy() for tensor in (policy, old, noised, clean)]
    assert output.loss.item() == pytest.approx(published_nft(exact, advantages), rel=1e-5)
    assert output.loss.dtype == torch.float32

    # Finite differences with the divisors held fixed: they have no gradient.
    def errors(row: int) -> list[float]:
        sides = (0.5 * exact[0][row] + 0.5 * exact[1][row], 1.5 * exact[1][row] - 0.5 * exact[0][row])
        return [np.abs(exact[2][row] - 0.6 * side - exact[3][row]).mean() for side in sides]

    sizes = [errors(0), errors(1)]
    gradient = torch.autograd.grad(output.loss, policy)[0]
    for place in ((0, 0, 0), (1, 2, 1)):
        step = np.zeros(SHAPE)
        step[place] = 1e-5
        up, down = (published_nft([exact[0] + side * step, *exact[1:]], advantages, sizes) for side in (1, -1))
        assert gradient[place].item() == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-7)


def test_nft_at_the_old_policy_is_symmetric_and_pulls_by_the_advantage() -> None:
    _, old, noised, clean = nft_inputs()
    policy = old.clone().requires_grad_()
    advantages = torch.tensor([2.0, -1.0])
    output = nft_loss(policy, old, noised, clean, 0.6, advantages, **NFT)
    assert output.metrics["positive_loss"] == output.metrics["negative_loss"]
    assert output.metrics["old_deviation"] == 0
    error = noised - 0.6 * old - clean
    size = error.abs().mean(dim=(1, 2), keepdim=True)
    # d/dv of mean(error^2) / size is -2 sigma error / (elements size), per sample and divided by the batch.
    expected = advantages[:, None, None] * -2 * 0.6 * error / (12 * size) / 2
    torch.testing.assert_close(torch.autograd.grad(output.loss, policy)[0], expected)


def test_nft_without_an_advantage_does_not_move_and_a_masked_sample_adds_nothing() -> None:
    _, old, noised, clean = nft_inputs()
    policy = old.clone().requires_grad_()
    still = nft_loss(policy, old, noised, clean, 0.6, torch.zeros(2), **NFT).loss
    assert not torch.autograd.grad(still, policy)[0].abs().gt(1e-8).any()
    masked = nft_loss(
        policy, old, noised, clean, 0.6, torch.tensor([1.0, 3.0]), **NFT, mask=torch.tensor([True, False])
    ).loss
    alone = nft_loss(policy[:1], old[:1], noised[:1], clean[:1], 0.6, torch.tensor([1.0]), **NFT).loss
    torch.testing.assert_close(masked, alone / 2)
    gradient = torch.autograd.grad(masked, policy)[0]
    assert (gradient != 0).flatten(1).any(dim=1).tolist() == [True, False]


def test_nft_rows_at_different_time_steps_count_each_by_itself() -> None:
    policy, old, _, clean = nft_inputs()
    sigma, advantages = torch.tensor([0.9, 0.2]), torch.tensor([2.0, -1.0])
    noised = (1 - sigma)[:, None, None] * clean + sigma[:, None, None] * noise_for(("e",), SHAPE)
    together = nft_loss(policy, old, noised, clean, sigma, advantages, **NFT).loss
    alone = [
        nft_loss(policy[rows], old[rows], noised[rows], clean[rows], sigma[row].item(), advantages[rows], **NFT).loss
        for row, rows in enumerate((slice(0, 1), slice(1, 2)))
    ]
    torch.testing.assert_close(together, (alone[0] + alone[1]) / 2)


def test_nft_stays_float32_with_sixteen_bit_velocities_and_float64_advantages() -> None:
    policy, old, noised, clean = nft_inputs()
    output = nft_loss(policy.bfloat16(), old.bfloat16(), noised, clean, 0.6, torch.ones(2, dtype=torch.float64), **NFT)
    assert output.loss.dtype == torch.float32
    assert all(value.dtype == torch.float32 for value in output.metrics.values())


def test_nft_refuses_what_would_broadcast_and_settings_out_of_range() -> None:
    policy, old, noised, clean = nft_inputs()
    with pytest.raises(ValueError, match="2 rows"):
        nft_loss(policy, old[:1], noised, clean, 0.6, torch.ones(2), **NFT)
    with pytest.raises(ValueError, match="one shape"):
        nft_loss(policy, old, noised, clean, 0.6, torch.ones(2, 1), **NFT)
    with pytest.raises(ValueError, match="beta > 0"):
        nft_loss(policy, old, noised, clean, 0.6, torch.ones(2), beta=0.0, advantage_max=5.0)


# -------------------------------------------------------------------------------------------------------------- KLs


@every_sampler
@every_step
def test_the_exact_kl_is_that_of_the_two_gaussian_steps(
    sampler: StochasticSampler, sigma: float, sigma_next: float
) -> None:
    x, z = noise_for(("x",), SHAPE), noise_for(("z",), SHAPE)
    policy, reference = noise_for(("v",), SHAPE), noise_for(("r",), SHAPE)
    sigmas = StepSigmas(sigma, sigma_next, 0.9)
    ours = kl_exact(policy, reference, sampler, sigmas)
    steps = [sampler.step(x, v, sigmas, noise=z) for v in (policy, reference)]
    first, second = (Normal(step.mean, step.std[:, None, None]) for step in steps)
    torch.testing.assert_close(ours, kl_divergence(first, second).mean(dim=(1, 2)), rtol=1e-4, atol=1e-6)


@every_step
def test_the_three_kls_are_one_up_to_their_named_factors(sigma: float, sigma_next: float) -> None:
    policy, reference = noise_for(("v",), SHAPE), noise_for(("r",), SHAPE)
    sigmas = StepSigmas(sigma, sigma_next, 0.9)
    exact, mean_space = (kl(policy, reference, SAMPLERS[0], sigmas) for kl in (kl_exact, kl_mean_space))
    plain = kl_velocity(policy, reference)
    delta = sigma - sigma_next
    g = 0.9 * math.sqrt(sigma / (1 - min(sigma, 0.9)))
    factor = delta / 2 * (1 / g + g * (1 - sigma) / (2 * sigma)) ** 2
    torch.testing.assert_close(exact, factor * plain)
    torch.testing.assert_close(mean_space, delta * exact)
    torch.testing.assert_close(plain, ((policy - reference) ** 2).flatten(1).mean(dim=1))


@every_sampler
@pytest.mark.parametrize("kl", [kl_exact, kl_mean_space])
def test_a_kl_of_rows_at_different_time_steps_is_that_of_each_row_alone(
    kl: Callable[..., Tensor], sampler: StochasticSampler
) -> None:
    policy, reference = noise_for(("v",), SHAPE), noise_for(("r",), SHAPE)
    now, after = torch.tensor([0.9, 0.4]), torch.tensor([0.6, 0.1])
    together = kl(policy, reference, sampler, StepSigmas(now, after, 0.9))
    assert together.shape == (2,)
    for row in (0, 1):
        sigmas = StepSigmas(now[row].item(), after[row].item(), 0.9)
        alone = kl(policy[row : row + 1], reference[row : row + 1], sampler, sigmas)
        torch.testing.assert_close(together[row : row + 1], alone)


KLS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "exact": lambda v, r: kl_exact(v, r, SAMPLERS[0], StepSigmas(0.9, 0.6, 0.9)),
    "mean_space": lambda v, r: kl_mean_space(v, r, SAMPLERS[0], StepSigmas(0.9, 0.6, 0.9)),
    "velocity": kl_velocity,
}


@pytest.mark.parametrize("form", KLS)
def test_a_kl_has_a_gradient_towards_the_reference_and_none_into_it(form: str) -> None:
    policy, reference = torch.ones(1, 2, 2, requires_grad=True), torch.zeros(1, 2, 2, requires_grad=True)
    KLS[form](policy, reference).sum().backward()
    assert policy.grad is not None
    assert bool((policy.grad > 0).all())
    assert reference.grad is None
    assert KLS[form](policy, policy).item() == 0.0


@pytest.mark.parametrize("kl", [kl_exact, kl_mean_space])
def test_cps_has_no_kl_where_it_has_no_noise(kl: Callable[..., Tensor]) -> None:
    policy, reference = noise_for(("v",), SHAPE), noise_for(("r",), SHAPE)
    with pytest.raises(ValueError, match="use kl_velocity"):
        kl(policy, reference, SAMPLERS[2], StepSigmas(0.4, 0.0, 0.9))
    assert bool(torch.isfinite(kl(policy, reference, SAMPLERS[2], StepSigmas(0.4, 0.1, 0.9))).all())
