"""Losses of reinforcement learning as pure functions that return the loss and its metrics, and three KLs.

Every loss divides by the batch size, not by the number of valid samples: each sample then weighs the same however a
rollout is cut into micro-batches. All means over latents are means, not sums (see `StochasticSampler.step`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rl.samplers import StepSigmas, StochasticSampler, mean_per_sample, per_sample


@dataclass(frozen=True)
class LossOutput:
    """A scalar `loss` with gradient, and detached scalars under `metrics`."""

    loss: Tensor
    metrics: dict[str, Tensor]


def grpo_loss(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantages: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    mask: Tensor | None = None,
) -> LossOutput:
    """Clipped policy loss of GRPO on log-probabilities that are means over latent elements.

    `r = exp(log_prob - old_log_prob)`; `loss = sum(max(-A r, -A clamp(r, 1 - clip_low, 1 + clip_high))) / batch`
    (PPO's clipped objective, arXiv 1707.06347; for flows arXiv 2505.05470). On the first on-policy step r is
    exactly 1, the loss is the mean of `-A` (0 for centred advantages), and its gradient is not 0.

    A masked sample adds nothing, while the divisor stays the batch size: each valid sample weighs the same however
    a rollout is cut into micro-batches.

    Args:
        log_prob: `[batch]`, with gradient.
        old_log_prob: `[batch]`, of the policy that sampled.
        advantages: `[batch]`.
        clip_low: how far below 1 the ratio may go before the gradient stops, > 0.
        clip_high: how far above.
        mask: boolean `[batch]`, False for samples whose reward failed.

    Returns:
        The loss and, over valid samples: `ratio_mean`, `ratio_deviation` (largest |r - 1|), `clip_fraction` (share
        whose gradient the clip stopped), `approx_kl` (mean of `r - 1 - log r`: Schulman's low-variance estimate).

    Raises:
        ValueError: when shapes differ or a clip range is not positive.
    """
    mask = _checked(clip_low, clip_high, mask, log_prob=log_prob, old_log_prob=old_log_prob, advantages=advantages)
    log_ratio = log_prob - old_log_prob.detach()
    per_sample_loss, metrics = _clipped(log_ratio, advantages, clip_low, clip_high, mask)
    return LossOutput(_batch_mean(per_sample_loss, mask), metrics)


def guard_loss(
    mean: Tensor,
    old_mean: Tensor,
    sample_next: Tensor,
    std: Tensor,
    delta: Tensor,
    advantages: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    mask: Tensor | None = None,
) -> LossOutput:
    """Clipped policy loss on GRPO-Guard's ratio, whose size is the same at every time step (arXiv 2510.22319).

    With `c` the transition's std, `d` the step's length and `dmu = mean - old_mean`::

        log r = c [ log_prob - old_log_prob + mean over elements of dmu^2 / (2 c^2) ]
        loss  = sum over samples of max(-A r, -A clamp(r, 1 - clip_low, 1 + clip_high)) / d  / batch

    where the log-probabilities are those of Gaussians, as of an SDE's steps. The bracket takes out the negative bias
    of the plain ratio; `c` and `d` take out that its spread and the gradient depend on the time step. With the noise
    `z = (sample_next - old_mean) / c` that the sampler drew, log r is `mean(dmu z)`, and is computed so: it is then
    exactly 0 on the first on-policy step. Nothing is averaged over the batch, whose samples may stand at several steps.

    Args:
        mean: of the replayed transition, float32 `[batch, tokens, channels]`, with gradient.
        old_mean: of the policy that sampled, same shape.
        sample_next: what was drawn, same shape.
        std: of the transition, `[batch]`.
        delta: `sigma - sigma_next`, `[batch]`.
        advantages: `[batch]`.
        clip_low: as in `grpo_loss`; of this ratio, 2e-6 to 4e-6 are used.
        clip_high: likewise.
        mask: as in `grpo_loss`.

    Returns:
        The loss and the metrics of `grpo_loss`.

    Raises:
        ValueError: when shapes differ, or a clip range, std or delta is not positive.
    """
    mask = _checked(clip_low, clip_high, mask, std=std, delta=delta, advantages=advantages)
    if not mean.shape == old_mean.shape == sample_next.shape or mean.shape[:1] != std.shape:
        raise ValueError(
            f"expected means and sample of one shape with {len(std)} rows, got {list(mean.shape)}, "
            f"{list(old_mean.shape)} and {list(sample_next.shape)}"
        )
    if bool((std <= 0).any()) or bool((delta <= 0).any()):
        raise ValueError("expected std and delta above 0: without noise there is no ratio")
    old_mean, sample_next = old_mean.detach(), sample_next.detach()
    noise = (sample_next - old_mean) / per_sample(std.detach(), mean)
    log_ratio = mean_per_sample((mean - old_mean) * noise)
    per_sample_loss, metrics = _clipped(log_ratio, advantages, clip_low, clip_high, mask)
    return LossOutput(_batch_mean(per_sample_loss / delta, mask), metrics)


def _clipped(
    log_ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float, mask: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return PPO's clipped objective of each sample, and what is worth knowing about its ratios."""
    advantages = advantages.to(log_ratio.dtype)
    ratio = torch.exp(log_ratio)
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    per_sample_loss = torch.maximum(-advantages * ratio, -advantages * clipped)
    with torch.no_grad():
        stopped = ((advantages > 0) & (ratio > 1 + clip_high)) | ((advantages < 0) & (ratio < 1 - clip_low))
        exact = log_ratio.double()
        metrics = {
            # Without a valid sample no ratio differs from 1; a 0 would pull the mean of an epoch down.
            "ratio_mean": torch.where(mask.any(), _mean(ratio, mask), 1.0),
            "ratio_deviation": torch.where(mask, (ratio - 1).abs(), 0.0).max(),
            "clip_fraction": _mean(stopped.float(), mask),
            "approx_kl": _mean(torch.expm1(exact) - exact, mask).float(),
        }
    return per_sample_loss, metrics


def _checked(clip_low: float, clip_high: float, mask: Tensor | None, **per_sample_values: Tensor) -> Tensor:
    """Check what stands once per sample, and return the mask, all True by default."""
    if clip_low <= 0 or clip_high <= 0:
        raise ValueError(f"expected positive clip ranges, got clip_low={clip_low}, clip_high={clip_high}")
    return _checked_shapes(mask, **per_sample_values)


def _checked_shapes(mask: Tensor | None, **per_sample_values: Tensor) -> Tensor:
    first = next(iter(per_sample_values.values()))
    mask = torch.ones_like(first, dtype=torch.bool) if mask is None else mask
    shapes = {name: list(value.shape) for name, value in {**per_sample_values, "mask": mask}.items()}
    if first.ndim != 1 or any(shape != list(first.shape) for shape in shapes.values()):
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"expected tensors of one shape [batch], got {found}")
    return mask


def _batch_mean(values: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, values, 0.0).sum() / len(values)


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, values, 0.0).sum() / mask.sum().clamp(min=1)


