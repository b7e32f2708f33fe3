"""One start of a run: cold start, then GRPO, each of which an earlier start may have begun or finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoConfig

from gnomon.datasets import read_comparisons
from gnomon.errors import UserError
from gnomon.runs import RunFolder
from gnomon.tracking import make_logger
from gnomon.training import CHECKPOINTS
from rm.lora import add_lora, load_lora
from rm.storage import resolve_base
from rm.thinking.asking import Question
from rm.thinking.data import Target, expand_examples, read_rationales
from rm.thinking.options import ThinkingOptions
from rm.thinking.prompts import check_tags
from rm.thinking.stages import Figures, Workplace, train_cold_start, train_grpo
from rm.thinking.storage import is_identity, save_adapter, save_judge
from rm.vlm.loading import load_vlm
from rm.vlm.processor import load_processor

ADAPTER, COLD_ADAPTER = "adapter", "cold_start"
_ENDS = 10  # steps at the beginning and at the end whose mean rewards are told


class ThinkingRun:
    """Everything that is read before the first model is loaded, and then the two stages.

    Args:
        options: the settings.
        question: what is asked.
        out: the run folder.
        ranks: processes that train together.

    Raises:
        UserError: for data, rationales or a base that do not fit.
    """

    def __init__(self, options: ThinkingOptions, question: Question, out: Path, ranks: int = 1) -> None:
        self.options, self.question, self.out = options, question, out
        self.base = resolve_base(options.base)
        self.examples = expand_examples(read_comparisons(options.data), options.protocol, options.metric)
        self.targets: list[Target] = []
        self.counts: dict[str, int] = {}
        if options.rationales is not None and options.cold_start.steps:
            self.targets, self.counts = read_rationales(Path(options.rationales), self.examples, question)
        if not self.targets and not options.grpo.steps:
            raise UserError("expected something to train, got no cold start and grpo.steps 0; raise grpo.steps")
        config = AutoConfig.from_pretrained(self.base)
        self.processor = load_processor(self.base, config)
        padded_left = load_processor(self.base, config)
        # trl pads prompts on the left, and takes what the processor says about each token to be padded likewise.
        padded_left.tokenizer.padding_side = "left"
        check_tags(padded_left)
        self.place = Workplace(options, question, padded_left, out / CHECKPOINTS, None, ranks)

    def train(self, folder: RunFolder | None) -> None:
        """Run both stages and save the judge.

        Args:
            folder: the open run folder; None on ranks other than the first.

        Raises:
            UserError: when nothing was learnt.
        """
        if folder is not None:
            self.place = replace(self.place, logger=make_logger(self.options.tracker, self.out, project="gnomon-rm"))
        knows_rationales = self._cold_start(folder is not None)
        model = self._model(self.out / COLD_ADAPTER if knows_rationales else None)
        figures = train_grpo(self.place, model, self.examples) if self.options.grpo.steps else []
        if folder is not None:
            self._save(folder, model, figures)

    def _cold_start(self, is_first_rank: bool) -> bool:
        """Teach the rationales unless that is done; say whether there is an adapter that knows them."""
        if is_first_rank:
            counts = ", ".join(f"{name} {count}" for name, count in self.counts.items())
            print(f"cold start: {counts}" if counts else "no cold start: there are no rationales, or no steps for it")
        if not self.targets:
            return False
        if not (self.out / COLD_ADAPTER).is_dir():
            model = self._model(None)
            train_cold_start(self.place, model, self.targets)
            if is_first_rank:
                save_adapter(model, self.out / COLD_ADAPTER)
            if torch.distributed.is_available() and torch.distributed.is_initialized():
                torch.distributed.barrier()  # all ranks go on from what the first one wrote
        return True

    def _model(self, adapter: Path | None) -> PeftModel:
        """Load the base with a fresh adapter, or with one to go on from."""
        base = load_vlm(self.base, self.options.dtype)
        if adapter is not None:
            return load_lora(base, str(adapter), trainable=True)
        torch.manual_seed(self.options.seed)  # of the fresh adapter
        return add_lora(base, self.options.lora)

    def _save(self, folder: RunFolder, model: PeftModel, figures: Figures) -> None:
        first, last = (_mean_rewards(part) for part in (figures[:_ENDS], figures[-_ENDS:]))
        rewards = ", ".join(f"{name} {value:.3f}" for name, value in last.items()) or "none"
        if is_identity(model):
            raise UserError(
                f"nothing was learnt (mean rewards of the last steps: {rewards}): in every group all replies had equal "
                "rewards, so the adapter is still the identity; give rationales for a cold start, or another base"
            )
        steps = {"cold_start": self.options.cold_start.steps if self.targets else 0, "grpo": self.options.grpo.steps}
        notes = {
            "training data": self.options.data,
            "steps": f"{steps['cold_start']} of cold start, {steps['grpo']} of GRPO",
            f"mean rewards of the last {_ENDS} steps": rewards,
        }
        save_judge(
            model,
            self.out / ADAPTER,
            base=self.base,
            options=self.options,
            question=self.question,
            processor=self.processor,
            notes=notes,
        )
        results = {"examples": len(self.examples), "rationales": self.counts, "steps": steps}
        folder.write_json("results.json", {**results, "first_rewards": first, "last_rewards": last})
        print(f"mean rewards of the last steps: {rewards}")
        print(f"the judge's adapter is in {self.out / ADAPTER}")


def _mean_rewards(figures: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the means over some steps, by the reward's name."""
    names = {name for entry in figures for name in entry if name.startswith("rewards/") and name.endswith("/mean")}
    return {name.split("/")[1]: fmean(entry[name] for entry in figures) for name in sorted(names)}
