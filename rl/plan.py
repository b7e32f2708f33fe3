"""What a training would do and need, before it is started: `gnomon rl fit --dry-run`.

Everything is worked out from the resolved config, the headers of weight files and a transformer without weights, so it
takes seconds, needs no accelerator and asks no network.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import yaml

from gnomon.errors import UserError
from gnomon.manifest import plain_config
from rl.algorithms import Algorithm
from rl.data import CaseData, check_number_of_cases
from rl.loading import positive, read_settings
from rl.rewards import check_monitor_names
from rl.settings import (
    AdvantageSettings,
    BatchLayout,
    EmaSettings,
    LoraSettings,
    OptimizerSettings,
    RolloutSettings,
    check_precision,
)
from rl.weights import (
    PictureSize,
    TransformerSize,
    bytes_per_parameter,
    parameters_of_components,
    picture_size,
    transformer_size,
)

VALUES_PER_TOKEN = 22
"""Numbers that a block with LoRA keeps per token and unit of its width for the backward pass, without attention
scores; measured on the blocks of FLUX.2, see tests/rl/test_plan.py."""


_FEWER = "lower model.rollout.num_prompts or num_candidates for a smaller iteration"
_FOREIGN: dict[str, tuple[tuple[object, ...], str]] = {
    "limit_train_batches": ((1.0,), _FEWER),
    "overfit_batches": ((0, 0.0), _FEWER),
    "fast_dev_run": ((False, 0), f"{_FEWER}, and set trainer.max_epochs 1"),
    "max_steps": ((-1,), "say with trainer.max_epochs how many iterations to train"),
    "use_distributed_sampler": ((False,), "leave it false"),
}
"""Settings of Lightning's trainer that cut an iteration short or share it out once more: what may stand there, and what
to do instead."""


@dataclass(frozen=True)
class Passes:
    """Calls of the transformer by one rank in one iteration; with guidance in two passes each call counts twice."""

    sampling: int
    replay: int
    training: int
    other: int

    def __str__(self) -> str:
        forwards = self.sampling + self.replay + self.training + self.other
        return (
            f"{forwards} forward passes ({self.sampling} to sample, {self.replay} to replay, {self.training} to train, "
            f"{self.other} of copies and reference) and {self.training} backward passes"
        )


@dataclass(frozen=True)
class Memory:
    """A part of a rank's memory, in bytes."""

    what: str
    size: float
    on_accelerator: bool = True


@dataclass(frozen=True)
class Plan:
    """What `--dry-run` prints.

    Attributes:
        config: resolved, with secrets masked.
        layout: the batches of an iteration.
        passes: calls of the model by one rank.
        memory: of one rank.
        notes: what is not known, and why.
    """

    config: Mapping[str, object]
    layout: BatchLayout
    passes: Passes
    memory: list[Memory]
    notes: list[str] = field(default_factory=list)

    @property
    def total(self) -> float:
        """Bytes on the accelerator of a rank at the peak, all parts together."""
        return sum(part.size for part in self.memory if part.on_accelerator)

    def __str__(self) -> str:
        lines = [yaml.safe_dump(self.config, sort_keys=False, allow_unicode=True).rstrip(), "", "Batches"]
        lines += [f"  {self.layout}", f"  a rank makes {self.passes} per iteration", "", "Memory of a rank (estimate)"]
        lines += [
            f"  {_readable(part.size):>10}  {part.what}{'' if part.on_accelerator else ' (in main memory)'}"
            for part in self.memory
        ]
        lines += [f"  {_readable(self.total):>10}  together, on the accelerator"]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


@dataclass(frozen=True)
class _Checked:
    """A config whose numbers fit together, as far as that can be known without loading anything.

    `settings` are the generator's, with those of the model's folder; `folder` may not exist (a model on the hub), and
    then there is no `transformer`.
    """

    rollout: RolloutSettings
    algorithm: Algorithm
    layout: BatchLayout
    settings: dict[str, Any]
    folder: Path
    num_steps: int
    transformer: TransformerSize | None


def check_plan(config: Mapping[str, Any]) -> _Checked:
    """Find what cannot be trained before a model is loaded, which may take minutes: settings, batches, window, targets.

    Args:
        config: the resolved config, plain values.

    Raises:
        UserError: for settings out of their range, batches that do not fit together, a window outside the schedule,
            LoRA targets that match nothing.
    """
    model, trainer = config["model"], config["trainer"]
    check_precision(trainer.get("precision"))
    check_trainer(trainer)
    rollout, lora = RolloutSettings(**model["rollout"]), LoraSettings(**model["lora"])
    AdvantageSettings(**model["advantage"])
    OptimizerSettings(**model["optimizer"])
    if model.get("ema") is not None:
        EmaSettings(**model["ema"])
    check_monitor_names(model.get("monitors") or {})
    algorithm: Algorithm = _make(model["algorithm"])
    generator: dict[str, Any] = model["generator"].get("init_args") or {}
    folder = Path(str(generator.get("model", "")))
    settings = _with_defaults(generator, read_settings(folder) if folder.is_dir() else {})
    num_steps = positive("num_inference_steps", settings.get("num_inference_steps")) or 8
    layout = rollout.layout(
        accumulate=trainer["accumulate_grad_batches"],
        trained_steps=algorithm.num_trained_steps(rollout.window_size, num_steps),
        num_ranks=num_ranks(trainer),
    )
    if algorithm.stochastic:
        rollout.window(0, 0, num_steps)
    transformer = transformer_size(folder, lora) if _has_sizes(folder) else None
    return _Checked(rollout, algorithm, layout, settings, folder, num_steps, transformer)


