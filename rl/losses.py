"""Losses of policy-gradient training as pure functions that return the loss and its metrics."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rl.samplers import diffusion_coefficient, per_sample


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
    if clip_low <= 0 or clip_high <= 0:
        raise ValueError(f"expected positive clip ranges, got clip_low={clip_low}, clip_high={clip_high}")
    mask = torch.ones_like(log_prob, dtype=torch.bool) if mask is None else mask
    if not log_prob.ndim == 1 or not log_prob.shape == old_log_prob.shape == advantages.shape == mask.shape:
        raise ValueError(
            f"expected four tensors of one shape [batch], got log_prob {list(log_prob.shape)}, old_log_prob "
            f"{list(old_log_prob.shape)}, advantages {list(advantages.shape)}, mask {list(mask.shape)}"
        )
    advantages = advantages.to(log_prob.dtype)
    ratio = torch.exp(log_prob - old_log_prob.detach())
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    per_sample_loss = torch.maximum(-advantages * ratio, -advantages * clipped)
    loss = torch.where(mask, per_sample_loss, 0.0).sum() / log_prob.shape[0]
    with torch.no_grad():
        stopped = ((advantages > 0) & (ratio > 1 + clip_high)) | ((advantages < 0) & (ratio < 1 - clip_low))
        log_ratio = (log_prob - old_log_prob).double()
        metrics = {
            "ratio_mean": _mean(ratio, mask),
            "ratio_deviation": torch.where(mask, (ratio - 1).abs(), 0.0).max(),
            "clip_fraction": _mean(stopped.float(), mask),
            "approx_kl": _mean(torch.expm1(log_ratio) - log_ratio, mask).float(),
        }
    return LossOutput(loss, metrics)


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, values, 0.0).sum() / mask.sum().clamp(min=1)


def kl_velocity(
    velocity: Tensor,
    reference_velocity: Tensor,
    sigma: float | Tensor,
    sigma_next: float | Tensor,
    noise_level: float,
    *,
    sigma_max: float,
) -> Tensor:
    """Exact KL per element between the Flow-SDE steps of policy and reference, written in their velocities.

    Both steps are Gaussians of one variance, whose means differ by the velocities only. With `d = sigma -
    sigma_next` and `g = diffusion_coefficient(sigma)`::

        KL = d / 2 * (1 / g + g (1 - sigma) / (2 sigma))^2 * mean over elements of (v - v_ref)^2

    which equals `mean((mu - mu_ref)^2) / (2 g^2 d)`. Like the log-probability it is a mean over latent elements.

    Args:
        velocity: `[batch, tokens, channels]`; call this outside `no_grad`, its gradient is the point.
        reference_velocity: same shape, from the reference (adapters off, under `no_grad`).
        sigma: noise share of the sample, one number or `[batch]`.
        sigma_next: the next one.
        noise_level: as in `flow_sde_step`.
        sigma_max: as in `flow_sde_step`.

    Returns:
        float32 `[batch]`, >= 0.
    """
    now, after = per_sample(sigma, velocity), per_sample(sigma_next, velocity)
    g = diffusion_coefficient(now, noise_level, sigma_max)
    weight = (now - after) / 2 * (1 / g + g * (1 - now) / (2 * now)) ** 2
    difference = velocity.float() - reference_velocity.float().detach()
    return (weight * difference**2).flatten(1).mean(dim=1)
