"""Means with honest error bars: the percentile cluster bootstrap and its paired form, and McNemar's exact test.

Values of one cluster (candidates of one case, pairs of one instruction) are not independent, so whole clusters
are drawn with replacement and never single values. The statistic is the mean over all values, which weighs a
cluster by its size; the interval runs between the (1 - level) / 2 and (1 + level) / 2 quantiles of the resampled
means.

Sources: percentile interval: Efron and Tibshirani, *An Introduction to the Bootstrap* (1993), section 13.3;
resampling of clusters: Davison and Hinkley, *Bootstrap Methods and their Application* (1997), section 3.8;
why evaluations need it: Miller, *Adding Error Bars to Evals* (arXiv 2411.00640), section 2.2.

A statistic that is no mean of values (an agreement coefficient, a correlation) is resampled in the same way, as a
function of how often each value counts: :func:`cluster_bootstrap_statistic`.

With few clusters (below some 20) a percentile interval is narrower than it should be; `Estimate.num_clusters` is
reported so that a reader sees it. One cluster says nothing about the spread between clusters: there is no interval.

Float64, and equal for equal seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest

DRAWS_AT_ONCE = 2_000_000  # bounds the memory of the resampling at some 50 MB, for any number of clusters

_DRAWS_IN_CACHE = 100_000  # means need little beside them; twice as fast as in the memory

WeightedStatistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""From how often each value counts [resamples, n] to the statistic [resamples], NaN where it is undefined."""


@dataclass(frozen=True)
class Estimate:
    """A mean, or another statistic, with its interval, in the unit of the values.

    `ci_low` and `ci_high` are None when there are fewer than two clusters: the spread is unknown, not zero.
    `n` counts values, `num_clusters` the clusters that they came in.
    """

    value: float
    ci_low: float | None
    ci_high: float | None
    n: int
    num_clusters: int


def cluster_bootstrap(
    values: ArrayLike,
    clusters: Sequence[str] | Sequence[int] | NDArray[np.generic],
    *,
    seed: int = 0,
    num_resamples: int = 2000,
    level: float = 0.95,
) -> Estimate:
    """Return the mean of `values` with a percentile interval from resampling whole clusters.

    Args:
        values: finite numbers [n], n >= 1.
        clusters: the cluster of each value [n], as names or numbers; any order.
        seed: seed of the numpy Generator that draws the clusters.
        num_resamples: number of bootstrap resamples, >= 1.
        level: confidence level in (0, 1).

    Raises:
        ValueError: for no values, a NaN or infinite value, unequal lengths, or a level or number out of range.
    """
    numbers = _checked(values, "values")
    labels = np.asarray(clusters)
    if labels.shape != numbers.shape:
        raise ValueError(f"expected one cluster per value, shape {numbers.shape}, got shape {labels.shape}")
    if not 0 < level < 1 or num_resamples < 1:
        raise ValueError(f"expected 0 < level < 1 and num_resamples >= 1, got {level} and {num_resamples}")
    members = np.unique(labels, return_inverse=True)[1]
    found = resample_columns(numbers[:, None], members, seed=seed, num_resamples=num_resamples)
    estimate = found.estimates(level=level)[0]
    assert estimate is not None, "there is at least one value"
    return estimate


@dataclass(frozen=True)
class Resampling:
    """Means of several columns of numbers, and how far the means of resamples lie from them.

    Attributes:
        means: [columns], NaN where a column has no value.
        deviations: mean of each resample minus the mean [resamples, columns]; NaN where the spread is unknown.
        num_values: values (or means, where this is a mean of means) in each column.
        num_clusters: clusters that they came in.
    """

    means: NDArray[np.float64]
    deviations: NDArray[np.float64]
    num_values: NDArray[np.int64]
    num_clusters: NDArray[np.int64]

    def estimates(self, *, level: float = 0.95) -> list[Estimate | None]:
        """Return the mean of each column with its percentile interval; None for a column without values.

        Raises:
            ValueError: for a level out of range.
        """
        if not 0 < level < 1:
            raise ValueError(f"expected 0 < level < 1, got {level}")
        ends = np.quantile(self.deviations, [(1 - level) / 2, (1 + level) / 2], axis=0)
        columns = zip(
            *(array.tolist() for array in (self.means, *ends, self.num_values, self.num_clusters)), strict=True
        )
        return [_estimate(*column) for column in columns]


def _estimate(mean: float, low: float, high: float, num_values: int, num_clusters: int) -> Estimate | None:
    if num_values == 0:
        return None
    known = np.isfinite(low)
    return Estimate(mean, mean + low if known else None, mean + high if known else None, num_values, num_clusters)


