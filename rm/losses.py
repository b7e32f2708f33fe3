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
from torch import Tensor
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
    return _kept(values, mask).sum() / mask.sum().clamp(min=1)


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
    valid = _valid(first, second, labels, mask) & (labels != 0)
    difference = _kept(first - second, valid) * labels.nan_to_num(0.0).to(first.dtype)
    required = torch.zeros_like(difference) if margins is None else margins.nan_to_num(0.0).to(first.dtype)
    loss = masked_mean(-logsigmoid(difference - required), valid)
    metrics = _pair_metrics(difference, valid)
    if centring:
        centre = masked_mean(_kept(first + second, valid) ** 2, valid)
        loss = loss + centring * centre
        metrics["centre"] = centre.detach()
    return LossOutput(loss, {"preference_loss": loss.detach(), **metrics})


def rao_kupper(
    first: Tensor, second: Tensor, labels: Tensor, *, k: float = 5.0, mask: Tensor | None = None
) -> LossOutput:
    """Return the negative log-likelihood of wins and ties under the Rao-Kupper model, averaged.

    Rao and Kupper (1967): with d = r_first - r_second and k > 1,
    P(first better) = sigma(d - log k), P(second better) = sigma(-d - log k), and the rest is
    P(tie) = (k^2 - 1) * sigma(d - log k) * sigma(-d - log k), which is (k - 1) / (k + 1) at d = 0.

    Args:
        first: scores of the first candidates [batch, dimensions].
        second: scores of the second candidates [batch, dimensions].
        labels: see the module [batch, dimensions]; ties count.
        k: how wide the tie is; set it so that (k - 1) / (k + 1) is the tie rate of equally good candidates.
        mask: entries that may count [batch, dimensions]; all by default.

    Raises:
        ValueError: when shapes differ or k <= 1.
    """
    if not k > 1:
        raise ValueError(f"expected k > 1 (k = 1 knows no ties: use bradley_terry), got {k}")
    valid = _valid(first, second, labels, mask)
    difference = _kept(first - second, valid)
    log_first, log_second, log_tie = rao_kupper_log_probabilities(difference, k)
    log_probability = torch.where(labels > 0, log_first, torch.where(labels < 0, log_second, log_tie))
    loss = masked_mean(-log_probability, valid)
    decided = valid & (labels != 0)
    towards_better = difference * labels.nan_to_num(0.0).to(first.dtype)
    return LossOutput(loss, {"preference_loss": loss.detach(), **_pair_metrics(towards_better, decided)})


def rao_kupper_log_probabilities(difference: Tensor, k: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return log P(first better), log P(second better) and log P(tie) of :func:`rao_kupper`, shaped as the input."""
    shift = math.log(k)
    log_first = logsigmoid(difference - shift)
    log_second = logsigmoid(-difference - shift)
    return log_first, log_second, log_first + log_second + math.log(k * k - 1)


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
    error = masked_mean(_kept(scores - targets.to(scores.dtype), valid) ** 2, valid)
    return LossOutput(error, {"regression_loss": error.detach()})


def _kept(values: Tensor, mask: Tensor) -> Tensor:
    """Return `values`, 0 outside the mask: a NaN that is masked only at the end still poisons the gradient."""
    return torch.where(mask, values, torch.zeros_like(values))


def _valid(first: Tensor, second: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
    _same_shape(first, second, labels, *(() if mask is None else (mask,)))
    return ~labels.isnan() if mask is None else ~labels.isnan() & mask


def _same_shape(*tensors: Tensor) -> None:
    shapes = [tuple(tensor.shape) for tensor in tensors]
    if len(set(shapes)) != 1 or len(shapes[0]) != 2:
        raise ValueError(f"expected tensors of one shape [batch, dimensions], got {', '.join(map(str, shapes))}")


def _pair_metrics(difference: Tensor, decided: Tensor) -> dict[str, Tensor]:
    """Return accuracy and mean margin of decided pairs; `difference` is better minus worse."""
    difference = difference.detach()
    return {
        "accuracy": masked_mean((difference > 0).to(difference.dtype), decided),
        "margin": masked_mean(difference, decided),
    }
