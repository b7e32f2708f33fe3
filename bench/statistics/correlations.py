"""Correlations of two raters: Pearson, Spearman, Kendall's tau-b, with intervals from resampling items.

On binary values all three are equal (the phi coefficient). Sources: Spearman, *American Journal of Psychology* 15
(1904) 72; Kendall, *Biometrika* 33 (1945) 239.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import kendalltau

from bench.statistics.ratings import DEFAULT_BOOTSTRAP, Agreement, Bootstrap, Ratings, estimated, is_missing
from gnomon.statistics import WeightedStatistic

Array = NDArray[np.float64]
Column = Sequence[float | None]


def pearson(first: Column, second: Column, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> Agreement:
    """Return Pearson's correlation of two raters' numbers on the same items.

    Args:
        first: the numbers of one rater [items]; None or NaN is missing, and its item is left out.
        second: those of the other.
        bootstrap: how to resample; `clusters` names the group of each item.

    Raises:
        ValueError: for unequal lengths, an infinite number, or another number of clusters than of items.
    """
    pairs = _Pairs.of(first, second)

    def statistic(weights: Array) -> Array:
        scores = [np.broadcast_to(side.scaled, weights.shape) for side in pairs.sides]
        return _weighted_pearson(weights, scores[0], scores[1])

    return _correlation(pairs, statistic, bootstrap)


def spearman(first: Column, second: Column, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> Agreement:
    """Return Spearman's rank correlation, tied numbers at their mid-rank; see :func:`pearson` for the rest."""
    pairs = _Pairs.of(first, second)

    def statistic(weights: Array) -> Array:
        ranks = [side.mid_ranks(weights) for side in pairs.sides]
        return _weighted_pearson(weights, ranks[0], ranks[1])

    return _correlation(pairs, statistic, bootstrap)


def kendall_tau_b(first: Column, second: Column, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> Agreement:
    """Return Kendall's tau-b, which corrects for ties; see :func:`pearson` for the rest."""
    pairs = _Pairs.of(first, second)
    positions = np.arange(len(pairs.kept))

    def statistic(weights: Array) -> Array:
        taus = []
        for row in weights:
            drawn = np.repeat(positions, row.astype(np.intp))
            codes = [side.codes[drawn] for side in pairs.sides]
            taus.append(float(kendalltau(codes[0], codes[1]).statistic))
        return np.array(taus)

    return _correlation(pairs, statistic, bootstrap)


@dataclass(frozen=True)
class _Side:
    """The numbers of one rater: `codes` in ascending order of value, `scaled` without origin and unit [pairs]."""

    codes: NDArray[np.intp]
    scaled: Array
    distinct: int

    @classmethod
    def of(cls, numbers: Array) -> _Side:
        domain, codes = np.unique(numbers, return_inverse=True)
        # No correlation depends on origin and unit; between -1 and 1 no square overflows or vanishes.
        scaled = numbers / max(float(np.abs(numbers).max(initial=0)), np.finfo(np.float64).tiny)
        scaled = scaled - scaled.mean() if len(scaled) else scaled
        largest = float(np.abs(scaled).max(initial=0))
        return cls(codes, scaled / largest if largest > 0 else scaled, len(domain))

    def totals(self, weights: Array) -> Array:
        """Return how often each value occurs [resamples, values]."""
        number = len(self.codes)
        one_hot = sparse.csr_array((np.ones(number), (np.arange(number), self.codes)), shape=(number, self.distinct))
        return np.asarray(weights @ one_hot)

    def mid_ranks(self, weights: Array) -> Array:
        """Return the rank of each number, of equal ones the mean of their ranks [resamples, pairs]."""
        totals = self.totals(weights)
        ranks: Array = (np.cumsum(totals, axis=1) - totals / 2)[:, self.codes]
        return ranks

    def is_constant(self, weights: Array) -> NDArray[np.bool_]:
        """Say of each resample whether all its numbers are equal [resamples]."""
        constant: NDArray[np.bool_] = self.totals(weights).max(axis=1) == weights.sum(axis=1)
        return constant


@dataclass(frozen=True)
class _Pairs:
    """The number of items, the positions of those that both raters have numbers of, and these numbers."""

    num_items: int
    kept: NDArray[np.intp]
    sides: tuple[_Side, _Side]

    @classmethod
    def of(cls, first: Column, second: Column) -> _Pairs:
        if len(first) != len(second):
            raise ValueError(f"expected two numbers per item, got {len(first)} and {len(second)}")
        both = [(k, x, y) for k, (x, y) in enumerate(zip(first, second, strict=True)) if not _either_missing(x, y)]
        columns = [np.array([row[side] for row in both], dtype=np.float64) for side in (1, 2)]
        if not all(np.isfinite(column).all() for column in columns):
            raise ValueError("expected finite numbers, got infinity")
        kept = np.array([row[0] for row in both], dtype=np.intp)
        return cls(len(first), kept, (_Side.of(columns[0]), _Side.of(columns[1])))


def _either_missing(first: float | None, second: float | None) -> bool:
    return is_missing(first) or is_missing(second)


def _correlation(pairs: _Pairs, statistic: WeightedStatistic, bootstrap: Bootstrap) -> Agreement:
    number, clusters = len(pairs.kept), bootstrap.clusters
    if clusters is not None and len(clusters) != pairs.num_items:
        raise ValueError(f"expected a cluster per item, got {len(clusters)} for {pairs.num_items} items")
    if number < 2:
        reason = f"a correlation needs two items that both raters have numbers of, there {_are(number)}"
        return Agreement(None, None, None, number, 2, reason)
    for name, side in zip(("first", "second"), pairs.sides, strict=True):
        if side.distinct == 1:
            return Agreement(None, None, None, number, 2, f"all numbers of the {name} rater are equal")

    def where_varied(weights: Array) -> Array:
        result = np.full(len(weights), np.nan)
        varied = ~(pairs.sides[0].is_constant(weights) | pairs.sides[1].is_constant(weights))
        if varied.any():
            result[varied] = statistic(weights[varied])
        return result

    kept_clusters = None if clusters is None else [clusters[position] for position in pairs.kept]
    entries = np.arange(number)
    paired = Ratings(
        items=tuple(map(str, pairs.kept)),
        raters=("first", "second"),
        domain=(),
        item=np.concatenate([entries, entries]),
        rater=np.repeat([0, 1], number),
        code=np.concatenate([pairs.sides[0].codes, pairs.sides[1].codes]),
        level="interval",
    )
    return estimated(paired, where_varied, replace(bootstrap, clusters=kept_clusters), "the correlation is undefined")


def _are(number: int) -> str:
    return "is one" if number == 1 else "is none"


def _weighted_pearson(weights: Array, first: Array, second: Array) -> Array:
    """Return the correlation of numbers [resamples, pairs] that count as often as `weights` say."""
    total = weights.sum(axis=1, keepdims=True)
    first = first - (weights * first).sum(axis=1, keepdims=True) / total
    second = second - (weights * second).sum(axis=1, keepdims=True) / total
    products = (weights * first * second).sum(axis=1)
    norms = np.sqrt((weights * first**2).sum(axis=1)) * np.sqrt((weights * second**2).sum(axis=1))
    # Rounding must not carry a perfect correlation past one.
    correlation: Array = np.divide(products, norms, out=np.full(len(norms), np.nan), where=norms > 0)
    return np.clip(correlation, -1, 1)