def resample_columns(
    values: NDArray[np.float64], clusters: NDArray[np.int64], *, seed: int = 0, num_resamples: int = 2000
) -> Resampling:
    """Return the means of several columns over the same rows, and of their resamples of whole clusters.

    Each column is resampled as :func:`cluster_bootstrap` does it, with the clusters that it has values in. Columns that
    have values in the same clusters share the draws, which are most of the cost.

    Args:
        values: [rows, columns], NaN where a row has no value.
        clusters: the cluster of each row, as a number; the order of the numbers is the order in which they are drawn.
        seed: seed of the numpy Generator, begun anew for columns with other clusters.
        num_resamples: number of bootstrap resamples, >= 1.

    Raises:
        ValueError: for an infinite value, unequal lengths, or a number out of range.
    """
    if values.ndim != 2 or clusters.shape != values.shape[:1] or np.isinf(values).any() or num_resamples < 1:
        raise ValueError(
            f"expected finite values [rows, columns] or NaN, a cluster for each row and num_resamples >= 1, got shapes "
            f"{values.shape} and {clusters.shape} and {num_resamples}"
        )
    names, members = np.unique(clusters, return_inverse=True)
    shape = (len(names), values.shape[1])
    means, sums, sizes = np.full(values.shape[1], np.nan), np.zeros(shape), np.zeros(shape)
    for column, numbers in enumerate(values.T):
        here = ~np.isnan(numbers)
        if here.any():
            means[column] = numbers[here].mean()
            # Deviations, not values: adding a constant to all values then moves the interval and does nothing else.
            sums[:, column] = np.bincount(members[here], numbers[here] - means[column], minlength=len(names))
            sizes[:, column] = np.bincount(members[here], minlength=len(names))
    deviations = np.full((num_resamples, values.shape[1]), np.nan)
    for columns in _alike(sizes > 0):
        present = sizes[:, columns[0]] > 0
        if present.sum() > 1:
            parts = sums[present][:, columns], sizes[present][:, columns]
            deviations[:, columns] = _resampled_means(*parts, np.random.default_rng(seed), num_resamples)
    return Resampling(means, deviations, sizes.sum(axis=0).astype(np.int64), (sizes > 0).sum(axis=0))


def _alike(present: NDArray[np.bool_]) -> list[list[int]]:
    """Return the columns of [clusters, columns] that are equal, together."""
    found: dict[bytes, list[int]] = {}
    for column, flags in enumerate(present.T):
        found.setdefault(flags.tobytes(), []).append(column)
    return list(found.values())


def mean_of_means(parts: Sequence[Resampling]) -> Resampling:
    """Return the plain mean of the means of strata that were resampled apart: small ones count as much as large ones.

    A stratum without a value is left out of a column. Where one has its values in fewer than two clusters, its spread
    is unknown, and that of the mean is as well. Means of means may be averaged again.

    Args:
        parts: at least one; drawn with seeds of their own, since equal draws would go up and down together.

    Raises:
        ValueError: for no parts.
    """
    if not parts:
        raise ValueError("expected at least one stratum")
    here = np.array([part.num_values > 0 for part in parts])
    count = here.sum(axis=0)
    means, deviations = np.zeros(here.shape[1]), np.zeros_like(parts[0].deviations)
    for part, known in zip(parts, here, strict=True):
        means += np.where(known, part.means, 0.0)
        deviations += np.where(known, part.deviations, 0.0)
    divisor = np.where(count, count, np.nan)
    num_clusters = np.sum([part.num_clusters for part in parts], axis=0)
    return Resampling(means / divisor, deviations / divisor, count, num_clusters)


def cluster_bootstrap_statistic(
    statistic: WeightedStatistic,
    clusters: Sequence[str] | Sequence[int] | NDArray[np.generic],
    *,
    seed: int = 0,
    num_resamples: int = 2000,
    level: float = 0.95,
    width: int = 1,
) -> Estimate:
    """Return any statistic of n values with a percentile interval from resampling whole clusters.

    Resamples in which the statistic is undefined (one that drew only equal ratings, say) are left out; where more than
    half of them are, there is no interval.

    Args:
        statistic: what to compute, see :data:`WeightedStatistic`; weights of one give the value itself.
        clusters: the cluster of each value [n], as names or numbers; any order.
        seed: seed of the numpy Generator that draws the clusters.
        num_resamples: number of bootstrap resamples, >= 1.
        level: confidence level in (0, 1).
        width: how many numbers the statistic holds per resample, if more than n; bounds the memory.

    Raises:
        ValueError: for no values, a statistic that is undefined on all values, or a level or number out of range.
    """
    num_values = len(clusters)
    if num_values == 0:
        raise ValueError("expected at least one value")
    value = float(statistic(np.ones((1, num_values)))[0])
    if not np.isfinite(value):
        raise ValueError(f"expected a statistic that is defined on all values, got {value}")
    num_clusters = len(np.unique(np.asarray(clusters)))
    drawn = cluster_weights(clusters, seed=seed, num_resamples=num_resamples, width=width)
    low, high = percentile_interval(np.concatenate([statistic(weights) for weights in drawn]), level)
    if num_clusters < 2:
        low = high = None
    return Estimate(value, low, high, n=num_values, num_clusters=num_clusters)


