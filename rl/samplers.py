"""Steps of a flow-matching sampler as pure functions in float32: the ODE, and the SDE that makes it stochastic.

Notation of the flow: `sigma` in [0, 1] is the noise share, 1 is pure noise; the sample at `sigma` is
`x = (1 - sigma) * x0 + sigma * e` with `e ~ N(0, I)`, and the model predicts the velocity `v = e - x0`.
Sampling walks from `sigma` to `sigma_next < sigma`. Latents are `[batch, tokens, channels]` (any rank works).

Nothing here reads or moves a global random state: noise is an argument, made by `noise_for` from stable seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gnomon.hashing import stable_seed


@dataclass(frozen=True)
class StepResult:
    """One stochastic step, all float32.

    `sample_next` and `mean` have the shape of the sample; `std` (of the transition) and `log_prob` are `[batch]`.
    """

    sample_next: Tensor
    mean: Tensor
    std: Tensor
    log_prob: Tensor


def per_sample(value: float | Tensor, like: Tensor) -> Tensor:
    """Spread one number, or one number per sample, over the trailing dimensions of `like`.

    Returns:
        float32 `[batch, 1, ..., 1]` on the device of `like`.

    Raises:
        ValueError: when `value` is neither a scalar nor `[batch]`.
    """
    tensor = torch.as_tensor(value, dtype=torch.float32, device=like.device)
    batch = like.shape[0]
    if tensor.ndim == 0:
        tensor = tensor.expand(batch)
    if tensor.shape != (batch,):
        raise ValueError(f"expected one number or one per sample [{batch}], got shape {list(tensor.shape)}")
    return tensor.view(batch, *[1] * (like.ndim - 1))


def diffusion_coefficient(sigma: Tensor, noise_level: float, sigma_max: float) -> Tensor:
    """Flow-SDE's `g(sigma) = noise_level * sqrt(sigma / (1 - min(sigma, sigma_max)))`.

    The published formula (Flow-GRPO, arXiv 2505.05470) has a pole at `sigma == 1` and steps around it with a
    float equality; a bound also holds for a schedule that starts at 0.9999. `sigma_max` is the second sigma of
    the schedule, below which the bound changes nothing.

    Raises:
        ValueError: when `sigma_max` is not inside (0, 1).
    """
    if not 0.0 < sigma_max < 1.0:
        raise ValueError(f"expected sigma_max, the second sigma of the schedule, inside (0, 1), got {sigma_max}")
    return noise_level * torch.sqrt(sigma / (1.0 - sigma.clamp(max=sigma_max)))


def ode_step(sample: Tensor, velocity: Tensor, sigma: float | Tensor, sigma_next: float | Tensor) -> Tensor:
    """Euler step of the probability-flow ODE: `x' = x + (sigma_next - sigma) * v`, float32."""
    _expect_float32(sample=sample)
    return sample + (per_sample(sigma_next, sample) - per_sample(sigma, sample)) * velocity.float()


def flow_sde_step(
    sample: Tensor,
    velocity: Tensor,
    sigma: float | Tensor,
    sigma_next: float | Tensor,
    noise_level: float,
    *,
    noise: Tensor | None = None,
    sample_next: Tensor | None = None,
    sigma_max: float,
) -> StepResult:
    """Take or replay one Flow-SDE step and say how likely it was.

    With `d = sigma - sigma_next` and `g = diffusion_coefficient(sigma)`::

        mean     = x - d * [ v + g^2 / (2 sigma) * (x + (1 - sigma) v) ]
        x'       = mean + g sqrt(d) * noise
        log_prob = mean over elements of [ -(x' - mean)^2 / (2 g^2 d) - log(g sqrt(d)) - log(2 pi) / 2 ]

    (Flow-GRPO, arXiv 2505.05470.) The log-probability is the **mean** over the D latent
    elements, not their sum: a ratio of two of them is the true ratio to the power of 1/D. That is why clip
    ranges are 1e-5 to 1e-2 here and not 0.2.

    Args:
        sample: the latents `x`, float32 `[batch, tokens, channels]`.
        velocity: the model's prediction for them, same shape, any float dtype; gradients flow through it.
        sigma: noise share of `sample`, in (0, 1]; one number or `[batch]`.
        sigma_next: the next, smaller noise share, in (0, 1).
        noise_level: the scale `a` of the added noise, > 0 (0.7 to 1 are common).
        noise: standard normal, same shape: draws `x'`. Exactly one of `noise` and `sample_next` is given.
        sample_next: a stored `x'` (float32), to replay a step; no gradient flows into it.
        sigma_max: the second sigma of the schedule, see `diffusion_coefficient`.

    Raises:
        ValueError: for a last step (`sigma_next == 0`, where the exact noise is none), for sigmas that do not
            decrease, for latents that are not float32, and for both or neither of `noise` and `sample_next`.
    """
    if (noise is None) == (sample_next is None):
        raise ValueError("expected exactly one of noise (to draw a step) and sample_next (to replay one)")
    if noise_level <= 0:
        raise ValueError(f"expected noise_level > 0, got {noise_level}; use ode_step for a step without noise")
    stored = {} if sample_next is None else {"sample_next": sample_next}
    _expect_float32(sample=sample, **stored)
    now, after = per_sample(sigma, sample), per_sample(sigma_next, sample)
    _expect_stochastic(now, after)

    velocity = velocity.float()
    delta = now - after
    g = diffusion_coefficient(now, noise_level, sigma_max)
    mean = sample - delta * (velocity + g**2 / (2 * now) * (sample + (1 - now) * velocity))
    std = g * torch.sqrt(delta)
    if sample_next is None:
        assert noise is not None
        sample_next = mean + std * noise.float()
    sample_next = sample_next.detach()
    element = -((sample_next - mean) ** 2) / (2 * std**2) - torch.log(std) - 0.5 * math.log(2 * math.pi)
    return StepResult(sample_next, mean, std.flatten(), element.flatten(1).mean(dim=1))


def _expect_float32(**latents: Tensor) -> None:
    # A stored bfloat16 x' is not the x' that was drawn: the ratio then starts below 1 and only one side clips.
    for name, tensor in latents.items():
        if tensor.dtype != torch.float32:
            raise ValueError(f"expected {name} in float32, got {tensor.dtype}; keep trajectories in float32")


def _expect_stochastic(sigma: Tensor, sigma_next: Tensor) -> None:
    if bool((sigma_next <= 0).any()):
        raise ValueError(
            "the last step (sigma_next = 0) is never stochastic: noise added there stays in the picture. "
            "Let the SDE window end before the last step"
        )
    if bool((sigma <= sigma_next).any()):
        raise ValueError(
            f"expected sigma > sigma_next, got {sigma.flatten().tolist()} to {sigma_next.flatten().tolist()}"
        )


def sde_window(seed: int, iteration: int, num_steps: int, size: int, first: int, last: int) -> range:
    """Choose the steps of one iteration that are stochastic: `size` neighbouring ones, starting in `first..last`.

    The window depends on seed and iteration only, so all members of all groups and all ranks share it (else
    the time step would leak into the advantage), and it moves from iteration to iteration.

    Args:
        seed: the run's seed.
        iteration: counted from 0.
        num_steps: steps of the sampler, `len(sigmas) - 1`.
        size: number of stochastic steps, >= 1.
        first: earliest start.
        last: latest start, inclusive.

    Raises:
        ValueError: when a window could hold the last step, which is never stochastic, or is empty.
    """
    if size < 1 or not 0 <= first <= last:
        raise ValueError(f"expected size >= 1 and 0 <= first <= last, got size={size}, first={first}, last={last}")
    if last + size > num_steps - 1:
        raise ValueError(
            f"expected a window of {size} steps that starts at {first}..{last} to end before the last of {num_steps} "
            f"steps, which is never stochastic; make the window smaller or last at most {num_steps - 1 - size}"
        )
    start = first + stable_seed(seed, "sde window", iteration) % (last - first + 1)
    return range(start, start + size)


def noise_for(parts: Sequence[str | int], shape: Sequence[int]) -> Tensor:
    """Draw standard normal noise that belongs to `parts` alone: `noise_for((seed, case.id, member, step), shape)`.

    The same parts give the same noise in any batch, process and order, so one candidate can be made again by itself.

    Returns:
        float32 of `shape`, on the CPU (a GPU's generator would give other numbers).
    """
    generator = torch.Generator().manual_seed(stable_seed(*parts))
    return torch.randn(*shape, generator=generator, dtype=torch.float32)
