"""The training run behind `gnomon rl fit`: a run folder that can be killed and run again, on one rank or many."""

from __future__ import annotations

from typing import Any

from pytorch_lightning import Trainer
from pytorch_lightning.cli import LightningArgumentParser
from pytorch_lightning.strategies import DeepSpeedStrategy

from gnomon.datasets import dataset_hash
from gnomon.errors import UserError
from gnomon.runs import RunFolder
from gnomon.training import (
    CHECKPOINTS,
    LAST,
    TrainingCommandLine,
    is_finished,
    is_global_zero,
    no_orphans,
    quiet_lightning,
    run_folder_of_rank_zero,
)
from rl.callbacks import LORA, KeepLora, SaveCheckpoint, WriteCurve
from rl.data import CaseData
from rl.identity import input_hashes
from rl.module import PolicyTraining
from rl.plan import check_cases, check_plan, make_plan

COMMAND = "rl fit"


class RLCommandLine(TrainingCommandLine):
    """Parses first and makes the objects later, inside the run folder's lock."""

    project = "gnomon-rl"

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add our flags."""
        super().add_arguments_to_parser(parser)
        parser.add_argument(
            "--dry_run", action="store_true", help="print config, batches and memory, and train nothing"
        )

    def resolved_config(self) -> dict[str, Any]:
        """Return the config without what may change between two starts of a run."""
        config = super().resolved_config()
        del config["dry_run"]
        return config

    def run(self, run: RunFolder | None) -> None:
        """Make trainer, model and data, and train or resume.

        Args:
            run: the open run folder; None on all ranks but the first.
        """
        self._run = run
        with quiet_lightning():
            self.load()
            self.trainer = self.instantiate_trainer()
            if self.trainer.is_global_zero != (run is not None):
                raise UserError(
                    f"Lightning takes this process for rank {self.trainer.global_rank}, the environment says otherwise "
                    "(RANK, LOCAL_RANK, NODE_RANK, SLURM_PROCID): start the ranks with one launcher only"
                )
            if self.last_checkpoint is None and self.datamodule.validation_cases:
                with no_orphans(self.trainer):
                    self.trainer.validate(self.model, self.datamodule, verbose=False)
                _forget_engine(self.trainer)
        self.fit()
        with no_orphans(self.trainer):
            self._keep.save_last(self.trainer, self.model)

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Make the trainer with our checkpoints and curve."""
        settings = self.config_init["trainer"]
        self._keep = KeepLora(self.out / LORA)
        own = [self._keep, WriteCurve(self._run), SaveCheckpoint(self.out / CHECKPOINTS / LAST)]
        settings["callbacks"] = [*(settings["callbacks"] or []), *own]
        if self.config["data"]["validation"] is None:
            settings["limit_val_batches"] = 0
        trainer = super().instantiate_trainer(**kwargs)
        if isinstance(trainer.strategy, DeepSpeedStrategy):
            trainer.strategy.exclude_frozen_parameters = True  # from checkpoints, as the module does it elsewhere
        return trainer


def parse(argv: list[str]) -> RLCommandLine:
    """Read config and flags; nothing is loaded yet."""
    return RLCommandLine(
        PolicyTraining,
        CaseData,
        ["--dry_run" if argument == "--dry-run" else argument for argument in argv],
        program=f"gnomon {COMMAND}",
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
    if command_line.config["dry_run"]:
        print(make_plan(config))
        return
    folders = {name: config["data"][name] for name in ("train", "validation") if config["data"][name] is not None}
    inputs = {name: dataset_hash(folder) for name, folder in folders.items()} | input_hashes(config["model"])
    if is_finished(out, command=COMMAND, config=config, inputs=inputs):
        print(f"{out} is finished: its adapters are in {out / LORA}")
        return
    check_plan(config)
    check_cases(config)
    # The models are loaded inside the folder's lock, so there is no trainer to ask yet.
    with run_folder_of_rank_zero(
        out, is_global_zero(), command=COMMAND, config=config, seed=command_line.seed, inputs=inputs
    ) as run:
        command_line.run(run)
    if run is not None:
        print(f"adapters are in {out / LORA}, the curve in {out / 'curve.jsonl'}")


def _forget_engine(trainer: Trainer) -> None:
    """Take the hooks of a validation's DeepSpeed engine off the model: ZeRO-3 would gather each weight twice in fit."""
    destroy = getattr(trainer.strategy.model, "destroy", None)
    if destroy is not None:
        destroy()
