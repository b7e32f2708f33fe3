"""The sampler steps against numpy, torch.distributions and the algebra of an exact velocity."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Normal

from rl.samplers import (
    SDEKind,
    StepSigmas,
    StochasticSampler,
    mean_per_sample,
    noise_for,
    ode_step,
    sde_window,
)

SHAPE = (3, 5, 4)
SIGMAS = [1.0, 0.9, 0.75, 0.5, 0.25, 0.0]
SAMPLERS = [StochasticSampler("flow_sde", 0.9), StochasticSampler("dance_sde", 0.3), StochasticSampler("cps", 0.8)]
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: sampler.kind)


NEAR_THE_MIDDLE = StepSigmas(0.75, 0.5, 0.9)


def sigmas_of(index: int) -> StepSigmas:
    return StepSigmas(SIGMAS[index], SIGMAS[index + 1], SIGMAS[1])


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
    step = StochasticSampler("flow_sde", level).step(x, v, sigmas_of(index), noise=z)
    mean, std = published_step(x.double().numpy(), v.double().numpy(), z.double().numpy(), index, level)
    np.testing.assert_allclose(step.mean.numpy(), mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(step.std.numpy(), [std] * 3, rtol=1e-6)
    np.testing.assert_allclose(step.sample_next.numpy(), mean + std * z.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("index", range(4))
def test_dance_sde_step_is_the_published_formula(index: int) -> None:
    # DanceGRPO's code: an Euler step, a correction by the score of the predicted noise, and noise of a constant scale.
    x, v, z = (latents(name) for name in ("x", "v", "z"))
    sigma, delta, eta = SIGMAS[index], SIGMAS[index] - SIGMAS[index + 1], 0.3
    exact_x, exact_v = x.double().numpy(), v.double().numpy()
    predicted = exact_x - sigma * exact_v
    score = -(exact_x - predicted * (1 - sigma)) / sigma**2
    mean = exact_x - delta * exact_v + -0.5 * eta**2 * score * -delta
    step = StochasticSampler("dance_sde", eta).step(x, v, sigmas_of(index), noise=z)
    np.testing.assert_allclose(step.mean.numpy(), mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(step.std.numpy(), [eta * math.sqrt(delta)] * 3, rtol=1e-6)


@pytest.mark.parametrize("index", range(5))
def test_cps_step_is_the_published_formula(index: int) -> None:
    x, v, z = (latents(name) for name in ("x", "v", "z"))
    sigma, after, level = SIGMAS[index], SIGMAS[index + 1], 0.8
    exact_x, exact_v = x.double().numpy(), v.double().numpy()
    std = after * math.sin(level * math.pi / 2)
    picture, noise = exact_x - exact_v * sigma, exact_x + exact_v * (1 - sigma)
    mean = picture * (1 - after) + noise * math.sqrt(after**2 - std**2)
    step = StochasticSampler("cps", level).step(x, v, sigmas_of(index), noise=z)
    np.testing.assert_allclose(step.mean.numpy(), mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(step.std.numpy(), [std] * 3, rtol=1e-6)
    expected = -((step.sample_next.numpy() - mean) ** 2).mean(axis=(1, 2))
    np.testing.assert_allclose(step.log_prob.numpy(), expected, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("sampler", SAMPLERS[:2], ids=lambda sampler: sampler.kind)
def test_log_prob_is_the_mean_of_normal_log_densities(sampler: StochasticSampler) -> None:
    step = sampler.step(latents("x"), latents("v"), NEAR_THE_MIDDLE, noise=latents("z"))
    expected = Normal(step.mean, step.std[:, None, None]).log_prob(step.sample_next).mean(dim=(1, 2))
    torch.testing.assert_close(step.log_prob, expected)


@every_sampler
def test_the_log_prob_of_padded_rows_is_that_of_each_row_alone(sampler: StochasticSampler) -> None:
    lengths = [5, 3, 1]
    mask = torch.arange(5)[None] < torch.tensor(lengths)[:, None]
    x, v, z = (latents(name) for name in ("x", "v", "z"))
    padded = sampler.step(x, v, NEAR_THE_MIDDLE, noise=z, mask=mask)
    for row, length in enumerate(lengths):
        cut = (slice(row, row + 1), slice(0, length))
        alone = sampler.step(x[cut], v[cut], NEAR_THE_MIDDLE, noise=z[cut])
        torch.testing.assert_close(padded.log_prob[row], alone.log_prob[0])
    assert not torch.equal(padded.log_prob, sampler.step(x, v, NEAR_THE_MIDDLE, noise=z).log_prob)


def test_a_mask_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="first dimensions"):
        mean_per_sample(latents("x"), torch.ones(3, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match="every row"):
        mean_per_sample(latents("x"), torch.tensor([True, False, True])[:, None].expand(3, 5))


@every_sampler
def test_replaying_a_drawn_step_gives_its_log_prob_bit_for_bit(sampler: StochasticSampler) -> None:
    x, v = latents("x"), latents("v")
    drawn = sampler.step(x, v, NEAR_THE_MIDDLE, noise=latents("z"))
    replayed = sampler.step(x, v, NEAR_THE_MIDDLE, sample_next=drawn.sample_next)
    assert torch.equal(drawn.log_prob, replayed.log_prob)
    assert torch.equal(torch.exp(replayed.log_prob - drawn.log_prob), torch.ones(3))


@every_sampler
def test_gradient_flows_through_the_mean_and_not_through_the_drawn_sample(sampler: StochasticSampler) -> None:
    velocity = latents("v").requires_grad_()
    step = sampler.step(latents("x"), velocity, NEAR_THE_MIDDLE, noise=latents("z"))
    assert not step.sample_next.requires_grad
    step.log_prob.sum().backward()
    assert velocity.grad is not None
    assert bool((velocity.grad != 0).all())


@every_sampler
@pytest.mark.parametrize("index", range(4))
def test_the_slope_is_how_far_the_mean_moves_with_the_velocity(sampler: StochasticSampler, index: int) -> None:
    x, v, z = latents("x"), latents("v"), latents("z")
    sigma, after = SIGMAS[index], SIGMAS[index + 1]
    steps = [sampler.step(x, each, sigmas_of(index), noise=z) for each in (v, v + 1)]
    slope, std = sampler.mean_slope(torch.tensor(sigma), torch.tensor(after), SIGMAS[1])
    torch.testing.assert_close(steps[1].mean - steps[0].mean, slope.expand(SHAPE), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(steps[0].std, std.expand(3))


@every_sampler
def test_bf16_storage_would_move_the_log_prob_by_as_much_as_a_clip_range(sampler: StochasticSampler) -> None:
    # What the rule "trajectories in float32" is for: the stored x' is not the drawn one.
    x, v = latents("x", (2, 64, 64)), latents("v", (2, 64, 64))
    drawn = sampler.step(x, v, StepSigmas(0.25, 0.1, 0.9), noise=latents("z", (2, 64, 64)))
    kept = sampler.step(x, v, StepSigmas(0.25, 0.1, 0.9), sample_next=drawn.sample_next.clone())
    rounded = sampler.step(x, v, StepSigmas(0.25, 0.1, 0.9), sample_next=drawn.sample_next.bfloat16().float())
    assert (kept.log_prob - drawn.log_prob).abs().max() < 1e-6
    assert (rounded.log_prob - drawn.log_prob).abs().min() > 1e-6


def test_one_sigma_per_sample_equals_one_call_per_sample() -> None:
    x, v, z = latents("x"), latents("v"), latents("z")
    now, after = torch.tensor([1.0, 0.75, 0.5]), torch.tensor([0.9, 0.5, 0.25])
    together = SAMPLERS[0].step(x, v, StepSigmas(now, after, 0.9), noise=z)
    for row in range(3):
        alone = SAMPLERS[0].step(
            x[row : row + 1],
            v[row : row + 1],
            StepSigmas(now[row].item(), after[row].item(), 0.9),
            noise=z[row : row + 1],
        )
        torch.testing.assert_close(alone.sample_next[0], together.sample_next[row])
        torch.testing.assert_close(alone.log_prob[0], together.log_prob[row])


def step_with_exact_velocity(sampler: StochasticSampler, sigma: float, after: float) -> tuple[float, float]:
    """Return how much of the picture a step keeps, and the variance of all its noise.

    x0 and e enter linearly, so unit vectors show their coefficients.
    """
    picture, noise = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    x = (1 - sigma) * picture + sigma * noise
    step = sampler.step(x, noise - picture, StepSigmas(sigma, after, 0.99), noise=torch.zeros(1, 2))
    kept, old_noise = step.mean[0].tolist()
    return kept, old_noise**2 + step.std.item() ** 2


@settings(max_examples=50, deadline=None)
@given(sigma=st.floats(0.05, 0.99), share=st.floats(0.05, 0.9), level=st.floats(0.05, 1.5))
@pytest.mark.parametrize("kind", ["flow_sde", "dance_sde"])
def test_with_the_exact_velocity_an_sde_step_keeps_the_picture_and_adds_the_known_noise(
    kind: SDEKind, sigma: float, share: float, level: float
) -> None:
    level = min(level, 0.7) if kind == "dance_sde" else level
    after, delta = sigma * share, sigma - sigma * share
    kept, variance = step_with_exact_velocity(StochasticSampler(kind, level), sigma, after)
    assert kept == pytest.approx(1 - after, abs=2e-5)
    g = level * math.sqrt(sigma / (1 - sigma)) if kind == "flow_sde" else level
    expected = after**2 + (g * delta) ** 2 / sigma + g**4 * delta**2 / (4 * sigma**2)
    assert variance == pytest.approx(expected, rel=2e-3, abs=1e-5)


@settings(max_examples=50, deadline=None)
@given(sigma=st.floats(0.05, 0.99), share=st.floats(0.0, 0.9), level=st.floats(0.05, 1.0))
def test_with_the_exact_velocity_cps_has_exactly_the_noise_of_the_next_step(
    sigma: float, share: float, level: float
) -> None:
    after = sigma * share
    kept, variance = step_with_exact_velocity(StochasticSampler("cps", level), sigma, after)
    assert kept == pytest.approx(1 - after, abs=2e-6)
    assert variance == pytest.approx(after**2, rel=1e-4, abs=1e-7)


@every_sampler
@pytest.mark.parametrize("sigma", [1.0, 0.9999, 0.95])
def test_the_first_step_is_finite_however_close_to_one_it_starts(sampler: StochasticSampler, sigma: float) -> None:
    step = sampler.step(latents("x"), latents("v"), StepSigmas(sigma, 0.9, 0.9), noise=latents("z"))
    for tensor in (step.mean, step.std, step.log_prob):
        assert bool(torch.isfinite(tensor).all())
    assert step.std.max() < 1.5


@pytest.mark.parametrize("sampler", SAMPLERS[:2], ids=lambda sampler: sampler.kind)
def test_the_last_step_of_an_sde_is_never_stochastic(sampler: StochasticSampler) -> None:
    with pytest.raises(ValueError, match="last step"):
        sampler.step(latents("x"), latents("v"), sigmas_of(4), noise=latents("z"))


def test_the_last_step_of_cps_is_the_step_of_the_ode() -> None:
    x, v = latents("x"), latents("v").requires_grad_()
    step = SAMPLERS[2].step(x, v, sigmas_of(4), noise=latents("z"))
    torch.testing.assert_close(step.sample_next, ode_step(x, v.detach(), 0.25, 0.0))
    assert step.std.tolist() == [0.0] * 3
    assert step.log_prob.tolist() == [0.0] * 3
    step.log_prob.sum().backward()
    assert v.grad is not None
    assert bool(torch.isfinite(v.grad).all())


@pytest.mark.parametrize(
    ("kind", "level", "message"),
    [
        ("ode", 0.5, "sampler of"),
        ("cps", 1.1, "CPS"),
        ("flow_sde", 0.0, "noise_level"),
        ("cps", math.nan, "noise_le"),
        ("flow_sde", math.inf, "finite noise_level"),
    ],
)
def test_a_sampler_that_no_step_takes_is_refused(kind: SDEKind, level: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StochasticSampler(kind, level)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigmas": StepSigmas(0.75, 0.8, 0.9)}, "sigma > sigma_next"),
        ({"sigmas": StepSigmas(0.75, 0.5, 1.0)}, "sigma_max"),
        ({"sigmas": StepSigmas(torch.tensor([0.5, 0.6]), 0.1, 0.9)}, "one per sample"),
        ({"sample": latents("x").bfloat16()}, "float32"),
        ({"noise": None, "sample_next": latents("y").bfloat16()}, "expected sample_next in float32"),
        ({"noise": None}, "exactly one"),
        ({"sample_next": latents("y")}, "exactly one"),
        ({"noise": latents("z")[:1]}, r"shape \[3, 5, 4\], got \[3, 5, 4\] and \[1, 5, 4\]"),
        ({"velocity": latents("v")[0]}, r"shape \[3, 5, 4\], got \[5, 4\]"),
        ({"noise": None, "sample_next": latents("y")[:1]}, r"got \[3, 5, 4\] and \[1, 5, 4\]"),
    ],
)
def test_bad_arguments_name_what_was_expected(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {
        "sample": latents("x"), "velocity": latents("v"), "sigmas": NEAR_THE_MIDDLE, "noise": latents("z"),
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        SAMPLERS[0].step(**(arguments | change))  # type: ignore[arg-type]


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
    nearly = StochasticSampler("flow_sde", 1e-4).step(x, v, NEAR_THE_MIDDLE, noise=latents("z")).mean
    torch.testing.assert_close(nearly, ode_step(x, v, 0.75, 0.5))


@given(seed=st.integers(0, 10**6), iteration=st.integers(0, 10**4))
def test_the_window_stays_in_its_range_and_depends_on_seed_and_iteration_only(seed: int, iteration: int) -> None:
    before, others = torch.get_rng_state(), (random.getstate(), str(np.random.get_state()))
    window = sde_window(seed, iteration, num_steps=8, size=3, first=0, last=2)
    assert window == sde_window(seed, iteration, num_steps=8, size=3, first=0, last=2)
    assert len(window) == 3
    assert 0 <= window.start <= 2
    assert torch.equal(before, torch.get_rng_state())
    assert others == (random.getstate(), str(np.random.get_state()))


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
