"""Correlations of systems' means by two raters, such as of models by people and by a judge.

The systems are fixed and the cases are a sample: intervals resample cases, whole, and recompute every mean. So a
correlation over five models has an honest interval, which says how it would vary over other cases, and nothing about
other models.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import kendalltau, rankdata

from bench.statistics.ratings import DEFAULT_BOOTSTRAP, Agreement, Bootstrap
from gnomon.statistics import cluster_bootstrap_statistic, percentile_interval

Kind = Literal["pearson", "spearman", "kendall_tau_b"]
KINDS: tuple[Kind, ...] = ("pearson", "spearman", "kendall_tau_b")
Array = NDArray[np.float64]


def correlation_of_means(
    first: ArrayLike, second: ArrayLike, kind: Kind, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
) -> Agreement:
    """Return the correlation of two raters' means of systems; `n_items` counts systems.

    Args:
        first: what one rater says of each system and case [systems, cases], NaN where nothing; a place that either
            rater lacks is in neither mean.
        second: what the other says.
        kind: of the correlation; the two of ranks compare the orders of the systems.
        bootstrap: how cases are resampled; `clusters` is not looked at.

    Raises:
        ValueError: for unequal shapes, or tables that are none.
    """
    ours, theirs = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if ours.shape != theirs.shape or ours.ndim != 2:
        raise ValueError(f"expected two tables of systems and cases, got shapes {ours.shape} and {theirs.shape}")
    known = np.isfinite(ours) & np.isfinite(theirs)
    kept = known.any(axis=1)
    ours, theirs, known = ours[kept], theirs[kept], known[kept]
    num_systems, num_cases = known.shape
    if num_systems < 2:
        return Agreement(None, None, None, num_systems, 2, "a correlation needs two systems that both have means of")

    def statistic(weights: Array) -> Array:
        return _correlations(_means(ours, known, weights), _means(theirs, known, weights), kind)

    if not np.isfinite(statistic(np.ones((1, num_cases)))[0]):
        return Agreement(None, None, None, num_systems, 2, "one rater's means of all systems are equal")
    found = cluster_bootstrap_statistic(
        statistic,
        np.arange(num_cases),
        seed=bootstrap.seed,
        num_resamples=max(1, bootstrap.num_resamples),
        level=bootstrap.confidence,
        width=num_systems,
    )
    if bootstrap.num_resamples == 0:
        return Agreement(found.value, None, None, num_systems, 2)
    reason = None if found.ci_low is not None else "no interval: one case, or undefined in most resamples of cases"
    return Agreement(found.value, found.ci_low, found.ci_high, num_systems, 2, reason)


def correlation_of_resampled_means(
    means: NDArray[np.float64], deviations: NDArray[np.float64], kind: Kind, *, confidence: float = 0.95
) -> Agreement:
    """Return the correlation of two raters' means of systems that were resampled together; `n_items` counts systems.

    Args:
        means: of each rater and system [2, systems].
        deviations: of the means in each resample from these [resamples, 2, systems]; NaN where the spread is unknown.
        kind: of the correlation.
        confidence: level of the interval.
    """
    num_systems = means.shape[1]
    if num_systems < 2:
        return Agreement(None, None, None, num_systems, 2, "a correlation needs two systems that both have means of")
    rounded = np.round(means, 12)
    value = float(_correlations(rounded[:1], rounded[1:], kind)[0])
    if not np.isfinite(value):
        return Agreement(None, None, None, num_systems, 2, "one rater's means of all systems are equal")
    resampled = np.round(means + deviations, 12)
    low, high = percentile_interval(_correlations(resampled[:, 0], resampled[:, 1], kind), confidence)
    reason = None if low is not None else "no interval: too few cases, or undefined in most resamples of cases"
    return Agreement(value, low, high, num_systems, 2, reason)


def _means(values: Array, known: NDArray[np.bool_], weights: Array) -> Array:
    """Return each system's mean [resamples, systems] with cases that count as often as `weights` [resamples, cases]."""
    totals = weights @ known.T.astype(np.float64)
    sums = weights @ np.where(known, values, 0.0).T
    means: Array = np.divide(sums, totals, out=np.full(sums.shape, np.nan), where=totals > 0)
    # Equal means of equal numbers must not differ by rounding, or ranks would see an order.
    return np.round(means, 12)


def _correlations(first: Array, second: Array, kind: Kind) -> Array:
    """Return a correlation for each resample [resamples]; NaN where a mean is unknown or all of one side are equal."""
    result = np.full(len(first), np.nan)
    varied = np.isfinite(first).all(axis=1) & np.isfinite(second).all(axis=1)
    varied &= (np.ptp(first, axis=1) > 0) & (np.ptp(second, axis=1) > 0)
    first, second = first[varied], second[varied]
    if kind == "kendall_tau_b":
        result[varied] = [kendalltau(one, other).statistic for one, other in zip(first, second, strict=True)]
        return result
    if kind == "spearman":
        first, second = rankdata(first, axis=1), rankdata(second, axis=1)
    first, second = (side - side.mean(axis=1, keepdims=True) for side in (first, second))
    norms = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    result[varied] = np.clip((first * second).sum(axis=1) / norms, -1, 1)
    return result