def cluster_weights(
    clusters: Sequence[str] | Sequence[int] | NDArray[np.generic], *, seed: int, num_resamples: int, width: int = 1
) -> Iterator[NDArray[np.float64]]:
    """Yield how often each value counts in each resample of whole clusters, as arrays [some resamples, n].

    Args:
        clusters: the cluster of each value [n].
        seed: seed of the numpy Generator that draws the clusters.
        num_resamples: number of bootstrap resamples in all, >= 1.
        width: how many numbers per resample are made of the weights, if more than n; the more, the smaller the arrays.

    Raises:
        ValueError: where `num_resamples` is below 1.
    """
    if num_resamples < 1:
        raise ValueError(f"expected num_resamples >= 1, got {num_resamples}")
    generator = np.random.default_rng(seed)
    names, members = np.unique(np.asarray(clusters), return_inverse=True)
    rows = max(1, DRAWS_AT_ONCE // max(width, len(members)))
    for start in range(0, num_resamples, rows):
        size = min(rows, num_resamples - start)
        drawn = generator.integers(len(names), size=(size, len(names)))
        yield _counts(drawn, len(names))[:, members]


def percentile_interval(resampled: NDArray[np.float64], level: float) -> tuple[float | None, float | None]:
    """Return the percentile interval of the finite ones of `resampled`; None, None where fewer than half are finite.

    Raises:
        ValueError: for a level out of range.
    """
    if not 0 < level < 1:
        raise ValueError(f"expected 0 < level < 1, got {level}")
    finite = resampled[np.isfinite(resampled)]
    if len(finite) == 0 or 2 * len(finite) < len(resampled):
        return None, None
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def paired_difference(
    before: ArrayLike,
    after: ArrayLike,
    clusters: Sequence[str] | Sequence[int] | NDArray[np.generic],
    *,
    seed: int = 0,
    num_resamples: int = 2000,
    level: float = 0.95,
) -> Estimate:
    """Return the mean of `after - before` over pairs, with the interval of :func:`cluster_bootstrap`.

    Position k of `before` and of `after` [n] belong to the same item, in cluster `clusters[k]`. What makes an item
    easy or hard for both cancels, so the interval is as a rule much narrower than two separate ones suggest.

    Raises:
        ValueError: as :func:`cluster_bootstrap`, and where `before` and `after` differ in length.
    """
    first, second = _checked(before, "before"), _checked(after, "after")
    if first.shape != second.shape:
        raise ValueError(f"expected pairs, got {len(first)} values before and {len(second)} after")
    return cluster_bootstrap(second - first, clusters, seed=seed, num_resamples=num_resamples, level=level)


@dataclass(frozen=True)
class McNemar:
    """Whether two judges that answered the same items differ in how many they get right.

    Attributes:
        only_first: items that the first one alone gets right.
        only_second: items that the second one alone gets right.
        p_value: two-sided and exact; None where they never differ, which tells nothing. It takes items as independent:
            where they come in clusters, the interval of :func:`paired_difference` is the honest one.
    """

    only_first: int
    only_second: int
    p_value: float | None


def mcnemar(first: ArrayLike, second: ArrayLike) -> McNemar:
    """Return McNemar's exact test (McNemar 1947; the binomial form is Dixon and Mood's sign test).

    Args:
        first: whether the first judge is right [n].
        second: whether the second judge is right [n].

    Raises:
        ValueError: for unequal lengths.
    """
    ours, theirs = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if ours.shape != theirs.shape or ours.ndim != 1:
        raise ValueError(f"expected pairs, got shapes {ours.shape} and {theirs.shape}")
    only_first, only_second = int((ours & ~theirs).sum()), int((~ours & theirs).sum())
    differing = only_first + only_second
    p_value = float(binomtest(only_first, differing, 0.5).pvalue) if differing else None
    return McNemar(only_first, only_second, p_value)


def _checked(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return `values` as float64 [n], n >= 1; refuse anything that has no mean."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or numbers.size == 0:
        raise ValueError(f"expected {name} as a list of at least one number, got shape {numbers.shape}")
    if not np.isfinite(numbers).all():
        raise ValueError(f"expected finite {name}, got NaN or infinity; leave failed items out and count them instead")
    return numbers


def _resampled_means(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], generator: np.random.Generator, num_resamples: int
) -> NDArray[np.float64]:
    """Return the means [num_resamples, columns] of resamples, from the clusters' sums and sizes [clusters, columns]."""
    num_clusters = len(sums)
    rows = max(1, _DRAWS_IN_CACHE // num_clusters)
    means = []
    for start in range(0, num_resamples, rows):
        size = min(rows, num_resamples - start)
        counts = _counts(generator.integers(num_clusters, size=(size, num_clusters)), num_clusters)
        means.append((counts @ sums) / (counts @ sizes))
    return np.concatenate(means)


def _counts(drawn: NDArray[np.int64], num_clusters: int) -> NDArray[np.float64]:
    """Return how often each cluster was drawn in each row [rows, num_clusters]."""
    drawn += np.arange(len(drawn))[:, None] * num_clusters
    return np.bincount(drawn.ravel(), minlength=len(drawn) * num_clusters).reshape(-1, num_clusters).astype(np.float64)