def check_cases(config: Mapping[str, Any]) -> None:
    """Find what is wrong with the cases before a model is loaded.

    Args:
        config: the resolved config, plain values.

    Raises:
        UserError: for a broken folder, cases that are in both folders, and too few of them.
    """
    check_number_of_cases(CaseData(**config["data"]), RolloutSettings(**config["model"]["rollout"]))


def _cases_to_come(config: Mapping[str, Any]) -> list[str]:
    """Check the cases, or note which folders of them are not there yet."""
    folders = [folder for name in ("train", "validation") if (folder := config["data"].get(name)) is not None]
    missing = [folder for folder in folders if not Path(folder).exists()]
    if not missing:
        check_cases(config)
    return [f"the cases in {folder} are not there yet, so they were not checked" for folder in missing]


def _has_sizes(folder: Path) -> bool:
    """Say whether a model's folder holds what sizes are read from; one may also point at parts on the hub."""
    return all((folder / part / "config.json").is_file() for part in ("transformer", "vae"))


def make_plan(config: Mapping[str, Any]) -> Plan:
    """Work out a training.

    Args:
        config: the resolved config, plain values.

    Raises:
        UserError: see `check_plan` and `check_cases`; only a folder of cases that is not there yet is a note.
    """
    model, trainer = config["model"], config["trainer"]
    checked = check_plan(config)
    layout, algorithm, settings, folder = checked.layout, checked.algorithm, checked.settings, checked.folder
    passes = _passes(layout, algorithm, checked.num_steps, int(settings.get("batch_size") or 32))
    plan = Plan(plain_config(config), layout, passes, [])
    plan.notes.extend(_cases_to_come(config))
    if checked.transformer is None:
        plan.notes.append(
            f"the sizes of {folder} are known once it is downloaded: give a folder with its transformer and vae to see "
            "them"
        )
        return plan
    stage = zero_stage(trainer["strategy"])
    plan.memory.extend(_weights(model, folder, settings, layout.num_ranks if stage == 3 else 1))
    num_copies = len(algorithm.copies) + (model.get("ema") is not None)
    plan.memory.extend(_training(checked.transformer.adapter, num_copies, stage, layout.num_ranks))
    height, width = settings.get("height"), settings.get("width")
    if not height or not width:
        height, width = height or 1024, width or 1024
        plan.notes.append(f"no height and width are set, so pictures of {height} x {width} are assumed")
    picture = picture_size(folder, int(height), int(width))
    plan.memory.append(_latents(layout, algorithm, picture, checked.rollout.window_size))
    plan.memory.append(_activations(layout, checked.transformer, picture, settings, model, trainer))
    plan.notes.append("a second pass for guidance doubles the activations; a judge's own activations are not in it")
    return plan


def check_trainer(trainer: Mapping[str, Any]) -> None:
    """Refuse settings of the trainer with which an iteration would train on other batches than it says.

    Raises:
        UserError: names the setting, and what to set instead.
    """
    for key, (plain, instead) in _FOREIGN.items():
        if trainer.get(key) not in (None, *plain):
            raise UserError(
                f"expected trainer.{key} to be left alone, got {trainer[key]}: an iteration trains on all its samples, "
                f"each rank on its own; {instead}"
            )


def num_ranks(trainer: Mapping[str, Any]) -> int:
    """Return the processes that a trainer's settings ask for on this machine.

    Raises:
        UserError: for devices that are no number.
    """
    devices = trainer.get("devices") or "auto"
    if isinstance(devices, list):
        count = len(devices)
    elif devices in ("auto", -1, "-1"):
        on_gpu = trainer.get("accelerator") in ("auto", "gpu", "cuda") and torch.cuda.is_available()
        count = torch.cuda.device_count() if on_gpu else 1
    else:
        text = str(devices)
        if not text.replace(",", "").replace(" ", "").isdigit():
            raise UserError(f"expected trainer.devices to be a number, numbers with commas or 'auto', got {text!r}")
        count = len([part for part in text.split(",") if part]) if "," in text else int(text)
    return count * int(trainer.get("num_nodes") or 1)


def zero_stage(strategy: Any) -> int:
    """Return the stage of DeepSpeed's ZeRO that a strategy's setting names; 0 for any other strategy."""
    if isinstance(strategy, Mapping):
        is_deepspeed = "deepspeed" in str(strategy.get("class_path", "")).lower()
        return int((strategy.get("init_args") or {}).get("stage", 2)) if is_deepspeed else 0
    name = str(strategy)
    if not name.startswith("deepspeed"):
        return 0
    return next((int(word) for word in name.split("_") if word.isdigit()), 2)


