"""The sampler steps against numpy, torch.distributions and the algebra of an exact velocity."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Normal

from rl.samplers import diffusion_coefficient, flow_sde_step, noise_for, ode_step, sde_window

SHAPE = (3, 5, 4)
SIGMAS = [1.0, 0.9, 0.75, 0.5, 0.25, 0.0]


def latents(name: str, shape: tuple[int, ...] = SHAPE) -> torch.Tensor:
    return noise_for((name,), shape)


def published_step(x: np.ndarray, v: np.ndarray, z: np.ndarray, index: int, level: float) -> tuple[np.ndarray, float]:
    """The coded form of Flow-GRPO in float64, with its rule for the first sigma."""
    sigma, dt = SIGMAS[index], SIGMAS[index + 1] - SIGMAS[index]
    coefficient = level * math.sqrt(sigma / (1 - (SIGMAS[1] if sigma == 1 else sigma)))
    mean = x * (1 + coefficient**2 / (2 * sigma) * dt) + v * (1 + coefficient**2 * (1 - sigma) / (2 * sigma)) * dt
    return mean, coefficient * math.sqrt(-dt)


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("level", [0.3, 0.9])
def test_flow_sde_step_is_the_published_formula(index: int, level: float) -> None:
    x, v, z = latents("x"), latents("v"), latents("z")
    step = flow_sde_step(x, v, SIGMAS[index], SIGMAS[index + 1], level, noise=z, sigma_max=SIGMAS[1])
    mean, std = published_step(x.double().numpy(), v.double().numpy(), z.double().numpy(), index, level)
    np.testing.assert_allclose(step.mean.numpy(), mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(step.std.numpy(), [std] * 3, rtol=1e-6)
    np.testing.assert_allclose(step.sample_next.numpy(), mean + std * z.numpy(), rtol=1e-5, atol=1e-6)


def test_log_prob_is_the_mean_of_normal_log_densities() -> None:
    step = flow_sde_step(latents("x"), latents("v"), 0.75, 0.5, 0.9, noise=latents("z"), sigma_max=0.9)
    expected = Normal(step.mean, step.std[:, None, None]).log_prob(step.sample_next).mean(dim=(1, 2))
    torch.testing.assert_close(step.log_prob, expected)


def test_replaying_a_drawn_step_gives_its_log_prob_bit_for_bit() -> None:
    x, v = latents("x"), latents("v")
    drawn = flow_sde_step(x, v, 0.75, 0.5, 0.9, noise=latents("z"), sigma_max=0.9)
    replayed = flow_sde_step(x, v, 0.75, 0.5, 0.9, sample_next=drawn.sample_next, sigma_max=0.9)
    assert torch.equal(drawn.log_prob, replayed.log_prob)


def test_gradient_flows_through_the_mean_and_not_through_the_drawn_sample() -> None:
    velocity = latents("v").requires_grad_()
    step = flow_sde_step(latents("x"), velocity, 0.75, 0.5, 0.9, noise=latents("z"), sigma_max=0.9)
    assert not step.sample_next.requires_grad
    step.log_prob.sum().backward()
    assert velocity.grad is not None
    assert bool((velocity.grad != 0).all())


def test_one_sigma_per_sample_equals_one_call_per_sample() -> None:
    x, v, z = latents("x"), latents("v"), latents("z")
    now, after = torch.tensor([1.0, 0.75, 0.5]), torch.tensor([0.9, 0.5, 0.25])
    together = flow_sde_step(x, v, now, after, 0.9, noise=z, sigma_max=0.9)
    for row in range(3):
        alone = flow_sde_step(
            x[row : row + 1], v[row : row + 1], now[row].item(), after[row].item(), 0.9,
            noise=z[row : row + 1], sigma_max=0.9,
        )  # fmt: skip
        torch.testing.assert_close(alone.sample_next[0], together.sample_next[row])
        torch.testing.assert_close(alone.log_prob[0], together.log_prob[row])


@settings(max_examples=50, deadline=None)
@given(sigma=st.floats(0.05, 0.99), share=st.floats(0.05, 0.9), level=st.floats(0.05, 1.5))
def test_with_the_exact_velocity_a_step_keeps_the_picture_and_adds_the_known_noise(
    sigma: float, share: float, level: float
) -> None:
    # x0 and e enter linearly, so unit vectors show their coefficients: x0 keeps 1 - sigma_next exactly, and the
    # whole noise variance is sigma_next^2 + g^2 d^2 / sigma + g^4 d^2 / (4 sigma^2).
    after = sigma * share
    picture, noise = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    x = (1 - sigma) * picture + sigma * noise
    step = flow_sde_step(x, noise - picture, sigma, after, level, noise=torch.zeros(1, 2), sigma_max=0.99)
    kept, old_noise = step.mean[0].tolist()
    assert kept == pytest.approx(1 - after, abs=2e-5)
    g = diffusion_coefficient(torch.tensor(sigma), level, 0.99).item()
    delta = sigma - after
    expected = after**2 + (g * delta) ** 2 / sigma + g**4 * delta**2 / (4 * sigma**2)
    assert old_noise**2 + step.std.item() ** 2 == pytest.approx(expected, rel=2e-3, abs=1e-5)


@pytest.mark.parametrize("sigma", [1.0, 0.9999, 0.95])
def test_the_first_step_is_finite_however_close_to_one_it_starts(sigma: float) -> None:
    step = flow_sde_step(latents("x"), latents("v"), sigma, 0.9, 0.9, noise=latents("z"), sigma_max=0.9)
    for tensor in (step.mean, step.std, step.log_prob):
        assert bool(torch.isfinite(tensor).all())
    assert step.std.max() < 1.5


def test_the_last_step_is_never_stochastic() -> None:
    with pytest.raises(ValueError, match="last step"):
        flow_sde_step(latents("x"), latents("v"), 0.25, 0.0, 0.9, noise=latents("z"), sigma_max=0.9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigma_next": 0.8}, "sigma > sigma_next"),
        ({"noise_level": 0.0}, "ode_step"),
        ({"sigma_max": 1.0}, "sigma_max"),
        ({"sample": latents("x").bfloat16()}, "float32"),
        ({"noise": None}, "exactly one"),
        ({"sample_next": latents("y")}, "exactly one"),
        ({"sigma": torch.tensor([0.5, 0.6])}, "one per sample"),
    ],
)
def test_bad_arguments_name_what_was_expected(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {
        "sample": latents("x"), "velocity": latents("v"), "sigma": 0.75, "sigma_next": 0.5, "noise_level": 0.9,
        "noise": latents("z"), "sigma_max": 0.9,
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        flow_sde_step(**(arguments | change))  # type: ignore[arg-type]


def test_ode_step_is_the_scheduler_of_diffusers() -> None:
    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0)
    scheduler.set_timesteps(5)
    ours = theirs = latents("x")
    for index, timestep in enumerate(scheduler.timesteps):
        velocity = latents(f"v{index}")
        theirs = scheduler.step(velocity, timestep, theirs, return_dict=False)[0]
        ours = ode_step(ours, velocity, scheduler.sigmas[index], scheduler.sigmas[index + 1])
        assert torch.equal(ours, theirs)


def test_the_sde_mean_tends_to_the_ode_step_without_noise() -> None:
    x, v = latents("x"), latents("v")
    nearly = flow_sde_step(x, v, 0.75, 0.5, 1e-4, noise=latents("z"), sigma_max=0.9).mean
    torch.testing.assert_close(nearly, ode_step(x, v, 0.75, 0.5))


@given(seed=st.integers(0, 10**6), iteration=st.integers(0, 10**4))
def test_the_window_stays_in_its_range_and_depends_on_seed_and_iteration_only(seed: int, iteration: int) -> None:
    before = torch.get_rng_state()
    window = sde_window(seed, iteration, num_steps=8, size=3, first=0, last=2)
    assert window == sde_window(seed, iteration, num_steps=8, size=3, first=0, last=2)
    assert len(window) == 3
    assert 0 <= window.start <= 2
    assert torch.equal(before, torch.get_rng_state())


def test_the_window_moves_over_all_starts() -> None:
    starts = [sde_window(0, iteration, 8, 3, 0, 2).start for iteration in range(300)]
    assert {starts.count(start) > 70 for start in (0, 1, 2)} == {True}


@pytest.mark.parametrize(("size", "first", "last"), [(3, 0, 5), (0, 0, 2), (8, 0, 0), (2, 3, 2), (1, -1, 2)])
def test_a_window_that_could_hold_the_last_step_is_refused(size: int, first: int, last: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        sde_window(0, 0, num_steps=8, size=size, first=first, last=last)


def test_noise_belongs_to_its_parts_alone() -> None:
    before = torch.get_rng_state()
    first = noise_for((0, "case", 1), SHAPE)
    noise_for((0, "case", 2), SHAPE)
    assert torch.equal(first, noise_for((0, "case", 1), SHAPE))
    assert not torch.equal(first, noise_for((0, "case", 2), SHAPE))
    assert torch.equal(before, torch.get_rng_state())
    large = noise_for(("statistics",), (100_000,))
    assert abs(large.mean().item()) < 0.02
    assert abs(large.std().item() - 1) < 0.02
