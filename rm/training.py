"""The training run behind `gnomon rm fit`: LightningCLI inside a run folder that can be killed and run again."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import yaml
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI

from gnomon.datasets import COMPARISONS
from gnomon.errors import UserError
from gnomon.hashing import file_hash
from gnomon.runs import RunFolder, read_manifest
from gnomon.tracking import LoggerName, make_logger
from rm.data import ComparisonsDataModule
from rm.module import RewardModule

CHECKPOINTS, LAST, BEST, MODEL = "checkpoints", "last.ckpt", "best.ckpt", "model"


class RewardCLI(LightningCLI):
    """LightningCLI with a run folder, and with the data's encoder and dimensions taken from the model."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add our flags and links."""
        parser.add_argument("--out", type=str, required=True, help="run folder; run again to resume")
        parser.add_argument("--tracker", type=LoggerName, default="csv", help="where figures are logged")
        parser.link_arguments("model", "data.encoder", lambda module: module.reward_model.encoder, "instantiate")
        parser.link_arguments("model", "data.dimensions", lambda module: list(module.dimensions), "instantiate")
        parser.link_arguments("seed_everything", "model.seed")
        parser.link_arguments("seed_everything", "data.seed")

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parse what we are given; Lightning's own version warns when `sys.argv` holds something else."""
        self.config = parser.parse_args(args)

    def instantiate_classes(self) -> None:
        """Wait: nothing needs to be loaded to find out that a run is finished or its folder in use."""

    def load(self) -> None:
        """Make model and data and read both, so that what is wrong with them leaves no run folder behind."""
        self.config_init = self.parser.instantiate(self.config)
        self.datamodule, self.model = self.config_init["data"], self.config_init["model"]
        self.datamodule.setup()
        self.datamodule.train_dataloader()

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Make the trainer with our checkpoints and logger."""
        out = Path(self.config["out"])
        dimensions = self.model.dimensions
        best = ModelCheckpoint(
            dirpath=out / CHECKPOINTS,
            filename=Path(BEST).stem,
            monitor=f"validation/accuracy_{'overall' if 'overall' in dimensions else 'mean'}",
            mode="max",
            enable_version_counter=False,
        )
        # Every validation, not only a better one, is a point to resume from; it holds what `best` knows, so it is last.
        last = ModelCheckpoint(dirpath=out / CHECKPOINTS, filename=Path(LAST).stem, enable_version_counter=False)
        settings = self.config_init["trainer"]
        settings["callbacks"] = [*(settings["callbacks"] or []), best, last]
        settings["default_root_dir"] = str(out)
        if settings["logger"] is None or settings["logger"] is True:
            settings["logger"] = make_logger(self.config["tracker"], out, project="gnomon-rm")
        return super().instantiate_trainer(**kwargs)

    def resolved_config(self) -> dict[str, Any]:
        """Return the config as plain values, without what may change between two starts of a run."""
        config = yaml.safe_load(self.parser.dump(self.config, skip_unset=False))
        for key in ("config", "out", "tracker"):
            config.pop(key, None)
        return dict(config)


def train(argv: list[str]) -> None:
    """Parse `argv`, train or resume, and write the best reward model to `OUT/model`.

    Raises:
        UserError: see :func:`rm.cli.fit`.
    """
    cli = RewardCLI(
        RewardModule,
        ComparisonsDataModule,
        args=argv,
        run=False,
        save_config_callback=None,  # the run folder's manifest holds the config
        load_from_checkpoint_support=False,  # a checkpoint is one part of a run; the saved model loads by itself
        auto_configure_optimizers=False,
        seed_everything_default=0,
        # Our loaders cut their data by rank themselves; a sanity check would count in no one's figures.
        trainer_defaults={"use_distributed_sampler": False, "num_sanity_val_steps": 0},
        parser_kwargs={"prog": "gnomon rm fit", "allow_abbrev": False},
    )
    config = cli.resolved_config()
    # Pictures are not hashed: a real training set holds more of them than anyone wants to read twice.
    inputs = {name: file_hash(Path(config["data"][name]) / COMPARISONS) for name in ("train", "validation")}
    out = Path(cli.config["out"])
    manifest = read_manifest(out)
    finished = manifest is not None and manifest.status == "finished"
    if not finished:
        cli.load()
    with _run_folder(out, config, inputs) as run:
        if finished:
            print(f"{out} is finished: the reward model is in {out / MODEL}")
            return
        cli.trainer = cli.instantiate_trainer()
        last = out / CHECKPOINTS / LAST
        if last.exists():
            print(f"resuming {out} from {last}")
        _fit(cli, last if last.exists() else None)
        if run is not None:
            _save_best(cli, run)


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


def _fit(cli: RewardCLI, checkpoint: Path | None) -> None:
    path = None if checkpoint is None else str(checkpoint)
    try:
        with warnings.catch_warnings():
            # Our own checkpoints are what a resumed run finds there; decoding a few small pictures needs no workers.
            warnings.filterwarnings("ignore", "Checkpoint directory .* exists and is not empty")
            warnings.filterwarnings("ignore", ".*does not have many workers.*")
            cli.trainer.fit(cli.model, cli.datamodule, ckpt_path=path, weights_only=True)
    except SystemExit:
        # Lightning turns Ctrl-C into an exit of its own; the command line has one for all commands.
        if cli.trainer.interrupted:
            raise KeyboardInterrupt from None
        raise


def _save_best(cli: RewardCLI, run: RunFolder) -> None:
    """Put the best checkpoint's weights back into the model, save it, and write `results.json`."""
    best = run.path / CHECKPOINTS / BEST
    if not best.exists():
        raise UserError(
            f"no validation ran within {cli.trainer.global_step} steps, so there is no best model; "
            "lower trainer.val_check_interval or raise trainer.max_steps"
        )
    checkpoint = torch.load(best, map_location="cpu", weights_only=True)
    cli.model.load_state_dict(checkpoint["state_dict"], strict=False)
    figures = checkpoint["figures"]
    results = {"step": checkpoint["global_step"], "steps": cli.trainer.global_step, "validation": figures}
    accuracy = ", ".join(f"{name} {values['strict']:.3f}" for name, values in figures.items() if values["n"])
    cli.model.reward_model.save_pretrained(
        run.path / MODEL,
        notes={
            "training data": cli.datamodule.folders["train"],
            "validation data": cli.datamodule.folders["validation"],
            "loss": cli.model.loss,
            "steps": f"{results['step']} (the best of {results['steps']})",
            "strict pair accuracy on the validation data": accuracy,
        },
    )
    run.write_json("results.json", results)
    print(f"best of {results['steps']} steps is step {results['step']}: {accuracy}")
    print(f"the reward model is in {run.path / 'model'}")
