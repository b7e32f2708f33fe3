"""What the training asks of an algorithm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor

from rl.losses import LossOutput
from rl.policy import Policy
from rl.rollouts import Trajectories


@dataclass(frozen=True, eq=False)
class Samples:
    """What an algorithm trains on: this rank's samples of an iteration, and how good they are.

    Attributes:
        trajectories: the samples.
        advantages: float32 `[samples]`, on the device of the latents.
        mask: boolean `[samples]`, False where the reward failed.
        seed: the run's seed.
        iteration: counted from 0.
    """

    trajectories: Trajectories
    advantages: Tensor
    mask: Tensor
    seed: int
    iteration: int

    def slices(self, size: int) -> Iterator[list[int]]:
        """Cut the samples into rows of micro-batches, in their order."""
        for start in range(0, len(self.advantages), size):
            yield list(range(start, start + size))


class Algorithm(Protocol):
    """How samples become a better policy; set by `class_path` in a config. Micro-batches are the algorithm's own.

    Attributes:
        copies: names of frozen copies of the adapter that it needs.
        sampling_adapter: which adapter samples.
        stochastic: whether a rollout has a window of stochastic steps, or is the ODE's.
    """

    copies: ClassVar[tuple[str, ...]]
    sampling_adapter: ClassVar[str]
    stochastic: ClassVar[bool]

    def num_trained_steps(self, window_size: int, num_inference_steps: int) -> int:
        """Say at how many time steps each sample is trained."""
        ...

    def num_kept_latents(self, window_size: int) -> int:
        """Say how many tensors like its latents the micro-batches keep per sample, for the memory estimate."""
        ...

    def micro_batches(self, policy: Policy, samples: Samples, size: int) -> list[Any]:
        """Cut samples into micro-batches of `size` rows, one per trained time step; called without gradients."""
        ...

    def loss(self, policy: Policy, batch: Any, on_policy: bool) -> LossOutput:
        """Judge the policy on a micro-batch.

        Args:
            policy: what is trained.
            batch: one of `micro_batches`.
            on_policy: whether no optimizer step was taken since the rollout.
        """
        ...

    def after_iteration(self, policy: Policy, num_optimizer_steps: int) -> dict[str, float]:
        """Do what is due after the last optimizer step of an iteration, and return what is worth logging.

        Args:
            policy: what is trained.
            num_optimizer_steps: since the start of the training.
        """
        ...
