"""The training run behind `gnomon rm fit`: a run folder that can be killed and run again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.cli import LightningArgumentParser

from gnomon.datasets import COMPARISONS
from gnomon.errors import UserError
from gnomon.hashing import file_hash
from gnomon.runs import RunFolder, read_manifest
from gnomon.training import CHECKPOINTS, LAST, TrainingCommandLine
from rm.data import ComparisonsDataModule
from rm.module import RewardModule

BEST, MODEL = "best.ckpt", "model"


class RewardCommandLine(TrainingCommandLine):
    """Takes the data's encoder and dimensions from the model."""

    project = "gnomon-rm"

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add our flags and links."""
        super().add_arguments_to_parser(parser)
        parser.link_arguments("model", "data.encoder", lambda module: module.reward_model.encoder, "instantiate")
        parser.link_arguments("model", "data.dimensions", lambda module: list(module.dimensions), "instantiate")
        parser.link_arguments("seed_everything", "data.seed")

    def load(self) -> None:
        """Make model and data and read both, so that what is wrong with them leaves no run folder behind."""
        super().load()
        self.datamodule.setup()
        self.datamodule.train_dataloader()

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Make the trainer with our checkpoints."""
        folder, dimensions = self.out / CHECKPOINTS, self.model.dimensions
        best = ModelCheckpoint(
            dirpath=folder,
            filename=Path(BEST).stem,
            monitor=f"validation/accuracy_{'overall' if 'overall' in dimensions else 'mean'}",
            mode="max",
            enable_version_counter=False,
        )
        # Every validation, not only a better one, is a point to resume from; it holds what `best` knows, so it is last.
        last = ModelCheckpoint(dirpath=folder, filename=Path(LAST).stem, enable_version_counter=False)
        settings = self.config_init["trainer"]
        settings["callbacks"] = [*(settings["callbacks"] or []), best, last]
        return super().instantiate_trainer(**kwargs)


def train(argv: list[str]) -> None:
    """Parse `argv`, train or resume, and write the best reward model to `OUT/model`.

    Raises:
        UserError: see :func:`rm.cli.fit`.
    """
    command_line = RewardCommandLine(
        RewardModule, ComparisonsDataModule, argv, program="gnomon rm fit", trainer_defaults={}
    )
    config, out = command_line.resolved_config(), command_line.out
    # Pictures are not hashed: a real training set holds more of them than anyone wants to read twice.
    inputs = {name: file_hash(Path(config["data"][name]) / COMPARISONS) for name in ("train", "validation")}
    manifest = read_manifest(out)
    finished = manifest is not None and manifest.status == "finished"
    if not finished:
        command_line.load()
    with _run_folder(out, config, inputs) as run:
        if finished:
            print(f"{out} is finished: the reward model is in {out / MODEL}")
            return
        command_line.trainer = command_line.instantiate_trainer()
        command_line.fit()
        if run is not None:
            _save_best(command_line, run)


@contextmanager
def _run_folder(out: Path, config: dict[str, Any], inputs: dict[str, str]) -> Iterator[RunFolder | None]:
    """Open the run folder on rank zero; the other ranks of a distributed run get None."""
    if int(os.environ.get("LOCAL_RANK", "0")) or int(os.environ.get("NODE_RANK", "0")):
        yield None
        return
    with RunFolder.open(
        out, command="rm fit", config=config, seed=int(config["seed_everything"]), inputs=inputs
    ) as run:
        yield run


def _save_best(command_line: RewardCommandLine, run: RunFolder) -> None:
    """Put the best checkpoint's weights back into the model, save it, and write `results.json`."""
    best = run.path / CHECKPOINTS / BEST
    if not best.exists():
        raise UserError(
            f"no validation ran within {command_line.trainer.global_step} steps, so there is no best model; "
            "lower trainer.val_check_interval or raise trainer.max_steps"
        )
    checkpoint = torch.load(best, map_location="cpu", weights_only=True)
    command_line.model.load_state_dict(checkpoint["state_dict"], strict=False)
    figures = checkpoint["figures"]
    results = {"step": checkpoint["global_step"], "steps": command_line.trainer.global_step, "validation": figures}
    accuracy = ", ".join(f"{name} {values['strict']:.3f}" for name, values in figures.items() if values["n"])
    command_line.model.reward_model.save_pretrained(
        run.path / MODEL,
        notes={
            "training data": command_line.datamodule.folders["train"],
            "validation data": command_line.datamodule.folders["validation"],
            "loss": command_line.model.loss,
            "steps": f"{results['step']} (the best of {results['steps']})",
            "strict pair accuracy on the validation data": accuracy,
        },
    )
    run.write_json("results.json", results)
    print(f"best of {results['steps']} steps is step {results['step']}: {accuracy}")
    print(f"the reward model is in {run.path / 'model'}")
