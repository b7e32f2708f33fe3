"""Command lines of evaluators: a function's own arguments, and those of Lightning's Trainer as `--trainer.*`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

from jsonargparse import ActionConfigFile  # type: ignore[attr-defined]  # not re-exported explicitly
from pytorch_lightning import Trainer
from pytorch_lightning.cli import LightningArgumentParser

from gnomon.cli import underscored

DEFAULTS: dict[str, Any] = {
    "accelerator": "cpu",
    "devices": 1,
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "use_distributed_sampler": False,
}
"""One process, and nothing of a training. A judge puts its model on the device that it was told."""


def parse(function: Callable[..., None], argv: list[str], *, program: str) -> tuple[dict[str, Any], Trainer]:
    """Return a function's arguments, instantiated, and the trainer.

    Args:
        function: all keyword-only; its parameter `trainer` comes from `--trainer.*`.
        argv: the arguments.
        program: its name in messages.
    """
    parser = LightningArgumentParser(prog=program, allow_abbrev=False, default_env=False)
    parser.add_argument("--config", action=ActionConfigFile, help="a YAML file with any of these")
    parser.add_function_arguments(function, skip={"trainer"}, as_group=False, sub_configs=True)
    parser.add_lightning_class_args(Trainer, "trainer")
    parser.set_defaults({f"trainer.{name}": value for name, value in DEFAULTS.items()})
    config = parser.parse_args(underscored(argv))
    with quiet_start():
        instantiated = parser.instantiate(config)
        trainer = Trainer(**vars(instantiated["trainer"]))
    return {name: instantiated[name] for name in signature(function).parameters if name != "trainer"}, trainer


def single_process_trainer() -> Trainer:
    """Return a trainer for what runs in this process."""
    with quiet_start():
        return Trainer(**DEFAULTS)


@contextmanager
def quiet_start() -> Iterator[None]:
    """Hold back what a Trainer says about the machine when it is made."""
    logger = logging.getLogger("pytorch_lightning.utilities.rank_zero")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
