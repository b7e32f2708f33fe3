"""Steps of a flow-matching sampler as pure functions in float32: the ODE, and three ways to make it stochastic.

Notation of the flow: `sigma` in [0, 1] is the noise share, 1 is pure noise; the sample at `sigma` is
`x = (1 - sigma) * x0 + sigma * e` with `e ~ N(0, I)`, and the model predicts the velocity `v = e - x0`.
Sampling walks from `sigma` to `sigma_next < sigma`. Latents are `[batch, tokens, channels]` (any rank works).

Flow-SDE and Dance-SDE are one reverse-time SDE with two diffusion coefficients; CPS (coefficients-preserving sampling)
mixes the predicted picture and the predicted noise anew. `StochasticSampler` is the choice of a config; below it stand
plain functions. Nothing here reads or moves a global random state: noise is an argument, made by `noise_for` from
stable seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from gnomon.hashing import stable_seed

SDEKind = Literal["flow_sde", "dance_sde", "cps"]


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


def mean_per_sample(values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Average over all dimensions but the first.

    Args:
        values: `[batch, tokens, channels]`.
        mask: boolean, True where a value counts; `[batch, tokens]`, or any shape whose dimensions are the first ones of
            `values`. Rows padded to one length then mean what they mean alone.

    Returns:
        `[batch]`.

    Raises:
        ValueError: when the mask does not fit, or leaves nothing of a row.
    """
    if mask is None:
        return values.flatten(1).mean(dim=1)
    if mask.shape != values.shape[: mask.ndim]:
        raise ValueError(f"expected a mask over the first dimensions of {list(values.shape)}, got {list(mask.shape)}")
    weights = mask.reshape(*mask.shape, *[1] * (values.ndim - mask.ndim)).expand_as(values)
    counts = weights.flatten(1).sum(dim=1)
    if bool((counts == 0).any()):
        raise ValueError("expected a mask that leaves something of every row")
    return torch.where(weights, values, 0.0).flatten(1).sum(dim=1) / counts


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
    mask: Tensor | None = None,
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
        mask: which tokens count in the log-probability, see `mean_per_sample`; default all.

    Raises:
        ValueError: for a last step (`sigma_next == 0`, where the exact noise is none), for sigmas that do not
            decrease, for latents that are not float32, and for both or neither of `noise` and `sample_next`.
    """
    now, after = _checked(sample, sigma, sigma_next, noise_level, noise, sample_next)
    return _sde_step(
        sample, velocity, now, after, diffusion_coefficient(now, noise_level, sigma_max), noise, sample_next, mask
    )


def dance_sde_step(
    sample: Tensor,
    velocity: Tensor,
    sigma: float | Tensor,
    sigma_next: float | Tensor,
    noise_level: float,
    *,
    noise: Tensor | None = None,
    sample_next: Tensor | None = None,
    mask: Tensor | None = None,
) -> StepResult:
    """Take or replay one Dance-SDE step: `flow_sde_step` with the constant `g = noise_level` (0.3 to 0.7 are common).

    DanceGRPO (arXiv 2505.07818) writes it as the Euler step plus half of `g^2` times the score
    `-(x + (1 - sigma) v) / sigma`, which is the same. Arguments and errors are those of `flow_sde_step`.
    """
    now, after = _checked(sample, sigma, sigma_next, noise_level, noise, sample_next)
    return _sde_step(sample, velocity, now, after, torch.full_like(now, noise_level), noise, sample_next, mask)


def _sde_step(
    sample: Tensor,
    velocity: Tensor,
    now: Tensor,
    after: Tensor,
    g: Tensor,
    noise: Tensor | None,
    sample_next: Tensor | None,
    mask: Tensor | None,
) -> StepResult:
    _expect_stochastic(after)
    velocity = velocity.float()
    delta = now - after
    mean = sample - delta * (velocity + g**2 / (2 * now) * (sample + (1 - now) * velocity))
    std = g * torch.sqrt(delta)
    sample_next = _drawn(mean, std, noise, sample_next)
    element = -((sample_next - mean) ** 2) / (2 * std**2) - torch.log(std) - 0.5 * math.log(2 * math.pi)
    return StepResult(sample_next, mean, std.flatten(), mean_per_sample(element, mask))


def cps_step(
    sample: Tensor,
    velocity: Tensor,
    sigma: float | Tensor,
    sigma_next: float | Tensor,
    noise_level: float,
    *,
    noise: Tensor | None = None,
    sample_next: Tensor | None = None,
    mask: Tensor | None = None,
) -> StepResult:
    """Take or replay one step of coefficients-preserving sampling (Flow-CPS, arXiv 2509.05952).

    The velocity predicts the picture `x0 = x - sigma v` and the noise `x1 = x + (1 - sigma) v`; a part of the noise is
    replaced by fresh noise, so that `x'` has exactly the noise share `sigma_next` (an SDE step overshoots it)::

        std      = sigma_next sin(noise_level pi / 2)
        mean     = (1 - sigma_next) x0 + sigma_next cos(noise_level pi / 2) x1
        x'       = mean + std * noise
        log_prob = mean over elements of -(x' - mean)^2

    The log-probability lacks the usual `1 / (2 std^2)`, as in all published code: a ratio has another temperature than
    with an SDE, so **clip ranges do not carry over** (1e-5 here where an SDE has 1e-4). At `sigma_next == 0` the step
    is the ODE's: std is 0 and `x' = x0`.

    Args:
        sample: as in `flow_sde_step`, like all the others.
        velocity: the prediction.
        sigma: noise share before the step.
        sigma_next: noise share after it; 0 is allowed.
        noise_level: share of the noise that is fresh, in (0, 1] (0.8 is common).
        noise: draws `x'`.
        sample_next: replays a step.
        mask: which tokens count in the log-probability.

    Raises:
        ValueError: as `flow_sde_step`, and for a noise_level above 1.
    """
    now, after = _checked(sample, sigma, sigma_next, noise_level, noise, sample_next)
    kept, fresh = _cps_shares(noise_level)
    velocity = velocity.float()
    mean = (1 - after) * (sample - now * velocity) + after * kept * (sample + (1 - now) * velocity)
    std = after * fresh
    sample_next = _drawn(mean, std, noise, sample_next)
    return StepResult(sample_next, mean, std.flatten(), mean_per_sample(-((sample_next - mean) ** 2), mask))


def _cps_shares(noise_level: float) -> tuple[float, float]:
    """Return the shares of kept and of fresh noise; their squares add up to 1."""
    if noise_level > 1:
        raise ValueError(f"expected noise_level in (0, 1] for CPS, where 1 replaces all noise, got {noise_level}")
    angle = noise_level * math.pi / 2
    return math.cos(angle), math.sin(angle)


@dataclass(frozen=True)
class StochasticSampler:
    """Which stochastic step a rollout takes, and how noisy it is.

    Attributes:
        kind: "flow_sde", "dance_sde" or "cps".
        noise_level: of that step, > 0; what it means differs, see the functions.
    """

    kind: SDEKind
    noise_level: float

    def __post_init__(self) -> None:
        """Refuse what no step takes.

        Raises:
            ValueError: for an unknown kind, or a noise level that it does not take.
        """
        if self.kind not in get_args(SDEKind):
            raise ValueError(f"expected a sampler of {', '.join(get_args(SDEKind))}, got {self.kind!r}")
        if not self.noise_level > 0:
            raise ValueError(f"expected noise_level > 0, got {self.noise_level}")
        if self.kind == "cps":
            _cps_shares(self.noise_level)

    def step(
        self,
        sample: Tensor,
        velocity: Tensor,
        sigma: float | Tensor,
        sigma_next: float | Tensor,
        *,
        sigma_max: float,
        noise: Tensor | None = None,
        sample_next: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> StepResult:
        """Take (with `noise`) or replay (with `sample_next`) one step; arguments and errors as in `flow_sde_step`."""
        level = self.noise_level
        if self.kind == "flow_sde":
            return flow_sde_step(
                sample, velocity, sigma, sigma_next, level,
                noise=noise, sample_next=sample_next, sigma_max=sigma_max, mask=mask,
            )  # fmt: skip
        step = dance_sde_step if self.kind == "dance_sde" else cps_step
        return step(sample, velocity, sigma, sigma_next, level, noise=noise, sample_next=sample_next, mask=mask)

    def mean_slope(self, sigma: Tensor, sigma_next: Tensor, sigma_max: float) -> tuple[Tensor, Tensor]:
        """Say how far a step's mean moves with the velocity, and its std: what a KL of two steps depends on.

        The mean is linear in the velocity, with the same slope for all elements::

            SDE: -d (1 + g^2 (1 - sigma) / (2 sigma)),    std = g sqrt(d)
            CPS: -(1 - sigma_next) sigma + sigma_next cos(noise_level pi / 2) (1 - sigma),    std as in `cps_step`

        Args:
            sigma: noise shares before the step, float32 of any shape.
            sigma_next: those after it, same shape.
            sigma_max: the second sigma of the schedule.

        Returns:
            The slope `d mean / d velocity` and the std, both of the shape of `sigma`.
        """
        if self.kind == "cps":
            kept, fresh = _cps_shares(self.noise_level)
            return -(1 - sigma_next) * sigma + sigma_next * kept * (1 - sigma), sigma_next * fresh
        delta = sigma - sigma_next
        g = torch.full_like(sigma, self.noise_level)
        if self.kind == "flow_sde":
            g = diffusion_coefficient(sigma, self.noise_level, sigma_max)
        return -delta * (1 + g**2 * (1 - sigma) / (2 * sigma)), g * torch.sqrt(delta)


def _checked(
    sample: Tensor,
    sigma: float | Tensor,
    sigma_next: float | Tensor,
    noise_level: float,
    noise: Tensor | None,
    sample_next: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Check what all stochastic steps ask for, and return both sigmas as `[batch, 1, 1]`."""
    if (noise is None) == (sample_next is None):
        raise ValueError("expected exactly one of noise (to draw a step) and sample_next (to replay one)")
    if noise_level <= 0:
        raise ValueError(f"expected noise_level > 0, got {noise_level}; use ode_step for a step without noise")
    stored = {} if sample_next is None else {"sample_next": sample_next}
    _expect_float32(sample=sample, **stored)
    now, after = per_sample(sigma, sample), per_sample(sigma_next, sample)
    if bool((now <= after).any()):
        raise ValueError(f"expected sigma > sigma_next, got {now.flatten().tolist()} to {after.flatten().tolist()}")
    return now, after


def _drawn(mean: Tensor, std: Tensor, noise: Tensor | None, sample_next: Tensor | None) -> Tensor:
    if sample_next is None:
        assert noise is not None
        sample_next = mean + std * noise.float()
    return sample_next.detach()


def _expect_float32(**latents: Tensor) -> None:
    # A stored bfloat16 x' is not the x' that was drawn: the ratio then starts below 1 and only one side clips.
    for name, tensor in latents.items():
        if tensor.dtype != torch.float32:
            raise ValueError(f"expected {name} in float32, got {tensor.dtype}; keep trajectories in float32")


def _expect_stochastic(sigma_next: Tensor) -> None:
    if bool((sigma_next <= 0).any()):
        raise ValueError(
            "the last step (sigma_next = 0) is never stochastic: noise added there stays in the picture. "
            "Let the SDE window end before the last step"
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
