"""Steps of a flow-matching sampler as pure functions in float32: the ODE, and three ways to make it stochastic.

Notation of the flow: `sigma` in [0, 1] is the noise share, 1 is pure noise; the sample at `sigma` is
`x = (1 - sigma) * x0 + sigma * e` with `e ~ N(0, I)`, and the model predicts the velocity `v = e - x0`.
Sampling walks from `sigma` to `sigma_next < sigma`. Latents are `[batch, tokens, channels]` (any rank works).

Flow-SDE and Dance-SDE are one reverse-time SDE with two diffusion coefficients; CPS (coefficients-preserving sampling)
mixes the predicted picture and the predicted noise anew. `StochasticSampler` is the choice of a config, and takes and
replays steps; the formulas are the functions below it. Nothing here reads or moves a global random state: noise is an
argument, made by `noise_for` from stable seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self, get_args

import torch
from torch import Tensor

from gnomon.hashing import stable_seed

SDEKind = Literal["flow_sde", "dance_sde", "cps"]


@dataclass(frozen=True)
class StepSigmas:
    """Where a step lies in its schedule.

    Attributes:
        sigma: noise share before the step, in (0, 1]; one number or `[batch]`.
        sigma_next: the smaller one after it, likewise.
        sigma_max: the second sigma of the schedule, see `diffusion_coefficient`.
    """

    sigma: float | Tensor
    sigma_next: float | Tensor
    sigma_max: float

    @classmethod
    def of(cls, schedule: Tensor, step: int) -> Self:
        """Return those of a step of a schedule `[steps + 1]`."""
        return cls(schedule[step].item(), schedule[step + 1].item(), schedule[1].item())

    def like(self, latents: Tensor) -> tuple[Tensor, Tensor]:
        """Return the noise shares before and after, float32 `[batch, 1, ..., 1]`.

        Raises:
            ValueError: when they do not decrease.
        """
        now, after = per_sample(self.sigma, latents), per_sample(self.sigma_next, latents)
        if bool((now <= after).any()):
            raise ValueError(f"expected sigma > sigma_next, got {now.flatten().tolist()} to {after.flatten().tolist()}")
        return now, after


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


@dataclass(frozen=True)
class StochasticSampler:
    """Which stochastic step a rollout takes, and how noisy it is.

    Attributes:
        kind: "flow_sde", "dance_sde" or "cps".
        noise_level: of that step, > 0: the scale of `diffusion_coefficient` for flow_sde (0.7 to 1 are common), the
            diffusion coefficient itself for dance_sde (0.3 to 0.7), the share of the noise that is fresh for cps (0.8
            of at most 1).
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
        if not 0 < self.noise_level < math.inf:
            raise ValueError(f"expected a finite noise_level > 0, got {self.noise_level}")
        if self.kind == "cps" and self.noise_level > 1:
            raise ValueError(
                f"expected noise_level in (0, 1] for CPS, where 1 replaces all noise, got {self.noise_level}"
            )

    def step(
        self,
        sample: Tensor,
        velocity: Tensor,
        sigmas: StepSigmas,
        *,
        noise: Tensor | None = None,
        sample_next: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> StepResult:
        """Take (with `noise`) or replay (with `sample_next`) one step and say how likely it was.

        With mean and std as in `sde_transition` and `cps_transition`::

            x'            = mean + std * noise
            log_prob      = mean over elements of [ -(x' - mean)^2 / (2 std^2) - log(std) - log(2 pi) / 2 ]
            log_prob(cps) = mean over elements of -(x' - mean)^2

        The log-probability is the **mean** over the D latent elements, not their sum: a ratio of two of them is the
        true ratio to the power of 1/D. That is why clip ranges are 1e-5 to 1e-2 here and not 0.2. That of CPS lacks the
        usual `1 / (2 std^2)`, as in all published code: a ratio has another temperature than with an SDE, so **clip
        ranges do not carry over** (1e-5 where an SDE has 1e-4).

        Args:
            sample: the latents `x`, float32 `[batch, tokens, channels]`.
            velocity: the model's prediction for them, same shape, any float dtype; gradients flow through it.
            sigmas: where the step lies.
            noise: standard normal, same shape: draws `x'`. Exactly one of `noise` and `sample_next` is given.
            sample_next: a stored `x'` (float32), to replay a step; no gradient flows into it.
            mask: which tokens count in the log-probability, see `mean_per_sample`; default all.

        Raises:
            ValueError: for the last step of an SDE (`sigma_next == 0`, where the exact noise is none), for sigmas that
                do not decrease, for latents that are not float32, for tensors of other shapes than the sample's, and
                for both or neither of `noise` and `sample_next`.
        """
        _check_tensors(sample, velocity, noise, sample_next)
        now, after = sigmas.like(sample)
        if self.kind == "cps":
            mean, std = cps_transition(sample, velocity.float(), now, after, self.noise_level)
        else:
            g = self._coefficient(now, sigmas.sigma_max)
            mean, std = sde_transition(sample, velocity.float(), now, after, g)
        if sample_next is None:
            assert noise is not None
            sample_next = mean + std * noise.float()
        sample_next = sample_next.detach()
        if self.kind == "cps":
            element = -((sample_next - mean) ** 2)
        else:
            element = -((sample_next - mean) ** 2) / (2 * std**2) - torch.log(std) - 0.5 * math.log(2 * math.pi)
        return StepResult(sample_next, mean, std.flatten(), mean_per_sample(element, mask))

    def _coefficient(self, sigma: Tensor, sigma_max: float) -> Tensor:
        """Return the diffusion coefficient `g` of an SDE."""
        if self.kind == "flow_sde":
            return diffusion_coefficient(sigma, self.noise_level, sigma_max)
        return torch.full_like(sigma, self.noise_level)

    def mean_slope(self, sigma: Tensor, sigma_next: Tensor, sigma_max: float) -> tuple[Tensor, Tensor]:
        """Say how far a step's mean moves with the velocity, and its std: what a KL of two steps depends on.

        The mean is linear in the velocity, with the same slope for all elements::

            SDE: -d (1 + g^2 (1 - sigma) / (2 sigma)),    std = g sqrt(d)
            CPS: -(1 - sigma_next) sigma + sigma_next cos(noise_level pi / 2) (1 - sigma),    std as in `cps_transition`

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
        g = self._coefficient(sigma, sigma_max)
        return -delta * (1 + g**2 * (1 - sigma) / (2 * sigma)), g * torch.sqrt(delta)


def sde_transition(
    sample: Tensor, velocity: Tensor, sigma: Tensor, sigma_next: Tensor, g: Tensor
) -> tuple[Tensor, Tensor]:
    """Return mean and std of a step of the reverse-time SDE with diffusion coefficient `g`.

    With `d = sigma - sigma_next`::

        mean = x - d * [ v + g^2 / (2 sigma) * (x + (1 - sigma) v) ]
        std  = g sqrt(d)

    Flow-SDE (Flow-GRPO, arXiv 2505.05470) has `g = diffusion_coefficient(sigma)`, Dance-SDE (DanceGRPO, arXiv
    2505.07818) a constant one; the latter is written there as the Euler step plus half of `g^2` times the score
    `-(x + (1 - sigma) v) / sigma`, which is the same.

    Args:
        sample: `x`, float32 `[batch, tokens, channels]`.
        velocity: `v`, float32, same shape.
        sigma: `[batch, 1, 1]`.
        sigma_next: likewise, above 0.
        g: likewise.

    Raises:
        ValueError: for a last step.
    """
    if bool((sigma_next <= 0).any()):
        raise ValueError(
            "the last step (sigma_next = 0) is never stochastic: noise added there stays in the picture. "
            "Let the SDE window end before the last step"
        )
    delta = sigma - sigma_next
    mean = sample - delta * (velocity + g**2 / (2 * sigma) * (sample + (1 - sigma) * velocity))
    return mean, g * torch.sqrt(delta)


def cps_transition(
    sample: Tensor, velocity: Tensor, sigma: Tensor, sigma_next: Tensor, noise_level: float
) -> tuple[Tensor, Tensor]:
    """Return mean and std of a step of coefficients-preserving sampling (Flow-CPS, arXiv 2509.05952).

    The velocity predicts the picture `x0 = x - sigma v` and the noise `x1 = x + (1 - sigma) v`; a part of the noise is
    replaced by fresh noise, so that `x'` has exactly the noise share `sigma_next` (an SDE step overshoots it)::

        mean = (1 - sigma_next) x0 + sigma_next cos(noise_level pi / 2) x1
        std  = sigma_next sin(noise_level pi / 2)

    At `sigma_next == 0` the step is the ODE's: std is 0 and the mean is `x0`. Arguments as in `sde_transition`.
    """
    kept, fresh = _cps_shares(noise_level)
    mean = (1 - sigma_next) * (sample - sigma * velocity) + sigma_next * kept * (sample + (1 - sigma) * velocity)
    return mean, sigma_next * fresh


def _cps_shares(noise_level: float) -> tuple[float, float]:
    """Return the shares of kept and of fresh noise; their squares add up to 1."""
    angle = noise_level * math.pi / 2
    return math.cos(angle), math.sin(angle)


def _check_tensors(sample: Tensor, velocity: Tensor, noise: Tensor | None, sample_next: Tensor | None) -> None:
    """Check what a stochastic step is given."""
    if (noise is None) == (sample_next is None):
        raise ValueError("expected exactly one of noise (to draw a step) and sample_next (to replay one)")
    stored = {} if sample_next is None else {"sample_next": sample_next}
    _expect_float32(sample=sample, **stored)
    others = [tensor for tensor in (velocity, noise, sample_next) if tensor is not None]
    if any(tensor.shape != sample.shape for tensor in others):  # one row would be broadcast to all
        raise ValueError(
            f"expected velocity and noise (or sample_next) of the sample's shape {list(sample.shape)}, got "
            f"{' and '.join(str(list(tensor.shape)) for tensor in others)}"
        )


def _expect_float32(**latents: Tensor) -> None:
    # A stored bfloat16 x' is not the x' that was drawn: the ratio then starts below 1 and only one side clips.
    for name, tensor in latents.items():
        if tensor.dtype != torch.float32:
            raise ValueError(f"expected {name} in float32, got {tensor.dtype}; keep trajectories in float32")


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
            f"steps, which is never stochastic; {_what_fits(num_steps, size, first, last)}"
        )
    start = first + stable_seed(seed, "sde window", iteration) % (last - first + 1)
    return range(start, start + size)


def _what_fits(num_steps: int, size: int, first: int, last: int) -> str:
    """Say how a window that does not fit into a schedule is to be changed."""
    if num_steps < 2:
        return "no window fits, take 2 steps or more"
    ways = []
    if num_steps - 1 - last >= 1:
        ways.append(f"make size at most {num_steps - 1 - last}")
    latest = num_steps - 1 - size
    if latest >= first:
        ways.append(f"make last at most {latest}")
    elif latest >= 0:
        ways.append(f"make first and last at most {latest}")
    ways.append(f"take at least {last + size + 1} steps")
    return ", or ".join(ways)


def noise_for(parts: Sequence[str | int], shape: Sequence[int]) -> Tensor:
    """Draw standard normal noise that belongs to `parts` alone: `noise_for((seed, case.id, member, step), shape)`.

    The same parts give the same noise in any batch, process and order, so one candidate can be made again by itself.

    Returns:
        float32 of `shape`, on the CPU (a GPU's generator would give other numbers).
    """
    generator = torch.Generator().manual_seed(stable_seed(*parts))
    return torch.randn(*shape, generator=generator, dtype=torch.float32)
