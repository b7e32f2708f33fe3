"""A LightningCLI that parses first, then trains or resumes inside a run folder: `gnomon rm fit` and `gnomon rl fit`.

Like :mod:`gnomon.checkpoints`, and unlike the other modules of `gnomon`, this one imports Lightning, and so torch, at
once; only training commands need it.
"""

from __future__ import annotations

import logging
import os
import signal
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import set_parsing_settings
from pytorch_lightning import LightningDataModule, LightningModule, Trainer
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI
from pytorch_lightning.plugins.io import TorchCheckpointIO
from pytorch_lightning.utilities import rank_zero_only

from gnomon.checkpoints import AtomicCheckpointIO, usable_checkpoint
from gnomon.manifest import differences, plain_config
from gnomon.runs import RunFolder, read_manifest
from gnomon.tracking import LoggerName, make_logger

CHECKPOINTS = "checkpoints"
LAST = "last.ckpt"
_SHOWN = ("enable_progress_bar", "enable_model_summary", "log_every_n_steps", "profiler")
"""The trainer's settings that change what is seen of a run and nothing that comes out of it."""


class TrainingCommandLine(LightningCLI):
    """LightningCLI that only parses when it is made; then `load`, `instantiate_trainer` and `fit`.

    So a command can say that a run is finished, or that its folder is in use, before a model is loaded.
    """

    project = "gnomon"
    """The W&B project."""

    def __init__(
        self,
        module: type[LightningModule],
        data: type[LightningDataModule],
        argv: list[str],
        *,
        program: str,
        trainer_defaults: dict[str, Any],
    ) -> None:
        """Parse `argv`.

        Args:
            module: its arguments become `--model.*`.
            data: its arguments become `--data.*`.
            argv: the arguments after the command's name.
            program: the command's name in messages, for example "gnomon rl fit".
            trainer_defaults: of the trainer, on top of ours.
        """
        set_parsing_settings(docstring_parse_attribute_docstrings=True)  # the settings' fields, in --help
        super().__init__(
            module,
            data,
            args=argv,
            run=False,
            save_config_callback=None,  # the run folder's manifest holds the config
            load_from_checkpoint_support=False,  # a checkpoint is one part of a run; what is kept is saved by itself
            auto_configure_optimizers=False,
            seed_everything_default=0,
            # Our loaders cut their data by rank themselves; a sanity check would count in no one's figures.
            trainer_defaults={"use_distributed_sampler": False, "num_sanity_val_steps": 0} | trainer_defaults,
            parser_kwargs={"prog": program, "allow_abbrev": False},
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add our flags; one seed serves all."""
        parser.add_argument("--out", type=str, required=True, help="run folder; run again to resume")
        parser.add_argument("--tracker", type=LoggerName, default="csv", help="where figures are logged")
        parser.link_arguments("seed_everything", "model.seed")

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parse what we are given; Lightning's own version warns when `sys.argv` holds something else."""
        self.config = parser.parse_args(args)

    def instantiate_classes(self) -> None:
        """Wait: nothing needs to be loaded to find out that a run is finished or its folder in use."""

    def load(self) -> None:
        """Make model and data."""
        self.config_init = self.parser.instantiate(self.config)
        self.datamodule, self.model = self.config_init["data"], self.config_init["model"]

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Make the trainer with the run folder's logger and checkpoints that no kill can tear."""
        settings = self.config_init["trainer"]
        settings["default_root_dir"] = str(self.out)
        if settings["logger"] is None or settings["logger"] is True:
            settings["logger"] = make_logger(self.config["tracker"], self.out, project=self.project)
        trainer = super().instantiate_trainer(**kwargs)
        # Another class was chosen by the user, or comes with the strategy. DeepSpeed asks neither.
        if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:
            trainer.strategy.checkpoint_io = AtomicCheckpointIO()
        return trainer

    @property
    def out(self) -> Path:
        """The run folder."""
        return Path(self.config["out"])

    @property
    def seed(self) -> int:
        """The seed of everything."""
        return int(self.config["seed_everything"])

    @property
    def last_checkpoint(self) -> Path | None:
        """What training goes on from, where the run has got that far."""
        return usable_checkpoint(self.out / CHECKPOINTS / LAST)

    def resolved_config(self) -> dict[str, Any]:
        """Return the config as plain values, without what may change between two starts of a run."""
        config = yaml.safe_load(self.parser.dump(self.config, skip_unset=False))
        for key in ("config", "out", "tracker"):
            config.pop(key, None)
        for key in _SHOWN:
            config["trainer"].pop(key, None)
        return dict(config)

    def fit(self) -> None:
        """Train, or go on from the last checkpoint.

        Raises:
            UserError: when that checkpoint cannot be read.
            KeyboardInterrupt: on Ctrl-C, which Lightning turns into an exit of its own.
        """
        checkpoint = self.last_checkpoint
        if checkpoint is not None:
            print(f"resuming {self.out} from {checkpoint}")
        with interruptible(self.trainer):
            path = None if checkpoint is None else str(checkpoint)
            self.trainer.fit(self.model, self.datamodule, ckpt_path=path, weights_only=True)


@contextmanager
def interruptible(trainer: Trainer) -> Iterator[None]:
    """Let a trainer work in peace, and a Ctrl-C be one.

    Raises:
        KeyboardInterrupt: on Ctrl-C, which Lightning turns into an exit of its own.
    """
    try:
        with quiet_lightning(), no_orphans(trainer):
            yield
    except SystemExit:
        if trainer.interrupted:
            raise KeyboardInterrupt from None
        raise


@contextmanager
def no_orphans(trainer: Trainer) -> Iterator[None]:
    """End the ranks that this process started when it fails; Lightning does so on Ctrl-C only.

    They would wait for this one in their next exchange, on a GPU with its memory for as long as the timeout says.
    """
    try:
        yield
    except BaseException:
        launcher: Any = trainer.strategy.launcher
        if launcher is not None:
            launcher.kill(signal.SIGKILL)  # what waits inside an exchange does not hear a gentler one
        raise


def is_global_zero() -> bool:
    """Say whether this process is the first one of a distributed run; it is, where there is only one.

    A Trainer knows for sure, but it comes with the models; this is for what has to be said before they are loaded.
    Lightning finds the rank in what torchrun, SLURM and the like set. Its own launcher sets the node and the place on
    the node instead, and of these Lightning reads the place only, until it has a Trainer.
    """
    if getattr(rank_zero_only, "rank", 0) != 0:
        return False
    return "RANK" in os.environ or int(os.environ.get("NODE_RANK", os.environ.get("GROUP_RANK", "0"))) == 0


def is_finished(folder: Path, *, command: str, config: Mapping[str, object], inputs: Mapping[str, str]) -> bool:
    """Say whether this very run has ended well; any rank may ask, since nothing is opened.

    Raises:
        UserError: when the folder's manifest is not one of ours.
    """
    manifest = read_manifest(folder)
    if manifest is None or manifest.status != "finished":
        return False
    asked = manifest.model_copy(update={"command": command, "config": plain_config(config), "inputs": dict(inputs)})
    return not differences(manifest, asked)


@contextmanager
def run_folder_of_rank_zero(
    folder: Path,
    is_rank_zero: bool,
    *,
    command: str,
    config: Mapping[str, object],
    seed: int,
    inputs: Mapping[str, str],
) -> Iterator[RunFolder | None]:
    """Open the run folder on global rank zero, see `RunFolder.open`; all other ranks get None and write nothing there.

    Args:
        folder: the run folder.
        is_rank_zero: what the trainer says (`is_global_zero`), or this module's `is_global_zero` before there is one.
        command: see `RunFolder.open`, like the rest.
        config: likewise.
        seed: likewise.
        inputs: likewise.

    Raises:
        UserError: when the folder is in use, or holds another run.
    """
    if not is_rank_zero:
        yield None
        return
    with RunFolder.open(folder, command=command, config=config, seed=seed, inputs=inputs) as run:
        yield run


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Hold back an advertisement, and warnings about what is meant to be so."""

    def no_advertisement(record: logging.LogRecord) -> bool:
        return "litlogger" not in record.getMessage()

    logger = logging.getLogger("pytorch_lightning.utilities.rank_zero")
    logger.addFilter(no_advertisement)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*does not have many workers")  # the batches are in memory, or few
            warnings.filterwarnings("ignore", ".*in eval mode at the start of training")  # the frozen models are
            warnings.filterwarnings("ignore", "Checkpoint directory .* exists and is not empty")  # of a resumed run
            # Lightning 2.6.6 calls what torch 2.13 and jsonargparse 4.53 would rather not be called.
            warnings.filterwarnings("ignore", ".*treespec, LeafSpec")
            warnings.filterwarnings("ignore", ".*Cannot dispatch to fused implementation")  # norms in mixed precision
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            yield
    finally:
        logger.removeFilter(no_advertisement)
