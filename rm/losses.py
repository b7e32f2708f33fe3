"""Losses of scalar reward models: pairs, ties and dense targets, per dimension, with missing entries masked.

All functions are pure and take scores of any float type. Every entry [pair, dimension] stands for itself: an entry
without a label, or with one that a loss has no use for, adds neither to the loss nor to its denominator, and a
batch without any valid entry has loss 0 (with a gradient of 0), never NaN.

Labels: 1 where the first candidate is better, -1 where the second is, 0 for a tie, NaN where nobody said.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid


@dataclass(frozen=True)
class LossOutput:
    """A loss and what to log beside it.

    Attributes:
        loss: scalar, differentiable.
        metrics: detached scalars; means over the valid entries, 0 where there are none.
    """

    loss: Tensor
    metrics: dict[str, Tensor] = field(default_factory=dict)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of `values` where `mask` holds, and 0 (connected to the graph) where it never does.

    Args:
        values: any shape; entries outside the mask may be NaN or infinite.
        mask: booleans of the same shape.
    """
    return kept(values, mask).sum() / mask.sum().clamp(min=1)


def bradley_terry(
    first: Tensor,
    second: Tensor,
    labels: Tensor,
    *,
    margins: Tensor | None = None,
    centring: float = 0.0,
    mask: Tensor | None = None,
) -> LossOutput:
    """Return -log sigma(r_better - r_worse - margin) + centring * (r_better + r_worse)^2, averaged.

    Bradley and Terry (1952), as reward models use it (Ouyang et al. 2022, arXiv 2203.02155, equation 1); margin:
    Touvron et al. 2023 (arXiv 2307.09288, equation 2); centring: Eisenstein et al. 2023 (arXiv 2312.09244). Ties have
    no place in this model and are left out; :func:`rao_kupper` has one for them.

    Args:
        first: scores of the first candidates [batch, dimensions].
        second: scores of the second candidates [batch, dimensions].
        labels: see the module [batch, dimensions].
        margins: how far apart the two should be at least, >= 0 [batch, dimensions]; NaN counts as 0.
        centring: weight of the pull of both scores towards a mean of zero, >= 0.
        mask: entries that may count [batch, dimensions]; all by default.

    Raises:
        ValueError: when shapes differ.
    """
    valid = valid_entries(first, second, labels, mask) & (labels != 0)
    difference = kept(first - second, valid) * labels.nan_to_num(0.0).to(first.dtype)
    required = torch.zeros_like(difference) if margins is None else margins.nan_to_num(0.0).to(first.dtype)
    loss = masked_mean(-logsigmoid(difference - required), valid)
    metrics = pair_metrics(difference, valid)
    if centring:
        centre = masked_mean(kept(first + second, valid) ** 2, valid)
        loss = loss + centring * centre
        metrics["centre"] = centre.detach()
    return LossOutput(loss, {"preference_loss": loss.detach(), **metrics})


def rao_kupper(
    first: Tensor, second: Tensor, labels: Tensor, *, k: float | Tensor = 5.0, mask: Tensor | None = None
) -> LossOutput:
    """Return the negative log-likelihood of wins and ties under the Rao-Kupper model, averaged.

    Rao and Kupper (1967): with d = r_first - r_second and k > 1,
    P(first better) = sigma(d - log k), P(second better) = sigma(-d - log k), and the rest is
    P(tie) = (k^2 - 1) * sigma(d - log k) * sigma(-d - log k), which is (k - 1) / (k + 1) at d = 0.

    Args:
        first: scores of the first candidates [batch, dimensions].
        second: scores of the second candidates [batch, dimensions].
        labels: see the module [batch, dimensions]; ties count.
        k: how wide the tie is, > 1, a number or one per dimension [dimensions], which may take gradients; set it so
            that (k - 1) / (k + 1) is the tie rate of equally good candidates, or learn it (:class:`TieWidth`).
        mask: entries that may count [batch, dimensions]; all by default.

    Raises:
        ValueError: when shapes differ or k <= 1.
    """
    valid = valid_entries(first, second, labels, mask)
    difference = kept(first - second, valid)
    log_first, log_second, log_tie = rao_kupper_log_probabilities(difference, k)
    log_probability = torch.where(labels > 0, log_first, torch.where(labels < 0, log_second, log_tie))
    loss = masked_mean(-log_probability, valid)
    decided = valid & (labels != 0)
    towards_better = difference * labels.nan_to_num(0.0).to(first.dtype)
    return LossOutput(loss, {"preference_loss": loss.detach(), **pair_metrics(towards_better, decided)})


