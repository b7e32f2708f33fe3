"""Training a reward model with Lightning: preferences and dense targets, adapters and heads only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from pytorch_lightning import LightningModule
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from gnomon.errors import UserError
from gnomon.hashing import stable_seed
from rm.data import LabelCounts, PairBatch
from rm.lora import LoraOptions
from rm.losses import LossOutput, bradley_terry, rao_kupper, regression
from rm.metrics import PairAccuracy, PairFigures
from rm.pairs import DIMENSIONS
from rm.prompt import DEFAULT_TEMPLATE, PromptTemplate
from rm.reward_model import RewardModel


class RewardModule(LightningModule):
    """A reward model, its losses and its optimizer.

    Args:
        base: folder or hub name of the base model.
        dimensions: names of the heads.
        lora: the adapter; null trains the heads alone.
        template: the prompt, with {references}, {instruction} and {candidate}.
        end_marker: token at which the score is read; null takes a reserved one.
        dtype: of the frozen base: float32, bfloat16 or float16.
        loss: bradley_terry leaves ties out, rao_kupper learns from them.
        tie_k: k of rao_kupper.
        use_margins: ask for a distance of at least the judgements' margins (bradley_terry).
        margin_scale: what a margin of 1 means in scores.
        centring: weight of the pull of scores towards a mean of zero (bradley_terry; .01 is usual).
        regression_weight: weight of the squared error against absolute scores, where the data has them.
        learning_rate: peak, of the adapter.
        head_learning_rate: peak, of the heads; null takes learning_rate.
        weight_decay: of AdamW.
        warmup: share of the steps in which the rate rises linearly; a cosine then takes it to zero.
        gradient_checkpointing: trade time for memory in the base model.
        seed: of fresh heads and adapter, and of dropout.
    """

    def __init__(
        self,
        base: str,
        dimensions: Sequence[str] = DIMENSIONS,
        lora: LoraOptions | None = LoraOptions(),  # noqa: B008, frozen
        template: str = DEFAULT_TEMPLATE,
        end_marker: str | None = None,
        dtype: Literal["float32", "bfloat16", "float16"] = "float32",
        loss: Literal["bradley_terry", "rao_kupper"] = "bradley_terry",
        tie_k: float = 5.0,
        use_margins: bool = False,
        margin_scale: float = 1.0,
        centring: float = 0.0,
        regression_weight: float = 0.0,
        learning_rate: float = 1e-4,
        head_learning_rate: float | None = None,
        weight_decay: float = 0.0,
        warmup: float = 0.05,
        gradient_checkpointing: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.reward_model = RewardModel.from_base(
            base,
            dimensions=dimensions,
            lora=lora,
            template=PromptTemplate(template, end_marker),
            dtype=dtype,
            seed=seed,
        )
        self.reward_model.train()  # Lightning takes modules as it finds them
        if gradient_checkpointing:
            self.reward_model.checkpoint_activations()
        self.loss, self.tie_k = loss, tie_k
        self.use_margins, self.margin_scale = use_margins, margin_scale
        self.centring, self.regression_weight = centring, regression_weight
        self.learning_rate = learning_rate
        self.head_learning_rate = learning_rate if head_learning_rate is None else head_learning_rate
        self.weight_decay, self.warmup, self.seed = weight_decay, warmup, seed
        self.validation_accuracy = PairAccuracy(self.reward_model.dimensions, seed=seed)
        self.figures: dict[str, PairFigures] = {}
        # Checkpoints hold what is trained and nothing else; the base is read from where it is.
        self.strict_loading = False

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names of the heads."""
        return self.reward_model.dimensions

    def learns_from(self, counts: LabelCounts) -> bool:
        """Return whether this much training data in a dimension moves its head."""
        pairs = counts.decided + (counts.ties if self.loss == "rao_kupper" else 0)
        return pairs > 0 or (counts.scores > 0 and bool(self.regression_weight))

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return scores [rows, dimensions]."""
        scores: Tensor = self.reward_model(inputs)
        return scores

    def on_train_batch_start(self, batch: PairBatch, batch_idx: int) -> None:
        """Make dropout a function of (seed, step, rank), so that a resumed run draws the same."""
        torch.manual_seed(stable_seed("dropout", self.seed, self.global_step, batch_idx, self.global_rank))

    def training_step(self, batch: PairBatch, batch_idx: int) -> Tensor:
        """Return the loss of a batch.

        Raises:
            UserError: when it is not finite: every further step would only spread that.
        """
        output = self.losses(self(batch.inputs), batch)
        if not torch.isfinite(output.loss):
            raise UserError(
                f"expected a finite loss, got {output.loss.item()} at step {self.global_step}; lower the "
                "learning rate, clip gradients or compute in float32"
            )
        pairs = len(batch.pair_ids)
        self.log("train/loss", output.loss, prog_bar=True, batch_size=pairs)
        self.log_dict({f"train/{name}": value for name, value in output.metrics.items()}, batch_size=pairs)
        return output.loss

    def losses(self, scores: Tensor, batch: PairBatch) -> LossOutput:
        """Return the preference loss plus the weighted regression loss.

        Args:
            scores: of the batch's rows [rows, dimensions].
            batch: pairs, labels and targets.
        """
        first, second = scores[batch.first], scores[batch.second]
        if self.loss == "rao_kupper":
            preference = rao_kupper(first, second, batch.labels, k=self.tie_k)
        else:
            margins = batch.margins * self.margin_scale if self.use_margins else None
            preference = bradley_terry(first, second, batch.labels, margins=margins, centring=self.centring)
        if not self.regression_weight:
            return preference
        dense = regression(scores, batch.targets)
        loss = preference.loss + self.regression_weight * dense.loss
        return LossOutput(loss, {**preference.metrics, **dense.metrics})

    def validation_step(self, batch: PairBatch, batch_idx: int) -> None:
        """Collect the differences of a batch's pairs."""
        scores = self(batch.inputs)
        differences = scores[batch.first] - scores[batch.second]
        self.validation_accuracy.update(batch.pair_ids, batch.group_ids, differences, batch.labels)

    def on_validation_epoch_end(self) -> None:
        """Log accuracy, its interval and the tie rate of every dimension; strict accuracy chooses the checkpoint."""
        self.figures = self.validation_accuracy.compute()
        self.validation_accuracy.reset()
        logged = {}
        for name, figures in self.figures.items():
            for key, value in (
                ("accuracy", figures.strict),
                ("accuracy_low", figures.ci_low),
                ("accuracy_high", figures.ci_high),
                ("half_credit", figures.half_credit),
                ("tie_rate", figures.tie_rate),
            ):
                if value is not None:
                    logged[f"validation/{key}_{name}"] = value
            logged[f"validation/n_{name}"] = float(figures.n)
            logged[f"validation/failures_{name}"] = float(figures.failures)
        known = [figures.strict for figures in self.figures.values() if figures.strict is not None]
        if not known:
            raise UserError("expected decided pairs in the validation data, all of them are ties or failed")
        logged["validation/accuracy_mean"] = sum(known) / len(known)
        # Every rank has the same figures from the gathered pairs; their mean over ranks only tells Lightning so.
        self.log_dict(logged, sync_dist=self.trainer.world_size > 1)

    def configure_optimizers(self) -> Any:
        """Return AdamW with two rates, linear warm-up and cosine decay over the whole run.

        Raises:
            UserError: when nothing would be trained.
        """
        heads = list(self.reward_model.head.parameters())
        known = {id(parameter) for parameter in heads}
        adapter = [p for p in self.reward_model.parameters() if p.requires_grad and id(p) not in known]
        if not any(parameter.requires_grad for parameter in heads) or (self.reward_model.lora and not adapter):
            raise UserError("expected adapter and heads to take gradients, some do not; nothing would be learnt")
        groups = [{"params": heads, "lr": self.head_learning_rate, "name": "heads"}]
        if adapter:
            groups.append({"params": adapter, "lr": self.learning_rate, "name": "adapter"})
        optimizer = torch.optim.AdamW(groups, lr=self.learning_rate, weight_decay=self.weight_decay)
        total = int(self.trainer.estimated_stepping_batches)
        scheduler = LambdaLR(optimizer, WarmupCosine(total, self.warmup))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep trained parameters only, and the figures of the validation that they were saved for."""
        trained = {name for name, parameter in self.named_parameters() if parameter.requires_grad}
        checkpoint["state_dict"] = {name: v for name, v in checkpoint["state_dict"].items() if name in trained}
        checkpoint["figures"] = {name: figures._asdict() for name, figures in self.figures.items()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse a checkpoint of another shape of model.

        Raises:
            UserError: when it lacks a trained parameter or has one too many.
        """
        trained = {name for name, parameter in self.named_parameters() if parameter.requires_grad}
        different = trained ^ set(checkpoint["state_dict"])
        if different:
            raise UserError(
                f"expected a checkpoint of this model, {len(different)} parameters differ (such as {min(different)}); "
                "use the config that it was made with"
            )


class WarmupCosine:
    """Factor of the learning rate: linear from 0 to 1, then half a cosine to 0.

    Args:
        total: optimizer steps of the run.
        warmup: share of them that rises.
    """

    def __init__(self, total: int, warmup: float) -> None:
        self.total, self.rising = max(1, total), math.ceil(warmup * total)

    def __call__(self, step: int) -> float:
        """Return the factor for optimizer step `step`, counted from 0."""
        if step < self.rising:
            return (step + 1) / (self.rising + 1)
        progress = (step - self.rising) / max(1, self.total - self.rising)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