def nft_loss(
    velocity: Tensor,
    old_velocity: Tensor,
    noised: Tensor,
    clean: Tensor,
    sigma: float | Tensor,
    advantages: Tensor,
    *,
    beta: float,
    advantage_max: float,
    mask: Tensor | None = None,
) -> LossOutput:
    """Loss of DiffusionNFT (arXiv 2509.16117): learn towards good samples and away from bad ones, without likelihoods.

    The policy is trained on noised copies of its own clean samples. Its velocity is mirrored about the one of the
    policy that sampled, and each of the two predicts the sample; an advantage decides which prediction counts more::

        v+ = b v + (1 - b) v_old            v- = (1 + b) v_old - b v
        w  = clip(A / (2 A_max) + 1/2, 0, 1)
        l(v) = mean((x_t - sigma v - x0)^2) / max(mean|x_t - sigma v - x0|, 1e-5)       (the divisor has no gradient)
        loss = A_max * sum over samples of [ w l(v+) / b + (1 - w) l(v-) / b ] / batch

    Where `v = v_old` both predictions agree, and the gradient is that of `l` times A: nothing for an advantage of 0.

    Args:
        velocity: of the trained policy at `noised`, `[batch, tokens, channels]`, with gradient.
        old_velocity: of the policy that sampled, same shape.
        noised: `x_t = (1 - sigma) x0 + sigma e`, float32, same shape.
        clean: `x0`, same shape.
        sigma: noise share, one number or `[batch]`.
        advantages: `[batch]`; cut to `[-advantage_max, advantage_max]`.
        beta: `b`, how far the policy is mirrored, > 0; 1 is usual, 0.1 with several rewards.
        advantage_max: `A_max` > 0; 5 is usual.
        mask: boolean `[batch]`, False for samples whose reward failed.

    Returns:
        The loss, float32, and over valid samples: `positive_loss` and `negative_loss` (means of l), `old_deviation`
        (root mean square of `v - v_old`: 0 until the first optimizer step after the policies were equal).

    Raises:
        ValueError: when shapes differ, or beta or advantage_max is not positive.
    """
    if not beta > 0 or not advantage_max > 0:
        raise ValueError(f"expected beta > 0 and advantage_max > 0, got {beta} and {advantage_max}")
    mask = _checked_shapes(mask, advantages=advantages)
    shapes = {tuple(each.shape) for each in (velocity, old_velocity, noised, clean)}
    if len(shapes) != 1 or velocity.shape[0] != len(advantages):
        raise ValueError(f"expected velocities and latents of one shape with {len(advantages)} rows, got {shapes}")
    velocity, old_velocity, clean = velocity.float(), old_velocity.float().detach(), clean.detach()
    # Written about the old velocity, so that both sides are exactly equal while the policies are.
    change = beta * (velocity - old_velocity)
    positive = _prediction_loss(old_velocity + change, noised, clean, sigma)
    negative = _prediction_loss(old_velocity - change, noised, clean, sigma)
    weight = (advantages.float() / (2 * advantage_max) + 0.5).clamp(0, 1)
    per_sample_loss = advantage_max * (weight * positive + (1 - weight) * negative) / beta
    with torch.no_grad():
        metrics = {
            "positive_loss": _mean(positive, mask),
            "negative_loss": _mean(negative, mask),
            "old_deviation": _mean(mean_per_sample((velocity - old_velocity) ** 2), mask).sqrt(),
        }
    return LossOutput(_batch_mean(per_sample_loss, mask), metrics)