def rao_kupper_log_probabilities(difference: Tensor, k: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log P(first better), log P(second better) and log P(tie) of :func:`rao_kupper`, shaped as the input.

    Raises:
        ValueError: when k <= 1.
    """
    width = torch.as_tensor(k, dtype=difference.dtype, device=difference.device)
    if not bool((width > 1).all()):
        raise ValueError(f"expected k > 1 (k = 1 knows no ties: use bradley_terry), got {k}")
    log_first = logsigmoid(difference - width.log())
    log_second = logsigmoid(-difference - width.log())
    # k^2 - 1 as a product: near k = 1 the square would lose all digits.
    return log_first, log_second, log_first + log_second + ((width - 1) * (width + 1)).log()


class TieWidth(nn.Module):
    """A learnt k of :func:`rao_kupper` for each dimension: 1 + exp(a parameter), so that it stays above 1.

    Args:
        dimensions: how many.
        start: first k.
    """

    def __init__(self, dimensions: int, start: float) -> None:
        super().__init__()
        self.log_excess = nn.Parameter(torch.full((dimensions,), math.log(start - 1)))

    def forward(self) -> Tensor:
        """Return k, float32 [dimensions]."""
        return 1 + self.log_excess.exp()


def listwise(
    scores: Tensor, first: Tensor, second: Tensor, labels: Tensor, *, mask: Tensor | None = None
) -> LossOutput:
    """Return the negative log-likelihood that each candidate is chosen before all that it is better than, averaged.

    For every candidate w that beats others: -log(exp(r_w) / (exp(r_w) + sum of exp(r_l) over the l that w beats)). A
    whole ranking of K candidates makes this the Plackett-Luce likelihood (Plackett 1975), a single best one the
    cross-entropy over K scores (YOJO, arXiv 2604.10966), a pair Bradley-Terry. Ties say nothing.

    Args:
        scores: of all candidates [rows, dimensions].
        first: row of each pair's first candidate [batch].
        second: row of its second candidate [batch].
        labels: see the module [batch, dimensions].
        mask: entries that may count [batch, dimensions]; all by default.

    Raises:
        ValueError: when shapes differ.
    """
    valid = valid_entries(scores[first], scores[second], labels, mask) & (labels != 0)
    difference = kept(scores[first] - scores[second], valid) * labels.nan_to_num(0.0).to(scores.dtype)
    winner = torch.where(labels > 0, first[:, None], second[:, None])
    loser = torch.where(labels > 0, second[:, None], first[:, None])
    pair, dimension = valid.nonzero(as_tuple=True)
    beats = torch.zeros(scores.shape[1], len(scores), len(scores), dtype=torch.bool, device=scores.device)
    beats[dimension, winner[pair, dimension], loser[pair, dimension]] = True
    chosen = beats.any(-1)
    # A candidate stands in its own denominator; elsewhere -inf leaves a term out.
    against = beats | torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    rows = kept(scores.T[:, None, :].expand_as(against), against & chosen[..., None])
    terms = torch.where(against, rows, -torch.inf).logsumexp(-1) - rows.diagonal(dim1=-2, dim2=-1)
    loss = masked_mean(terms, chosen)
    return LossOutput(loss, {"preference_loss": loss.detach(), **pair_metrics(difference, valid)})


def regression(scores: Tensor, targets: Tensor, *, mask: Tensor | None = None) -> LossOutput:
    """Return the mean squared error against absolute scores where there are any.

    Args:
        scores: predictions [rows, dimensions].
        targets: absolute scores [rows, dimensions], NaN where missing.
        mask: entries that may count [rows, dimensions]; all by default.

    Raises:
        ValueError: when shapes differ.
    """
    _same_shape(scores, targets, *(() if mask is None else (mask,)))
    valid = ~targets.isnan() if mask is None else ~targets.isnan() & mask
    error = masked_mean(kept(scores - targets.to(scores.dtype), valid) ** 2, valid)
    return LossOutput(error, {"regression_loss": error.detach()})


def kept(values: Tensor, mask: Tensor) -> Tensor:
    """Return `values`, 0 outside the mask: a NaN that is masked only at the end still poisons the gradient."""
    return torch.where(mask, values, torch.zeros_like(values))


def valid_entries(first: Tensor, second: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
    """Return where there is a label that may count.

    Raises:
        ValueError: when shapes differ.
    """
    _same_shape(first, second, labels, *(() if mask is None else (mask,)))
    return ~labels.isnan() if mask is None else ~labels.isnan() & mask


def _same_shape(*tensors: Tensor) -> None:
    shapes = [tuple(tensor.shape) for tensor in tensors]
    if len(set(shapes)) != 1 or len(shapes[0]) != 2:
        raise ValueError(f"expected tensors of one shape [batch, dimensions], got {', '.join(map(str, shapes))}")


def pair_metrics(difference: Tensor, decided: Tensor) -> dict[str, Tensor]:
    """Return accuracy and mean margin of decided pairs; `difference` is better minus worse."""
    difference = difference.detach()
    return {
        "accuracy": masked_mean((difference > 0).to(difference.dtype), decided),
        "margin": masked_mean(difference, decided),
    }
