"""Samplers, advantages and loss together: a flow model of a few hundred parameters learns a reward in seconds."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rl.advantages import group_advantages
from rl.losses import grpo_loss
from rl.samplers import flow_sde_step, noise_for, ode_step, sde_window

SIGMAS = [1.0, 0.9, 0.75, 0.5, 0.25, 0.0]
GROUPS, MEMBERS = 4, 16


class ToyFlow(nn.Module):
    """Predicts a velocity in the plane from position, noise share and a condition per group."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, x: Tensor, sigma: float, condition: Tensor) -> Tensor:
        velocity: Tensor = self.net(torch.cat([x, torch.full_like(x[:, :1], sigma), condition], dim=1))
        return velocity


def rollout(model: ToyFlow, condition: Tensor, iteration: int, window: range) -> tuple[Tensor, list[Tensor]]:
    x, kept = noise_for(("start", iteration), (len(condition), 2)), []
    for step in range(len(SIGMAS) - 1):
        if step == window.start:
            kept.append(x)
        velocity = model(x, SIGMAS[step], condition)
        if step in window:
            noise = noise_for(("sde", iteration, step), x.shape)
            x = flow_sde_step(
                x, velocity, SIGMAS[step], SIGMAS[step + 1], 0.9, noise=noise, sigma_max=SIGMAS[1]
            ).sample_next
            kept.append(x)
        else:
            x = ode_step(x, velocity, SIGMAS[step], SIGMAS[step + 1])
    return x, kept


def test_a_toy_flow_moves_to_where_the_reward_is() -> None:
    torch.manual_seed(0)
    model = ToyFlow()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    # Each group wants its points on another side, so the condition has to be learnt as well.
    condition = torch.tensor([[-1.0], [1.0]] * (GROUPS // 2)).repeat_interleave(MEMBERS, dim=0)
    means = []
    for iteration in range(60):
        window = sde_window(0, iteration, len(SIGMAS) - 1, size=2, first=0, last=2)
        with torch.no_grad():
            points, kept = rollout(model, condition, iteration, window)
        rewards = points[:, 0] * condition[:, 0]
        means.append(rewards.mean().item())
        advantages = group_advantages(rewards, [row // MEMBERS for row in range(len(rewards))]).values.float()
        with torch.no_grad():
            old = [log_prob(model, kept, window, place, condition) for place in range(len(window))]
        for _ in range(2):
            losses = [
                grpo_loss(
                    log_prob(model, kept, window, place, condition), old[place], advantages, clip_low=0.2, clip_high=0.2
                ).loss
                for place in range(len(window))
            ]
            optimizer.zero_grad()
            torch.stack(losses).mean().backward()
            optimizer.step()
    assert sum(means[-5:]) / 5 > sum(means[:5]) / 5 + 1.0


def log_prob(model: ToyFlow, kept: list[Tensor], window: range, place: int, condition: Tensor) -> Tensor:
    step = window[place]
    velocity = model(kept[place], SIGMAS[step], condition)
    return flow_sde_step(
        kept[place],
        velocity,
        SIGMAS[step],
        SIGMAS[step + 1],
        0.9,
        sample_next=kept[place + 1],
        sigma_max=SIGMAS[1],
    ).log_prob
