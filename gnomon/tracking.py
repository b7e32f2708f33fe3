"""Loggers for Lightning trainers: CSV files by default, TensorBoard or W&B by name."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gnomon.errors import UserError
from gnomon.optional import require

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

LoggerName = Literal["csv", "tensorboard", "wandb"]


def make_logger(name: LoggerName, folder: str | Path, project: str = "gnomon") -> Logger:
    """Return a Lightning logger that writes below `folder/logs`, every start of a run into a version of its own.

    Weights & Biases follows `WANDB_MODE`; where that is not set it works offline unless a login is found.

    Args:
        name: "csv", "tensorboard" or "wandb".
        folder: the run folder; its name becomes the name of the W&B run.
        project: the W&B project.

    Raises:
        UserError: for another name, or when the logger's package is not installed.
    """
    folder = Path(folder)
    logs = folder / "logs"
    if name == "csv":
        from pytorch_lightning.loggers import CSVLogger

        return CSVLogger(logs, name="csv")
    if name == "tensorboard":
        from pytorch_lightning.loggers import TensorBoardLogger

        require("tensorboard", feature="the TensorBoard logger", extra="tensorboard")
        return TensorBoardLogger(logs, name="tensorboard")
    if name == "wandb":
        require("wandb", feature="the W&B logger", extra="wandb")
        from pytorch_lightning.loggers import WandbLogger

        logs.mkdir(parents=True, exist_ok=True)  # wandb falls back to a temporary folder where this one is missing
        return WandbLogger(name=folder.resolve().name, save_dir=logs, project=project, mode=wandb_mode(logs))
    raise UserError(f"expected the logger csv, tensorboard or wandb, got {name!r}")


def wandb_mode(logs: Path) -> str:
    """Return the mode for `wandb.init`: that of `WANDB_MODE`, else offline unless a login is found.

    Lightning's own `offline=True` sets it too late once wandb was asked.
    """
    if os.environ.get("WANDB_MODE"):
        return os.environ["WANDB_MODE"]
    import wandb

    if wandb.login(prompt=False, verify=False):
        return "online"
    print(
        f"no W&B login found: logging offline; `wandb sync {logs}/wandb/offline-run-*` uploads later", file=sys.stderr
    )
    return "offline"
