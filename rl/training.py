"""The training run behind `gnomon rl fit`: LightningCLI inside a run folder that can be killed and run again."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import set_parsing_settings
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI

from gnomon.datasets import dataset_hash
from gnomon.runs import RunFolder
from gnomon.tracking import LoggerName, make_logger
from rl.callbacks import CHECKPOINTS, LORA, KeepLora, WriteCurve
from rl.data import CaseData
from rl.module import FlowGRPO

LAST = "last.ckpt"


class RLCommandLine(LightningCLI):
    """LightningCLI that parses first and makes the objects later, inside the run folder's lock."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add our flags; one seed serves all."""
        parser.add_argument("--out", type=str, required=True, help="run folder; run again to resume")
        parser.add_argument("--tracker", type=LoggerName, default="csv", help="where figures are logged")
        parser.link_arguments("seed_everything", "model.seed")

    def instantiate_classes(self) -> None:
        """Wait: loading models is not needed to find out that a run is finished or its folder in use."""

    def run(self, run: RunFolder) -> None:
        """Make trainer, model and data, and train or resume."""
        self._run = run
        with _quiet():
            super().instantiate_classes()
        checkpoint = run.path / CHECKPOINTS / LAST
        resume = str(checkpoint) if checkpoint.exists() else None
        with _quiet():
            if resume is None and self.datamodule.validation_cases:
                self.trainer.validate(self.model, self.datamodule, verbose=False)
            self._fit(resume)
        self._keep.save_last(self.trainer, self.model)

    def _fit(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            print(f"resuming {self._run.path} from {checkpoint}")
        try:
            self.trainer.fit(self.model, self.datamodule, ckpt_path=checkpoint, weights_only=True)
        except SystemExit:
            # Lightning turns Ctrl-C into an exit of its own; the command line has one for all commands.
            if self.trainer.interrupted:
                raise KeyboardInterrupt from None
            raise

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Make the trainer with our checkpoints, curve and logger."""
        out = self._run.path
        checkpoint = ModelCheckpoint(
            dirpath=out / CHECKPOINTS,
            filename=Path(LAST).stem,
            save_top_k=1,  # without a monitor: the last one, after every iteration
            save_on_train_epoch_end=True,
            enable_version_counter=False,
        )
        settings = self.config_init["trainer"]
        self._keep = KeepLora(out / LORA)
        settings["callbacks"] = [*(settings["callbacks"] or []), self._keep, WriteCurve(self._run), checkpoint]
        settings["default_root_dir"] = str(out)
        if self.config["data"]["validation"] is None:
            settings["limit_val_batches"] = 0
        if settings["logger"] is None or settings["logger"] is True:
            settings["logger"] = make_logger(self.config["tracker"], out, project="gnomon-rl")
        return super().instantiate_trainer(**kwargs)

    def resolved_config(self) -> dict[str, Any]:
        """Return the config as plain values, without what may change between two starts of a run."""
        config = yaml.safe_load(self.parser.dump(self.config, skip_unset=False))
        for key in ("config", "out", "tracker"):
            config.pop(key, None)
        return dict(config)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hold back an advertisement and warnings about what is meant to be so."""

    def no_advertisement(record: logging.LogRecord) -> bool:
        return "litlogger" not in record.getMessage()

    logger = logging.getLogger("pytorch_lightning.utilities.rank_zero")
    logger.addFilter(no_advertisement)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*does not have many workers")  # micro-batches are in memory
            warnings.filterwarnings("ignore", ".*in eval mode at the start of training")  # the frozen models are
            warnings.filterwarnings(
                "ignore", "Checkpoint directory .* exists and is not empty"
            )  # that is how it resumes
            # Lightning 2.6.6 calls what torch 2.13 and jsonargparse 4.53 would rather not be called.
            warnings.filterwarnings("ignore", ".*treespec, LeafSpec")
            warnings.filterwarnings("ignore", ".*Cannot dispatch to fused implementation")  # norms in mixed precision
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            yield
    finally:
        logger.removeFilter(no_advertisement)


def parse(argv: list[str]) -> RLCommandLine:
    """Read config and flags; nothing is loaded yet."""
    set_parsing_settings(docstring_parse_attribute_docstrings=True)  # the settings' fields, in --help
    with warnings.catch_warnings():
        # Lightning suspects a mistake when arguments are given beside those of the process.
        warnings.filterwarnings("ignore", "LightningCLI's args parameter is intended")
        return _parse(argv)


def _parse(argv: list[str]) -> RLCommandLine:
    return RLCommandLine(
        FlowGRPO,
        CaseData,
        args=argv,
        run=False,
        save_config_callback=None,  # the run folder's manifest holds the config
        seed_everything_default=0,
        auto_configure_optimizers=False,
        load_from_checkpoint_support=False,
        trainer_defaults={
            "use_distributed_sampler": False,
            "num_sanity_val_steps": 0,  # the first validation is a real one
            "log_every_n_steps": 1,
            "inference_mode": False,  # conditionings made in a validation are kept
            "enable_model_summary": False,
        },
        parser_kwargs={"prog": "gnomon rl fit", "allow_abbrev": False},
    )


def train(argv: list[str]) -> None:
    """Train, resume, or say that the run is finished.

    Raises:
        UserError: see :func:`rl.cli.fit`.
    """
    command_line = parse(argv)
    config = command_line.resolved_config()
    folders = {name: config["data"][name] for name in ("train", "validation") if config["data"][name] is not None}
    inputs = {name: dataset_hash(folder) for name, folder in folders.items()}
    out, seed = Path(command_line.config["out"]), int(config["seed_everything"])
    with RunFolder.open(out, command="rl fit", config=config, seed=seed, inputs=inputs) as run:
        if run.previous_status == "finished":
            print(f"{out} is finished: its adapters are in {out / LORA}")
            return
        command_line.run(run)
    print(f"adapters are in {out / LORA}, the curve in {out / 'curve.jsonl'}")
