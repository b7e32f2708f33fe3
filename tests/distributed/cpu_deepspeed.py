"""DeepSpeed on processors, a strategy that Lightning itself refuses, and other parts that tests put into configs."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.strategies import DDPStrategy, DeepSpeedStrategy

from data_build.tabletop.judging import OracleJudge
from gnomon.errors import UserError
from gnomon.records import Case, Verdict
from rl.algorithms import FlowGRPO, Samples
from rl.losses import LossOutput
from rl.policy import Policy
from rl.rewards import RewardOutput
from rm.judge import JudgeRequest

KILL_AT = "GNOMON_TEST_KILL_AT"
"""Environment variable: where a process kills itself, as `hook:iteration:number`, such as `batch:1:2`."""
RAISE_AT = "GNOMON_TEST_RAISE_AT"
"""Environment variable: where a process raises an error, see `raise_at`."""


class CpuDeepSpeed(DeepSpeedStrategy):
    """Lightning's strategy with gloo between processors, where nothing has to be compiled.

    With ZeRO-3 every weight is cut up, however small: by default those of a tiny model would all stay whole.
    """

    def __init__(self, stage: int = 2, **kwargs: Any) -> None:
        super().__init__(stage=stage, process_group_backend="gloo", overlap_comm=False, **kwargs)
        assert isinstance(self.config, dict)
        self.config["zero_optimization"]["stage3_param_persistence_threshold"] = 0

    def setup_environment(self) -> None:
        # Lightning's version asks for a GPU first and then does the same.
        DDPStrategy.setup_environment(self)

    def setup_distributed(self) -> None:
        import deepspeed.ops

        # DeepSpeed would compile an operation for shared memory between processes. Gloo does without.
        vars(deepspeed.ops)["__compatible_ops__"] = {}
        self.set_world_ranks()
        self._init_deepspeed_distributed()

    @property
    def root_device(self) -> torch.device:
        return torch.device("cpu:0")  # DeepSpeed wants to know the number of the device


def kill_at(hook: str, iteration: int, number: int = 0) -> None:
    """Die like a process that the system kills, if this is the place that the environment names."""
    if os.environ.get(KILL_AT) == f"{hook}:{iteration}:{number}":
        os.kill(os.getpid(), signal.SIGKILL)


def raise_at(part: str) -> None:
    """Raise if the environment names this part and rank: `part:rank`, or `user/part:rank` for a UserError."""
    kind, _, place = os.environ.get(RAISE_AT, "").rpartition("/")
    if place == f"{part}:{os.environ.get('LOCAL_RANK', '0')}":
        raise (UserError if kind else RuntimeError)(f"nothing works in {part}")


class Failing(FlowGRPO):
    """An algorithm that fails on one rank, in the replay before training or in training."""

    def micro_batches(self, policy: Policy, samples: Samples, size: int) -> list[Any]:
        raise_at("replay")
        return super().micro_batches(policy, samples, size)

    def loss(self, policy: Policy, batch: Any, on_policy: bool) -> LossOutput:
        raise_at("training")
        return super().loss(policy, batch, on_policy)


class Killer(Callback):
    """Kills the process after a micro-batch, before an iteration's checkpoint, or while that is put together."""

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        kill_at("batch", trainer.current_epoch, batch_idx)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        kill_at("end", trainer.current_epoch)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        kill_at("checkpoint", trainer.current_epoch)


class Brightness:
    """Mean of all channels, 0..1; fails for the cases that it is told to fail for."""

    def __init__(self, fails: str | None = None) -> None:
        self.fails = fails
        self.num_calls = 0

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> RewardOutput:
        kill_at("reward", 0, self.num_calls)
        # Every rank is asked once in the validation before training.
        raise_at("reward" if self.num_calls else "validation")
        self.num_calls += 1
        values = torch.tensor([float(np.asarray(image).mean()) / 255 for image in images])
        failed = torch.tensor([case.id == self.fails for case in cases])
        values[failed] = torch.nan
        return RewardOutput(values, {"brightness": values}, failed)


class DyingOracle(OracleJudge):
    """The oracle, until the process dies while it judges a batch."""

    num_calls = 0

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        kill_at("judge", 0, DyingOracle.num_calls)
        DyingOracle.num_calls += 1
        return super().judge(requests)
