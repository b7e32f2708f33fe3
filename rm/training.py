"""The training run behind `gnomon rm fit`: a run folder that can be killed and run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Trainer
from pytorch_lightning.cli import LightningArgumentParser

from gnomon.datasets import COMPARISONS
from gnomon.errors import UserError
from gnomon.hashing import file_hash
from gnomon.runs import RunFolder
from gnomon.sharding import gathered
from gnomon.tracking import make_logger
from gnomon.training import CHECKPOINTS, LAST, TrainingCommandLine, is_finished, run_folder_of_rank_zero
from rm.callbacks import KeepBest, SaveCheckpoint
from rm.data import ComparisonsDataModule, validation_folder
from rm.module import RewardModule

BEST, MODEL = "best.ckpt", "model"
COMMAND = "rm fit"


class RewardCommandLine(TrainingCommandLine):
    """Takes the data's encoder and dimensions from the model."""

    project = "gnomon-rm"

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add our flags and links."""
        super().add_arguments_to_parser(parser)
        parser.link_arguments("model", "data.encoder", lambda module: module.reward_model.encoder, "instantiate")
        parser.link_arguments("model", "data.dimensions", lambda module: list(module.dimensions), "instantiate")
        parser.link_arguments("model", "data.share_prefix", lambda module: module.share_prefix, "instantiate")
        parser.link_arguments("seed_everything", "data.seed")

    def load(self) -> None:
        """Make model, data and trainer and read the data, so that what is wrong leaves no run folder behind.

        Raises:
            UserError: for data that do not fit the model, and for steps that would be cut in two.
        """
        self._check_steps()
        super().load()
        self.datamodule.setup()
        self._check_labels()
        self.datamodule.trainer = self.trainer = self.instantiate_trainer()
        self.datamodule.train_dataloader()

    def _check_steps(self) -> None:
        """Refuse checkpoints and ends of a pass between the batches of one step: no resumed run could go on there."""
        settings = self.config["trainer"]
        accumulation = settings["accumulate_grad_batches"]
        for name in ("val_check_interval", "limit_train_batches"):
            value = settings[name]
            # A pass is always whole steps; of another share of it one cannot tell before the number of ranks is known.
            whole = value in (None, 1.0) if not isinstance(value, int) else value % accumulation == 0
            if accumulation > 1 and not whole:
                raise UserError(
                    f"expected trainer.{name} to be a number of batches that trainer.accumulate_grad_batches "
                    f"({accumulation}) divides, got {value}; choose {accumulation} or a multiple of it"
                )

    def _check_labels(self) -> None:
        """Refuse a head that would keep its random start, and validation data that cannot choose a checkpoint."""
        folders = self.datamodule.folders
        train, validation = (self.datamodule.datasets[name].counts() for name in ("train", "validation"))
        taught = [name for name, counts in train.items() if self.model.objective.learns_from(counts)]
        if untaught := [name for name in train if name not in taught]:
            raise UserError(
                f"expected something to learn from for each of model.dimensions, {folders['train']} "
                f"has no decided label and no score that counts for {', '.join(untaught)} (ties count with model.loss "
                "rao_kupper, or a model.tie_k for gaussian and hpsv3; scores with a model.regression_weight above 0); "
                "add such data, or set model.dimensions "
                f"to those that have some: {', '.join(taught) or 'none'}"
            )
        self._decided = [name for name, counts in validation.items() if counts.decided]
        if not self._decided:
            raise UserError(
                f"expected decided pairs in {', '.join(validation)} to choose a checkpoint by, "
                f"{folders['validation']} has only ties; set data.validation to another folder"
            )

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Make the trainer with our checkpoints."""
        folder = self.out / CHECKPOINTS
        best = KeepBest(folder / BEST, f"validation/accuracy_{'overall' if 'overall' in self._decided else 'mean'}")
        # Every validation, not only a better one, is a point to resume from; it holds what `best` knows, so it is last.
        last = SaveCheckpoint(folder / LAST)
        settings = self.config_init["trainer"]
        settings["callbacks"] = [*(settings["callbacks"] or []), best, last]
        # Ours comes in `fit`: some loggers write into the run folder at once, and that is not open yet.
        self._makes_logger = settings["logger"] is None or settings["logger"] is True
        if self._makes_logger:
            settings["logger"] = False
        return super().instantiate_trainer(**kwargs)

    def fit(self) -> None:
        """Train, or go on from the last checkpoint, with the run folder's logger."""
        if self._makes_logger:
            self.trainer.logger = make_logger(self.config["tracker"], self.out, project=self.project)
        super().fit()


