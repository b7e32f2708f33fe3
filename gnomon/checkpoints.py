"""Checkpoints that a kill cannot tear, and a message where one is torn all the same.

Imports Lightning, and so torch.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Trainer
from pytorch_lightning.plugins.io import TorchCheckpointIO

from gnomon.errors import UserError
from gnomon.files import atomic_write_bytes


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint beside its place and renames it.

    Lightning itself writes to the folder for temporary files, and moves the file from there: between two file systems
    that is a copy, which a kill leaves half done under the checkpoint's name.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
        """Write `checkpoint` to `path`; a path with a scheme (s3://) is left to Lightning.

        Raises:
            UserError: when the system refuses to write; an earlier checkpoint at `path` is then kept.
        """
        if storage_options is not None or "://" in str(path):
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        atomic_write_bytes(path, buffer.getbuffer(), sync=True)

    def load_checkpoint(
        self,
        path: str | Path,
        map_location: Callable[..., Any] | None = lambda storage, loc: storage,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Read a checkpoint.

        Raises:
            UserError: when it cannot be read.
        """
        try:
            loaded: dict[str, Any] = super().load_checkpoint(path, map_location, weights_only)
        # What torch.load raises for a torn file depends on where it is torn: RuntimeError, EOFError, UnpicklingError,
        # ValueError, KeyError. All of it says that training cannot go on from this file.
        except Exception as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise UserError(
                f"could not read the checkpoint {path}: {reason}. Put a copy of it back, or delete it to train from "
                "the beginning"
            ) from error
        return loaded


def replace_checkpoint(trainer: Trainer, path: Path) -> None:
    """Write a checkpoint in the place of an earlier one, so that no kill leaves a torn one; a collective call.

    A checkpoint is a file, or with DeepSpeed a folder to which all ranks write; so it is written beside its place and
    moved there. A folder cannot be put in the place of another in one go: between the two moves the old one lies at
    `<path>.old`, see :func:`usable_checkpoint`.
    """
    new, old = _beside(path, "new"), _beside(path, "old")
    if trainer.is_global_zero:
        _remove(new)
    trainer.strategy.barrier()
    trainer.save_checkpoint(new, weights_only=False)
    trainer.strategy.barrier()
    if trainer.is_global_zero:
        if path.is_dir():
            _remove(old)
            path.rename(old)
        new.replace(path)
        _remove(old)
    trainer.strategy.barrier()


def usable_checkpoint(path: Path) -> Path | None:
    """Return the checkpoint of a run at `path`, also after a kill between two moves; None before there is one."""
    return next((place for place in (path, _beside(path, "old")) if place.exists()), None)


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f"{path.name}.{what}")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
