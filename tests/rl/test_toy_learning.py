"""Samplers, advantages and losses together: a flow model of a few hundred parameters learns a reward in seconds."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from rl.advantages import group_advantages
from rl.losses import grpo_loss, guard_loss, nft_loss
from rl.samplers import StepResult, StepSigmas, StochasticSampler, noise_for, ode_step, sde_window

SIGMAS = [1.0, 0.9, 0.75, 0.5, 0.25, 0.0]
GROUPS, MEMBERS = 4, 16
FLOW_SDE, CPS = StochasticSampler("flow_sde", 0.9), StochasticSampler("cps", 0.8)

pytestmark = pytest.mark.slow


class ToyFlow(nn.Module):
    """Predicts a velocity in the plane from position, noise share and a condition per group."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, x: Tensor, sigma: float, condition: Tensor) -> Tensor:
        velocity: Tensor = self.net(torch.cat([x, torch.full_like(x[:, :1], sigma), condition], dim=1))
        return velocity


# Each group wants its points on another side, so the condition has to be learnt as well.
CONDITION = torch.tensor([[-1.0], [1.0]] * (GROUPS // 2)).repeat_interleave(MEMBERS, dim=0)


@torch.no_grad()
def rollout(
    model: ToyFlow, iteration: int, window: range, sampler: StochasticSampler | None
) -> tuple[Tensor, list[Tensor]]:
    """Return the final points, and those at the borders of the window's steps."""
    x, kept = noise_for(("start", iteration), (len(CONDITION), 2)), []
    for step in range(len(SIGMAS) - 1):
        if step == window.start:
            kept.append(x)
        velocity = model(x, SIGMAS[step], CONDITION)
        if step in window:
            assert sampler is not None
            noise = noise_for(("sde", iteration, step), x.shape)
            x = sampler.step(x, velocity, StepSigmas.of(torch.tensor(SIGMAS), step), noise=noise).sample_next
            kept.append(x)
        else:
            x = ode_step(x, velocity, SIGMAS[step], SIGMAS[step + 1])
    return x, kept


def advantages_of(points: Tensor) -> tuple[float, Tensor]:
    """Return the mean reward and the advantages: how far right or left, as the group's condition says."""
    rewards = points[:, 0] * CONDITION[:, 0]
    group_ids = [row // MEMBERS for row in range(len(rewards))]
    return rewards.mean().item(), group_advantages(rewards, group_ids).values.float()


PolicyLoss = Callable[[StepResult, StepResult, Tensor, float], Tensor]


def policy_gradients(sampler: StochasticSampler, loss_of: PolicyLoss) -> Callable[[ToyFlow], list[float]]:
    """Train on the stochastic steps of a moving window; returns the mean reward of each iteration."""

    def train(model: ToyFlow) -> list[float]:
        optimizer, means = torch.optim.Adam(model.parameters(), lr=1e-2), []
        for iteration in range(60):
            window = sde_window(0, iteration, len(SIGMAS) - 1, size=2, first=0, last=2)
            points, kept = rollout(model, iteration, window, sampler)
            mean, advantages = advantages_of(points)
            means.append(mean)

            def replay(place: int, window: range = window, kept: list[Tensor] = kept) -> StepResult:
                step = window[place]
                velocity = model(kept[place], SIGMAS[step], CONDITION)
                return sampler.step(
                    kept[place], velocity, StepSigmas.of(torch.tensor(SIGMAS), step), sample_next=kept[place + 1]
                )

            with torch.no_grad():
                old = [replay(place) for place in range(len(window))]
            for _ in range(2):
                losses = [
                    loss_of(replay(place), old[place], advantages, SIGMAS[step] - SIGMAS[step + 1])
                    for place, step in enumerate(window)
                ]
                optimizer.zero_grad()
                torch.stack(losses).mean().backward()
                optimizer.step()
        return means

    return train


def plain(clip: float) -> PolicyLoss:
    def loss(new: StepResult, old: StepResult, advantages: Tensor, delta: float) -> Tensor:
        return grpo_loss(new.log_prob, old.log_prob, advantages, clip_low=clip, clip_high=clip).loss

    return loss


def guarded(new: StepResult, old: StepResult, advantages: Tensor, delta: float) -> Tensor:
    length = torch.full_like(advantages, delta)
    return guard_loss(
        new.mean, old.mean, old.sample_next, new.std, length, advantages, clip_low=0.1, clip_high=0.1
    ).loss


def nft(model: ToyFlow) -> list[float]:
    """Train on clean points of a policy that follows slowly; returns the mean reward of each iteration."""
    old = copy.deepcopy(model)
    optimizer, means = torch.optim.Adam(model.parameters(), lr=1e-2), []
    for iteration in range(60):
        points, _ = rollout(old, iteration, range(0), None)
        mean, advantages = advantages_of(points)
        means.append(mean)
        for step in torch.randperm(len(SIGMAS) - 1, generator=torch.Generator().manual_seed(iteration)).tolist()[:4]:
            noise = noise_for(("nft", iteration, step), points.shape)
            noised = (1 - SIGMAS[step]) * points + SIGMAS[step] * noise
            with torch.no_grad():
                old_velocity = old(noised, SIGMAS[step], CONDITION)
            velocity = model(noised, SIGMAS[step], CONDITION)
            loss = nft_loss(
                velocity, old_velocity, noised, points, SIGMAS[step], advantages, beta=1.0, advantage_max=5.0
            ).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            for mine, trained in zip(old.parameters(), model.parameters(), strict=True):
                mine.copy_(0.2 * mine + 0.8 * trained)
    return means


ALGORITHMS = {
    "grpo": policy_gradients(FLOW_SDE, plain(0.2)),
    "guard": policy_gradients(FLOW_SDE, guarded),
    "cps": policy_gradients(CPS, plain(0.05)),
    "nft": nft,
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_toy_flow_moves_to_where_the_reward_is(name: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = ToyFlow()
    means = ALGORITHMS[name](model)
    assert sum(means[-5:]) / 5 > sum(means[:5]) / 5 + 1.0
