"""The training run behind `gnomon rl fit`: a run folder that can be killed and run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import ModelCheckpoint

from gnomon.datasets import dataset_hash
from gnomon.runs import RunFolder
from gnomon.training import CHECKPOINTS, LAST, TrainingCommandLine, quiet_lightning
from rl.callbacks import LORA, KeepLora, WriteCurve
from rl.data import CaseData
from rl.module import FlowGRPO


class RLCommandLine(TrainingCommandLine):
    """Parses first and makes the objects later, inside the run folder's lock."""

    project = "gnomon-rl"

    def run(self, run: RunFolder) -> None:
        """Make trainer, model and data, and train or resume."""
        self._run = run
        with quiet_lightning():
            self.load()
            self.trainer = self.instantiate_trainer()
            if self.last_checkpoint is None and self.datamodule.validation_cases:
                self.trainer.validate(self.model, self.datamodule, verbose=False)
        self.fit()
        self._keep.save_last(self.trainer, self.model)

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Make the trainer with our checkpoints and curve."""
        checkpoint = ModelCheckpoint(
            dirpath=self.out / CHECKPOINTS,
            filename=Path(LAST).stem,
            save_top_k=1,  # without a monitor: the last one, after every iteration
            save_on_train_epoch_end=True,
            enable_version_counter=False,
        )
        settings = self.config_init["trainer"]
        self._keep = KeepLora(self.out / LORA)
        settings["callbacks"] = [*(settings["callbacks"] or []), self._keep, WriteCurve(self._run), checkpoint]
        if self.config["data"]["validation"] is None:
            settings["limit_val_batches"] = 0
        return super().instantiate_trainer(**kwargs)


def parse(argv: list[str]) -> RLCommandLine:
    """Read config and flags; nothing is loaded yet."""
    return RLCommandLine(
        FlowGRPO,
        CaseData,
        argv,
        program="gnomon rl fit",
        trainer_defaults={
            "log_every_n_steps": 1,
            "inference_mode": False,  # conditionings made in a validation are kept
            "enable_model_summary": False,
        },
    )


def train(argv: list[str]) -> None:
    """Train, resume, or say that the run is finished.

    Raises:
        UserError: see :func:`rl.cli.fit`.
    """
    command_line = parse(argv)
    config, out = command_line.resolved_config(), command_line.out
    folders = {name: config["data"][name] for name in ("train", "validation") if config["data"][name] is not None}
    inputs = {name: dataset_hash(folder) for name, folder in folders.items()}
    with RunFolder.open(out, command="rl fit", config=config, seed=command_line.seed, inputs=inputs) as run:
        if run.previous_status == "finished":
            print(f"{out} is finished: its adapters are in {out / LORA}")
            return
        command_line.run(run)
    print(f"adapters are in {out / LORA}, the curve in {out / 'curve.jsonl'}")
