"""What a training keeps: the best weights so far, and a checkpoint to go on from, on any number of ranks."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import Checkpoint

from gnomon.checkpoints import replace_checkpoint
from gnomon.files import atomic_write_bytes
from gnomon.sharding import gathered
from rm.module import RewardModule


class KeepBest(Callback):
    """Writes the trained weights whenever `monitor` is the highest so far, with the figures that they reached.

    Attributes:
        best: the highest value; minus infinity before the first validation.
    """

    def __init__(self, path: str | Path, monitor: str) -> None:
        """Write to `path` whenever the metric `monitor` rises."""
        self.path, self.monitor = Path(path), monitor
        self.best = -math.inf

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Compare with the best so far; a collective call where weights are sharded."""
        value = trainer.callback_metrics[self.monitor].item()
        if not value > self.best:
            return
        self.best = value
        assert isinstance(pl_module, RewardModule)
        trained = pl_module.trained_parameters()
        with gathered(trained.values()):
            if trainer.is_global_zero:
                state = {name: parameter.detach().cpu().clone() for name, parameter in trained.items()}
                figures = {name: each._asdict() for name, each in pl_module.figures.items()}
                buffer = io.BytesIO()
                torch.save({"state_dict": state, "figures": figures, "global_step": trainer.global_step}, buffer)
                atomic_write_bytes(self.path, buffer.getbuffer(), sync=True)

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run must know."""
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what a checkpoint knew."""
        self.best = state_dict["best"]


class SaveCheckpoint(Checkpoint):
    """Writes a checkpoint after every validation, in the place of the one before; it holds what `KeepBest` knows."""

    def __init__(self, path: str | Path) -> None:
        """Write to `path`."""
        self.path = Path(path)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save."""
        replace_checkpoint(trainer, self.path)
