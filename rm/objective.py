"""What a reward model is trained for: the chosen preference loss, plus regression to absolute scores."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from gnomon.errors import UserError
from rm.data import LabelCounts, PairBatch
from rm.gaussian import gaussian_preference
from rm.heads import Scores
from rm.losses import LossOutput, TieWidth, bradley_terry, listwise, rao_kupper, regression

Loss = Literal["bradley_terry", "rao_kupper", "gaussian", "hpsv3", "listwise", "regression"]
TieK = float | Literal["fit"] | None
DEFAULT_TIE_K = 5.0


class Objective(nn.Module):
    """The loss of a batch; a module because the width of a tie may be learnt.

    Args:
        loss: see :class:`rm.module.RewardModule`; None takes gaussian for heads with uncertainty, else bradley_terry.
        dimensions: how many.
        uncertainty: whether the heads say a standard deviation.
        tie_k: see :class:`rm.module.RewardModule`.
        use_margins: see :class:`rm.module.RewardModule`.
        margin_scale: see :class:`rm.module.RewardModule`.
        centring: see :class:`rm.module.RewardModule`.
        regression_weight: see :class:`rm.module.RewardModule`.

    Raises:
        UserError: when settings contradict each other.
    """

    def __init__(
        self,
        loss: Loss | None,
        *,
        dimensions: int,
        uncertainty: bool = False,
        tie_k: TieK = None,
        use_margins: bool = False,
        margin_scale: float = 1.0,
        centring: float = 0.0,
        regression_weight: float = 0.0,
    ) -> None:
        super().__init__()
        self.loss: Loss = loss or ("gaussian" if uncertainty else "bradley_terry")
        _check_loss(self.loss, uncertainty, tie_k, use_margins or bool(centring))
        self.use_margins, self.margin_scale, self.centring = use_margins, margin_scale, centring
        # A loss of regression alone has no other term to be weighed against.
        self.regression_weight = regression_weight or (1.0 if self.loss == "regression" else 0.0)
        if tie_k is None and self.loss == "rao_kupper":
            tie_k = DEFAULT_TIE_K
        self.tie_width = TieWidth(dimensions, DEFAULT_TIE_K) if tie_k == "fit" else None
        self._tie_k = None if tie_k == "fit" else tie_k

    @property
    def tie_k(self) -> float | Tensor | None:
        """Width of a tie: a number, a learnt one per dimension [dimensions], or None where ties teach nothing."""
        if self.tie_width is None:
            return self._tie_k
        learnt: Tensor = self.tie_width()
        return learnt

    def learns_from(self, counts: LabelCounts) -> bool:
        """Return whether this much training data in a dimension moves its head."""
        pairs = counts.decided + (0 if self.tie_k is None else counts.ties)
        return (pairs > 0 and self.loss != "regression") or (counts.scores > 0 and bool(self.regression_weight))

    def forward(self, scores: Scores, batch: PairBatch) -> LossOutput:
        """Return the preference loss plus the weighted regression loss.

        Args:
            scores: of the batch's rows.
            batch: pairs, labels and targets.
        """
        if self.loss == "regression":
            dense = regression(scores.mean, batch.targets)
            return LossOutput(self.regression_weight * dense.loss, dense.metrics)
        preference = self._preference(scores, batch)
        if not self.regression_weight:
            return preference
        dense = regression(scores.mean, batch.targets)
        loss = preference.loss + self.regression_weight * dense.loss
        return LossOutput(loss, {**preference.metrics, **dense.metrics})

    def _preference(self, scores: Scores, batch: PairBatch) -> LossOutput:
        if self.loss == "listwise":
            return listwise(scores.mean, batch.first, batch.second, batch.labels)
        first, second = scores.mean[batch.first], scores.mean[batch.second]
        if self.loss == "rao_kupper":
            assert self.tie_k is not None
            return rao_kupper(first, second, batch.labels, k=self.tie_k)
        if self.loss == "bradley_terry":
            margins = batch.margins * self.margin_scale if self.use_margins else None
            return bradley_terry(first, second, batch.labels, margins=margins, centring=self.centring)
        assert scores.log_sigma is not None
        return gaussian_preference(
            first,
            second,
            scores.log_sigma[batch.first],
            scores.log_sigma[batch.second],
            batch.labels,
            form="hpsv3" if self.loss == "hpsv3" else "marginal",
            k=self.tie_k,
        )


def _check_loss(loss: Loss, uncertainty: bool, tie_k: TieK, margins_or_centring: bool) -> None:
    if (loss in ("gaussian", "hpsv3")) != uncertainty:
        wanted = "model.uncertainty true" if not uncertainty else "model.loss gaussian or hpsv3"
        raise UserError(
            f"expected {wanted}, got model.loss {loss} with model.uncertainty {str(uncertainty).lower()}: "
            "only these two losses teach a head its standard deviation, and they need one"
        )
    if tie_k is not None and loss in ("bradley_terry", "listwise", "regression"):
        raise UserError(f"model.tie_k has no meaning for model.loss {loss}; choose rao_kupper, gaussian or hpsv3")
    if isinstance(tie_k, float) and not tie_k > 1:
        raise UserError(f"expected model.tie_k above 1 (1 knows no ties), got {tie_k}")
    if margins_or_centring and loss != "bradley_terry":
        raise UserError(
            f"model.use_margins and model.centring have no meaning for model.loss {loss}; choose bradley_terry"
        )