def parse(argv: list[str]) -> RewardCommandLine:
    """Read config and flags; nothing is loaded yet."""
    return RewardCommandLine(
        RewardModule, ComparisonsDataModule, argv, program=f"gnomon {COMMAND}", trainer_defaults={}
    )


def train(argv: list[str]) -> None:
    """Parse `argv`, train or resume, and write the best reward model to `OUT/model`.

    Raises:
        UserError: see :func:`rm.cli.fit`.
    """
    command_line = parse(argv)
    config, out = command_line.resolved_config(), command_line.out
    # Pictures are not hashed: a real training set holds more of them than anyone wants to read twice.
    data = config["data"]
    folders = {"train": data["train"], "validation": validation_folder(data["validation"], data["editreward_compass"])}
    inputs = {name: file_hash(Path(folder) / COMPARISONS) for name, folder in folders.items()}
    if is_finished(out, command=COMMAND, config=config, inputs=inputs):
        print(f"{out} is finished: the reward model is in {out / MODEL}")
        return
    command_line.load()
    # Only the trainer knows: which of RANK, LOCAL_RANK, NODE_RANK, SLURM_PROCID, ... counts depends on its strategy.
    with run_folder_of_rank_zero(
        out,
        command_line.trainer.is_global_zero,
        command=COMMAND,
        config=config,
        seed=command_line.seed,
        inputs=inputs,
    ) as run:
        command_line.fit()
        # Weights in shares are made whole for the first rank, and all take up what it writes.
        with gathered(command_line.model.trained_parameters().values(), write=True):
            if run is not None:
                _save_best(command_line, run)


def _save_best(command_line: RewardCommandLine, run: RunFolder) -> None:
    """Put the best weights back into the model, save it, and write `results.json`."""
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
    command_line.model.reward_model.temperatures = {
        name: values["temperature"] for name, values in figures.items() if values["temperature"] is not None
    }
    accuracy = ", ".join(f"{name} {values['strict']:.3f}" for name, values in figures.items() if values["n"])
    command_line.model.reward_model.save_pretrained(
        run.path / MODEL,
        notes={
            "training data": command_line.datamodule.folders["train"],
            "validation data": _validation_in_words(command_line.datamodule),
            "loss": _loss_in_words(command_line.model),
            "steps": f"{results['step']} (the best of {results['steps']})",
            "strict pair accuracy on the validation data": accuracy,
        },
    )
    run.write_json("results.json", results)
    print(f"best of {results['steps']} steps is step {results['step']}: {accuracy}")
    print(f"the reward model is in {run.path / 'model'}")


def _validation_in_words(data: ComparisonsDataModule) -> str:
    folder = str(data.folders["validation"])
    if data.benchmark is None:
        return folder
    return f"{data.benchmark} ({folder}); figures on {data.benchmark} are those of the checkpoint that is best on it"


def _loss_in_words(module: RewardModule) -> str:
    k = module.objective.tie_k
    if k is None:
        return module.objective.loss
    widths = dict(zip(module.dimensions, k.tolist(), strict=True)) if isinstance(k, torch.Tensor) else {"all": k}
    return f"{module.objective.loss}, tie k " + ", ".join(f"{name} {width:.3g}" for name, width in widths.items())
