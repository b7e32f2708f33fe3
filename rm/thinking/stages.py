"""The two trl trainers with their data and settings, and checkpoints that a killed run goes on from."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import PrinterCallback, ProcessorMixin, TrainerCallback

from gnomon.optional import require
from rm.thinking.asking import Question
from rm.thinking.data import Example, Target, schedule
from rm.thinking.options import ThinkingOptions
from rm.thinking.rewards import answer_reward, format_reward
from rm.thinking.rows import PromptRows, TargetRows, dataset

if TYPE_CHECKING:
    from peft import PeftModel
    from pytorch_lightning.loggers import Logger

COLD_START, GRPO = "cold_start", "grpo"
_STATE = "trainer_state.json"
Figures = list[dict[str, Any]]
"""What a trainer logged, one dict per step."""


@dataclass(frozen=True)
class Workplace:
    """What both stages share.

    Attributes:
        options: the settings.
        question: what is asked.
        processor: of the base model.
        folder: for checkpoints, one folder per stage in it.
        logger: takes the figures; None on ranks other than the first.
        ranks: processes that train together.
    """

    options: ThinkingOptions
    question: Question
    processor: ProcessorMixin
    folder: Path
    logger: Logger | None
    ranks: int


def train_cold_start(place: Workplace, model: PeftModel, targets: Sequence[Target]) -> Figures:
    """Teach the adapter the rationales, or go on where a killed run was.

    Returns:
        The logged figures of all steps.
    """
    trl = require("trl", feature="a thinking judge", extra="thinking")
    settings = place.options.cold_start
    rows = schedule(len(targets), settings.steps * settings.batch_size, seed=place.options.seed, stage=COLD_START)
    arguments = trl.SFTConfig(
        **_common(place, COLD_START, settings.batch_size // settings.micro_batch_size // place.ranks),
        lr_scheduler_type="cosine",
        max_length=None,  # a cut could go through a picture
        train_sampling_strategy="sequential",  # `rows` is the order
        dataset_kwargs={"skip_prepare_dataset": True},
    )
    loader = TargetRows(place.question, place.processor, targets, thinking=place.options.thinking_template)
    trainer = trl.SFTTrainer(
        model=model, args=arguments, train_dataset=dataset(rows, loader), processing_class=place.processor
    )
    return _run(trainer, place, COLD_START, first_step=0)


def train_grpo(place: Workplace, model: PeftModel, examples: Sequence[Example]) -> Figures:
    """Reward replies of the adapter, or go on where a killed run was.

    Returns:
        The logged figures of all steps.
    """
    trl = require("trl", feature="a thinking judge", extra="thinking")
    length_reward = require("trl.rewards", feature="the length reward", extra="thinking").get_soft_overlong_punishment
    options, settings = place.options, place.options.grpo
    replies = settings.prompts_per_step * settings.group_size
    total = settings.steps * settings.prompts_per_step
    rows = schedule(len(examples), total, seed=options.seed, stage=GRPO, together=2)
    loader = PromptRows(place.question, place.processor, examples, thinking=options.thinking_template)
    arguments = trl.GRPOConfig(
        **_common(place, GRPO, replies // settings.micro_batch_size // place.ranks),
        lr_scheduler_type="constant_with_warmup",
        num_generations=settings.group_size,
        max_completion_length=settings.max_completion_length,
        temperature=settings.temperature,
        beta=settings.beta,
        reward_weights=[options.rewards.answer, options.rewards.format, options.rewards.length],
        shuffle_dataset=False,  # `rows` is the order
        disable_dropout=True,  # or the same reply would have two probabilities
        chat_template_kwargs=loader.variables,
    )
    trainer = trl.GRPOTrainer(
        model=model,
        args=arguments,
        reward_funcs=[
            answer_reward(place.question, loader.opened, options.tie_margin),
            format_reward(place.question, loader.opened),
            length_reward(settings.max_completion_length, settings.length_cache),
        ],
        train_dataset=dataset(rows, loader),
        processing_class=place.processor,
    )
    return _run(trainer, place, GRPO, first_step=options.cold_start.steps)


def _common(place: Workplace, stage: str, accumulation: int) -> dict[str, Any]:
    options = place.options
    settings = options.cold_start if stage == COLD_START else options.grpo
    return {
        "output_dir": str(place.folder / stage),
        "max_steps": settings.steps,
        "per_device_train_batch_size": settings.micro_batch_size,
        "gradient_accumulation_steps": accumulation,
        "learning_rate": settings.learning_rate,
        "warmup_steps": settings.warmup_steps,
        "logging_steps": 1,
        "save_steps": options.save_steps,
        "save_total_limit": 2,
        "report_to": "none",  # figures go to our own logger
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "seed": options.seed,
        "bf16": options.dtype == "bfloat16",
        "fp16": options.dtype == "float16",
        "use_cpu": options.device == "cpu",
        "activation_checkpointing": options.gradient_checkpointing,
    }


def _run(trainer: Any, place: Workplace, stage: str, *, first_step: int) -> Figures:
    """Train to the end and return the logged figures."""
    trainer.remove_callback(PrinterCallback)
    if place.logger is not None:
        trainer.add_callback(_Logging(place.logger, stage, first_step))
    checkpoint = last_checkpoint(place.folder / stage)
    if checkpoint is not None and place.logger is not None:
        print(f"{stage}: resuming from {checkpoint}")
    with _trl_is_behind():
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    trainer.accelerator.wait_for_everyone()
    return [entry for entry in trainer.state.log_history if "train_runtime" not in entry]


class _Logging(TrainerCallback):
    """Hands a trainer's figures to our logger, and says every now and then how it goes."""

    def __init__(self, logger: Logger, stage: str, first_step: int) -> None:
        self.logger, self.stage, self.first_step = logger, stage, first_step

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Log one step."""
        if logs is None or "train_runtime" in logs:
            return
        figures = {f"{self.stage}/{name}": float(value) for name, value in logs.items() if _is_number(value)}
        self.logger.log_metrics(figures, step=self.first_step + state.global_step)
        self.logger.save()
        if state.global_step % max(1, state.max_steps // 10) == 0:
            names = ("loss", "reward", "rewards/answer/mean", "rewards/format/mean")
            shown = ", ".join(f"{name} {float(logs[name]):.3f}" for name in names if name in logs)
            print(f"{self.stage}: step {state.global_step} of {state.max_steps}: {shown}", flush=True)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest whole checkpoint, and delete newer ones that a kill left half written.

    transformers writes the trainer's state last, so that one with a state that parses is whole.
    """
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    for checkpoint in found:
        try:
            json.loads((checkpoint / _STATE).read_bytes())
        except (OSError, ValueError):
            shutil.rmtree(checkpoint, ignore_errors=True)  # another rank may be at it
        else:
            return checkpoint
    return None


@contextmanager
def _trl_is_behind() -> Iterator[None]:
    """Hide what nobody here can act on: trl 1.16 and peft 0.21 ask transformers 5.24 by old names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`(is_)?gradient_checkpointing.*` is deprecated", FutureWarning)
        yield