def _with_defaults(generator: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in what a model folder sets for itself, as the generator does."""
    given = {name: value for name, value in generator.items() if value is not None}
    kwargs = {**defaults.get("pipeline_kwargs", {}), **given.get("pipeline_kwargs", {})}
    return {**defaults, **given, "pipeline_kwargs": kwargs}


def _make(section: Mapping[str, Any]) -> Any:
    module, _, name = str(section["class_path"]).rpartition(".")
    return getattr(import_module(module), name)(**(section.get("init_args") or {}))


def _passes(layout: BatchLayout, algorithm: Algorithm, steps: int, batch_size: int) -> Passes:
    training = layout.micro_batches_per_rank
    others = len(algorithm.copies) + (getattr(algorithm, "kl_weight", 0) > 0)
    sampling = math.ceil(layout.samples_per_rank / batch_size) * steps
    return Passes(sampling, training if algorithm.stochastic else 0, training, others * training)


def _weights(
    model: Mapping[str, Any], folder: Path, settings: Mapping[str, Any], transformer_shares: int
) -> list[Memory]:
    dtype, offload = str(settings.get("dtype") or "float32"), bool(settings.get("offload_encoders"))
    parts = []
    for name, count in parameters_of_components(folder).items():
        is_transformer = name.startswith("transformer")
        shares = transformer_shares if is_transformer else 1
        quantize = settings.get("quantize") if is_transformer else None
        size = count * bytes_per_parameter(dtype, quantize) / shares
        shared = f", a share of 1/{shares}" if shares > 1 else ""
        about = f"{name}: {count / 1e6:.4g}M parameters in {quantize or dtype}{shared}"
        parts.append(Memory(about, size, on_accelerator=is_transformer or not offload))
    for key in ("reward", "monitors"):
        for judge in _folders(model.get(key)):
            count = sum(parameters_of_components(judge).values())
            if count:
                about = f"{key} {judge}: {count / 1e6:.4g}M parameters, as float32"
                parts.append(Memory(about, count * bytes_per_parameter("float32")))
    return parts


def _folders(section: Any) -> list[Path]:
    if isinstance(section, Mapping):
        return [folder for value in section.values() for folder in _folders(value)]
    if isinstance(section, str) and len(Path(section).parts) > 1 and Path(section).is_dir():
        return [Path(section)]
    return []


def _training(adapter: int, num_copies: int, stage: int, ranks: int) -> list[Memory]:
    """Adapter, gradients and moments in float32; ZeRO cuts up moments (1), gradients (2), weights (3)."""
    in_millions = f"{adapter / 1e6:.4g}M parameters in float32"
    moments = 8 / (ranks if stage >= 1 else 1) + (4 / ranks if stage >= 1 else 0)
    parts = [
        Memory(f"adapter: {in_millions}", 4 * adapter / (ranks if stage == 3 else 1)),
        Memory("its gradients", 4 * adapter / (ranks if stage >= 2 else 1)),
        Memory(f"AdamW's moments{' and main weights' if stage else ''}", moments * adapter),
    ]
    if num_copies:
        parts.append(
            Memory(f"copies of the adapter (average, sampling policy): {num_copies}", 4 * adapter * num_copies)
        )
    return parts


def _latents(layout: BatchLayout, algorithm: Algorithm, picture: PictureSize, window_size: int) -> Memory:
    """Count what the micro-batches keep; while they are made, the trajectories that they are cut from exist too."""
    kept = algorithm.num_kept_latents(window_size)
    size = 4 * layout.samples_per_rank * kept * picture.elements
    return Memory(f"latents: {layout.samples_per_rank} samples x {kept} x {picture.elements} numbers in float32", size)


def _activations(
    layout: BatchLayout,
    transformer: TransformerSize,
    picture: PictureSize,
    settings: Mapping[str, Any],
    model: Mapping[str, Any],
    trainer: Mapping[str, Any],
) -> Memory:
    """Estimate what one micro-batch keeps for its backward pass, with one reference as large as the picture."""
    text_tokens = int(settings["pipeline_kwargs"].get("max_sequence_length") or 512)
    tokens = 2 * picture.tokens + text_tokens
    width = 2 if "16" in str(trainer.get("precision")) else 4
    per_block = VALUES_PER_TOKEN * transformer.hidden * tokens * layout.micro_batch_size * width
    formula = f"{layout.micro_batch_size} samples x {tokens} tokens x {transformer.hidden} wide x {width} bytes"
    if model["optimizer"].get("gradient_checkpointing"):
        size = per_block + per_block / VALUES_PER_TOKEN * transformer.blocks
        return Memory(
            f"activations: {formula} x ({VALUES_PER_TOKEN} values of one block + 1 of {transformer.blocks})", size
        )
    formula += f" x {transformer.blocks} blocks x {VALUES_PER_TOKEN} values"
    return Memory(f"activations: {formula}", per_block * transformer.blocks)


def _readable(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"
