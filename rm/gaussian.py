"""Preferences between rewards that are themselves uncertain: every score is a Gaussian.

A head says mean mu and log sigma of each candidate. With z = r_first - r_second, z is Gaussian with mean
mu_first - mu_second and variance sigma_first^2 + sigma_second^2, and the chance that the first is preferred is
E[sigma(z)]. Two losses are made of it, which differ only in where the logarithm stands:

- `marginal`, -log E[sigma(z)]: the negative log-likelihood of the label. A larger variance costs nothing where labels
  contradict each other and helps where the mean is on the wrong side, so variance comes to mean doubt.
- `hpsv3`, E[-log sigma(z)]: what HPSv3 (arXiv 2508.03789) and EditReward (arXiv 2509.26346) minimise, by a thousand
  samples. -log sigma is convex, so by Jensen's inequality this grows with the variance whatever the label is: the
  variance only ever wants to shrink. It is here to compare with their models.

Ties follow Rao and Kupper, as in :func:`rm.losses.rao_kupper`, under the same expectation.

Expectations are taken by the trapezoid rule over +-8.5 standard deviations. The integrand is analytic and has died out
at both ends, so the rule converges exponentially: 256 nodes are right to 1e-6 up to a standard deviation of 20, where
a Gauss-Hermite rule of 64 nodes is off by 4e-2.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from rm.heads import Scores
from rm.losses import LossOutput, kept, masked_mean, pair_metrics, rao_kupper_log_probabilities, valid_entries

GaussianForm = Literal["marginal", "hpsv3"]
NODES = 256
_REACH = 8.5  # standard deviations; what lies beyond has a mass of 2e-17


def gaussian_preference(
    first: Tensor,
    second: Tensor,
    first_log_sigma: Tensor,
    second_log_sigma: Tensor,
    labels: Tensor,
    *,
    form: GaussianForm = "marginal",
    k: float | Tensor | None = None,
    mask: Tensor | None = None,
) -> LossOutput:
    """Return the mean of `form` over the labelled entries, float32 or wider.

    Args:
        first: means of the first candidates [batch, dimensions].
        second: means of the second candidates [batch, dimensions].
        first_log_sigma: natural logarithm of their standard deviations [batch, dimensions].
        second_log_sigma: the same of the second ones.
        labels: 1 first better, -1 second better, 0 tie, NaN not labelled [batch, dimensions].
        form: see the module.
        k: width of the tie, > 1, a number or one per dimension; None leaves ties out.
        mask: entries that may count [batch, dimensions]; all by default.

    Raises:
        ValueError: when shapes differ or k <= 1.
    """
    valid = valid_entries(first, second, labels, mask)
    if k is None:
        valid = valid & (labels != 0)
    mean = kept(first - second, valid)
    variance = (2 * kept(first_log_sigma, valid)).exp() + (2 * kept(second_log_sigma, valid)).exp()
    log_likelihood = _expected(mean, variance, labels, form, k)
    loss = masked_mean(-log_likelihood, valid)
    decided = valid & (labels != 0)
    towards_better = mean * labels.nan_to_num(0.0).to(mean.dtype)
    metrics = {"preference_loss": loss.detach(), **pair_metrics(towards_better, decided)}
    metrics["sigma"] = masked_mean((variance.detach() / 2).sqrt(), valid)
    return LossOutput(loss, metrics)


def preference_log_odds(mean: Tensor, variance: Tensor) -> Tensor:
    """Return the log-odds of E[sigma(z)], z ~ N(mean, variance): what a difference of plain scores is, doubt included.

    It has the sign of `mean` and shrinks towards 0 as the variance grows; with variance 0 it is `mean`.

    Args:
        mean: any shape.
        variance: >= 0, the same shape.
    """
    ones = torch.ones_like(mean)
    return _expected(mean, variance, ones, "marginal", None) - _expected(mean, variance, -ones, "marginal", None)


def log_odds(scores: Scores, first: Tensor, second: Tensor) -> Tensor:
    """Return the log-odds that the first candidate of each pair is preferred [pairs, dimensions].

    Without uncertainty they are the difference of the scores.

    Args:
        scores: of all candidates.
        first: rows of the first candidates [pairs].
        second: rows of the second candidates [pairs].
    """
    difference = scores.mean[first] - scores.mean[second]
    if scores.log_sigma is None:
        return difference
    variance = (2 * scores.log_sigma).exp()
    return preference_log_odds(difference, variance[first] + variance[second])


def _expected(mean: Tensor, variance: Tensor, labels: Tensor, form: GaussianForm, k: float | Tensor | None) -> Tensor:
    """Return log E[p(label | z)] (`marginal`) or E[log p(label | z)] (`hpsv3`), shaped as `mean`."""
    nodes, log_weights = (part.to(mean) for part in _rule())
    # The root's gradient is infinite at 0.
    spread = variance.clamp(min=torch.finfo(mean.dtype).tiny).sqrt()
    z = mean[..., None] + spread[..., None] * nodes
    labels = labels[..., None]
    if k is None:
        log_probability = logsigmoid(torch.where(labels < 0, -z, z))
    else:
        width = k[..., None] if isinstance(k, Tensor) else k
        log_first, log_second, log_tie = rao_kupper_log_probabilities(z, width)
        log_probability = torch.where(labels > 0, log_first, torch.where(labels < 0, log_second, log_tie))
    if form == "marginal":
        return (log_probability + log_weights).logsumexp(-1)
    return (log_probability * log_weights.exp()).sum(-1)


@lru_cache(maxsize=1)
def _rule() -> tuple[Tensor, Tensor]:
    """Return nodes in standard deviations and logarithms of their weights, float64 [NODES]."""
    nodes = torch.linspace(-_REACH, _REACH, NODES, dtype=torch.float64)
    return nodes, torch.log_softmax(-(nodes**2) / 2, dim=0)
