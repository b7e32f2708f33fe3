"""What a run keeps while it trains: adapters (best, last, average), the curve, and a checkpoint to go on from.

On several ranks only global rank zero writes, but for checkpoints of DeepSpeed, to which each rank adds its share.
"""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import Checkpoint

from gnomon.checkpoints import replace_checkpoint
from gnomon.files import atomic_write_text
from gnomon.jsonl import read_records
from gnomon.records import Record
from gnomon.runs import RunFolder
from gnomon.sharding import gathered
from rl.lora import save_lora
from rl.module import PolicyTraining

CURVE = "curve.jsonl"
LORA = "lora"
AVERAGE = "ema"
_MONITOR = "validation/reward"


class CurvePoint(Record):
    """Metrics of one training iteration, or of a validation after `iteration` of them. None: no value."""

    kind: Literal["train", "validation"]
    iteration: int = Field(ge=0)
    metrics: dict[str, float | None]


def read_curve(run: str | Path) -> list[CurvePoint]:
    """Read the curve of a run folder in order of iterations; none before the first iteration.

    An iteration that was killed before its checkpoint and done again stands there twice, and counts once.

    Raises:
        UserError: for a broken line.
    """
    path = Path(run) / CURVE
    points = read_records(path, CurvePoint, drop_torn_tail=True) if path.exists() else []
    last = {(point.iteration, point.kind): point for point in points}
    return [last[key] for key in sorted(last)]


def _iteration(trainer: Trainer) -> int:
    """Return how many iterations are done, seen from a validation or the end of an epoch."""
    return trainer.current_epoch + 1 if trainer.state.fn == "fit" else 0


class WriteCurve(Callback):
    """Appends the metrics of every iteration and validation to `curve.jsonl` of the run folder."""

    def __init__(self, run: RunFolder | None) -> None:
        """Write into `run`; on ranks that have none, nowhere."""
        self.run = run
        self._start = 0.0

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the clock before the rollout."""
        self._start = time.monotonic()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write a training point."""
        self._append("train", trainer, {"time/iteration": time.monotonic() - self._start})

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write a validation point."""
        self._append("validation", trainer, {})

    def _append(self, kind: Literal["train", "validation"], trainer: Trainer, more: dict[str, float]) -> None:
        metrics: dict[str, float | None] = {**more}
        for name, value in trainer.callback_metrics.items():  # on all ranks: asking for it lets them exchange figures
            if name.startswith("validation/") == (kind == "validation"):
                number = value.item()
                metrics[name] = number if math.isfinite(number) else None
        if self.run is not None:
            self.run.append(CurvePoint(kind=kind, iteration=_iteration(trainer), metrics=metrics), CURVE)


class KeepLora(Callback):
    """Writes `lora/best` whenever the held-out reward is the highest so far, and `lora/last` when asked to.

    The untrained adapter counts: where training only did harm, the best adapter is the one that changes nothing.

    Attributes:
        best_reward: the highest mean of `validation/reward`.
        best_iteration: after how many iterations it was reached; None before the first validation.
    """

    def __init__(self, folder: str | Path) -> None:
        """Write below `folder`."""
        self.folder = Path(folder)
        self.best_reward = -math.inf
        self.best_iteration: int | None = None

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Compare with the best so far."""
        reward = trainer.callback_metrics[_MONITOR].item()
        if reward > self.best_reward:
            self.best_reward, self.best_iteration = reward, _iteration(trainer)
            assert isinstance(pl_module, PolicyTraining)
            with pl_module.validated_weights():
                self._save("best", trainer, pl_module, self.best_iteration, reward)

    def save_last(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the adapter as it is now, and its average if there is one.

        Not `on_train_end`: a run that was killed after its last checkpoint has nothing left to train, and Lightning
        then calls no hook.
        """
        assert isinstance(pl_module, PolicyTraining)
        self._save("last", trainer, pl_module, trainer.current_epoch, None)
        if pl_module.ema is not None:
            with pl_module.ema.applied():
                self._save(AVERAGE, trainer, pl_module, trainer.current_epoch, None)

    def _save(self, name: str, trainer: Trainer, module: PolicyTraining, iteration: int, reward: float | None) -> None:
        with gathered(module.policy.trained.values()):
            if not trainer.is_global_zero:
                return
            save_lora(module.generator.pipeline, self.folder / name)
        about = json.dumps({"iteration": iteration, "validation_reward": reward}, indent=2)
        atomic_write_text(self.folder / name / "iteration.json", about + "\n")

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run must know."""
        return {"best_reward": self.best_reward, "best_iteration": self.best_iteration}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what a checkpoint knew."""
        self.best_reward = state_dict["best_reward"]
        self.best_iteration = state_dict["best_iteration"]


class SaveCheckpoint(Checkpoint):
    """Writes a checkpoint after every iteration, in the place of the one before."""

    def __init__(self, path: str | Path) -> None:
        """Write to `path`."""
        self.path = Path(path)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save."""
        replace_checkpoint(trainer, self.path)