def _prediction_loss(velocity: Tensor, noised: Tensor, clean: Tensor, sigma: float | Tensor) -> Tensor:
    """Return the squared error of the predicted clean sample over its own size, float32 `[batch]`."""
    error = noised - per_sample(sigma, noised) * velocity - clean
    # Summed in float64: a mean of many small numbers is what the gradient is divided by.
    size = mean_per_sample(error.detach().double().abs()).clamp(min=1e-5)
    return mean_per_sample(error**2) / size.float()


def kl_exact(velocity: Tensor, reference_velocity: Tensor, sampler: StochasticSampler, sigmas: StepSigmas) -> Tensor:
    """Exact KL per element between the stochastic steps of policy and reference.

    Both steps are Gaussians of one variance, whose means differ by the velocities only: `mean over elements of
    (mu - mu_ref)^2 / (2 std^2)`. Computed in velocities, where less is lost to rounding. For an SDE with `d = sigma -
    sigma_next` and coefficient `g` that is::

        d / 2 * (1 / g + g (1 - sigma) / (2 sigma))^2 * mean over elements of (v - v_ref)^2

    Args:
        velocity: `[batch, tokens, channels]`; call this outside `no_grad`, its gradient is the point.
        reference_velocity: same shape, from the reference (adapters off, under `no_grad`).
        sampler: of the step.
        sigmas: where it lies in the schedule.

    Returns:
        float32 `[batch]`, >= 0.

    Raises:
        ValueError: where the step has no noise (the last step of CPS), since the KL of two points is not finite.
    """
    now, after = sigmas.like(velocity)
    slope, std = sampler.mean_slope(now, after, sigmas.sigma_max)
    if bool((std <= 0).any()):
        raise ValueError(
            f"expected steps with noise for a KL of their Gaussians, but {sampler.kind} has none at sigma_next = "
            f"{after.flatten().tolist()}; use kl_velocity"
        )
    difference = velocity.float() - reference_velocity.float().detach()
    return mean_per_sample(slope**2 / (2 * std**2) * difference**2)


def kl_mean_space(
    velocity: Tensor, reference_velocity: Tensor, sampler: StochasticSampler, sigmas: StepSigmas
) -> Tensor:
    """Flow-GRPO's KL: `kl_exact` without the step's length in the variance, `mean((mu - mu_ref)^2) / (2 g^2)`.

    It is `d` times the exact one with `g = std / sqrt(d)`, so that its weight is larger for the same effect (Flow-GRPO
    uses 0.04). Arguments and errors are those of `kl_exact`.
    """
    now, after = sigmas.like(velocity)
    return (now - after).flatten() * kl_exact(velocity, reference_velocity, sampler, sigmas)


def kl_velocity(velocity: Tensor, reference_velocity: Tensor) -> Tensor:
    """Mean squared difference of velocities: what DiffusionNFT and Edit-R1 keep a policy near its reference with.

    Up to a factor per time step it is the exact KL, and it needs no noise. No gradient flows into the reference.

    Args:
        velocity: `[batch, tokens, channels]`; call this outside `no_grad`.
        reference_velocity: same shape.

    Returns:
        float32 `[batch]`, >= 0.
    """
    return mean_per_sample((velocity.float() - reference_velocity.float().detach()) ** 2)
