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
from gnomon.ranks import failing_together
from gnomon.sharding import is_sharded
from rm.data import PairBatch
from rm.gaussian import log_odds
from rm.heads import Scores
from rm.lora import LoraOptions
from rm.losses import LossOutput
from rm.metrics import PairAccuracy, PairFigures
from rm.objective import Loss, Objective, TieK
from rm.pairs import DIMENSIONS
from rm.prompt import DEFAULT_TEMPLATE, PromptTemplate
from rm.reward_model import RewardModel
from rm.vlm.packing import check_packable


class RewardModule(LightningModule):
    """A reward model, its losses and its optimizer.

    Args:
        base: folder or hub name of the base model.
        dimensions: names of the heads.
        lora: the adapter; null trains the heads alone.
        template: the prompt, with {references}, {instruction} and {candidate}.
        end_marker: token at which the score is read; null takes a reserved one.
        dtype: of the frozen base: float32, bfloat16 or float16.
        max_pixels: larger pictures are shrunk to about so many pixels; null keeps the base's own limit.
        quantize: nf4 keeps the base's language model in four bits a weight (QLoRA); null as it is.
        uncertainty: give every score a standard deviation, which the losses gaussian and hpsv3 teach.
        loss: bradley_terry leaves ties out; rao_kupper learns from them; gaussian is the likelihood of the label under
            uncertain scores, hpsv3 the expected loss under them; listwise takes all candidates of a comparison at
            once; regression learns from absolute scores alone. Null takes gaussian with uncertainty, else
            bradley_terry.
        tie_k: k > 1 of rao_kupper, where (k - 1) / (k + 1) is the tie rate of equally good candidates; fit learns one
            per dimension. Null is 5 for rao_kupper, and leaves ties out of gaussian and hpsv3.
        use_margins: ask for a distance of at least the judgements' margins (bradley_terry).
        margin_scale: what a margin of 1 means in scores.
        centring: weight of the pull of scores towards a mean of zero (bradley_terry; .01 is usual).
        regression_weight: weight of the squared error against absolute scores, where the data has them.
        learning_rate: peak, of the adapter.
        head_learning_rate: peak, of the heads; null takes learning_rate.
        weight_decay: of AdamW.
        warmup: share of the steps in which the rate rises linearly; a cosine then takes it to zero.
        gradient_checkpointing: trade time for memory in the base model.
        share_prefix: read what the candidates of a comparison have in common once: equal values, less work the more
            references there are. For base models with full attention (Qwen2.5-VL, Qwen3-VL, SmolVLM).
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
        max_pixels: int | None = None,
        quantize: Literal["nf4"] | None = None,
        uncertainty: bool = False,
        loss: Loss | None = None,
        tie_k: TieK = None,
        use_margins: bool = False,
        margin_scale: float = 1.0,
        centring: float = 0.0,
        regression_weight: float = 0.0,
        learning_rate: float = 1e-4,
        head_learning_rate: float | None = None,
        weight_decay: float = 0.0,
        warmup: float = 0.05,
        gradient_checkpointing: bool = False,
        share_prefix: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.reward_model = RewardModel.from_base(
            base,
            dimensions=dimensions,
            lora=lora,
            template=PromptTemplate(template, end_marker),
            dtype=dtype,
            uncertainty=uncertainty,
            quantize=quantize,
            max_pixels=max_pixels,
            seed=seed,
        )
        self.reward_model.train()  # Lightning takes modules as it finds them
        if gradient_checkpointing:
            self.reward_model.checkpoint_activations()
        if share_prefix:
            check_packable(self.reward_model.vlm.config)
        self.share_prefix = share_prefix
        self.objective = Objective(
            loss,
            dimensions=len(self.reward_model.dimensions),
            uncertainty=uncertainty,
            tie_k=tie_k,
            use_margins=use_margins,
            margin_scale=margin_scale,
            centring=centring,
            regression_weight=regression_weight,
        )
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

    def forward(self, inputs: dict[str, Tensor]) -> Scores:
        """Return the scores of the inputs' rows."""
        scores: Scores = self.reward_model(inputs)
        return scores

    def on_train_batch_start(self, batch: PairBatch, batch_idx: int) -> None:
        """Make dropout a function of (seed, step, rank), so that a resumed run draws the same."""
        torch.manual_seed(stable_seed("dropout", self.seed, self.global_step, batch_idx, self.global_rank))

    def training_step(self, batch: PairBatch, batch_idx: int) -> Tensor:
        """Return the loss of a batch.

        Raises:
            UserError: when it is not finite: every further step would only spread that.
        """
        # Ranks that hold a share of each weight meet in every layer, and one that fails there is out of step.
        with failing_together(exchange=not is_sharded(self.parameters())):
            output: LossOutput = self.objective(self(batch.inputs), batch)
            if not torch.isfinite(output.loss):
                raise UserError(
                    f"expected a finite loss, got {output.loss.item()} at step {self.global_step}; lower the "
                    "learning rate, clip gradients or compute in float32"
                )
        pairs = len(batch.pair_ids)
        self.log("train/loss", output.loss, prog_bar=True, batch_size=pairs)
        self.log_dict({f"train/{name}": value for name, value in output.metrics.items()}, batch_size=pairs)
        # Lightning 2.6.6 divides by the accumulated batches although DeepSpeed does it itself: once is enough.
        twice = self.trainer.accumulate_grad_batches if self.trainer.strategy.handles_gradient_accumulation else 1
        return output.loss * twice

    def validation_step(self, batch: PairBatch, batch_idx: int) -> None:
        """Collect the log-odds of a batch's pairs."""
        differences = log_odds(self(batch.inputs), batch.first, batch.second)
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
                ("calibration_error", figures.ece),
                ("temperature", figures.temperature),
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
        known = {id(parameter) for parameter in [*heads, *self.objective.parameters()]}
        adapter = [p for p in self.reward_model.parameters() if p.requires_grad and id(p) not in known]
        if not any(parameter.requires_grad for parameter in heads) or (self.reward_model.lora and not adapter):
            raise UserError("expected adapter and heads to take gradients, some do not; nothing would be learnt")
        heads += self.objective.parameters()
        groups = [{"params": heads, "lr": self.head_learning_rate, "name": "heads"}]
        if adapter:
            groups.append({"params": adapter, "lr": self.learning_rate, "name": "adapter"})
        optimizer = torch.optim.AdamW(groups, lr=self.learning_rate, weight_decay=self.weight_decay)
        total = int(self.trainer.estimated_stepping_batches)
        scheduler = LambdaLR(optimizer, WarmupCosine(total, self.warmup))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def trained_parameters(self) -> dict[str, Tensor]:
        """Return heads, adapter and whatever else takes gradients, by name."""
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep trained parameters only; called on all ranks."""
        # DeepSpeed writes the weights into files of its own, and leaves nothing here.
        state, trained = checkpoint.get("state_dict") or {}, self.trained_parameters()
        checkpoint["state_dict"] = {name: value for name, value in state.items() if name in trained}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse a checkpoint of another shape of model.

        Raises:
            UserError: when it lacks a trained parameter or has one too many.
        """
        state = checkpoint.get("state_dict")
        different = set(self.trained_parameters()) ^ set(state) if state else set()
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
