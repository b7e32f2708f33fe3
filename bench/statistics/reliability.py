"""How far raters agree: agreement ratio, Cohen's and Fleiss' kappa, Krippendorff's alpha.

Every statistic is a function of how often each item counts, so that thousands of resamples are a few products of
matrices. That is also why alpha is computed here: the usual library takes one table at a time and a cube of items by
values by values, which free-text labels do not fit into. It is the oracle of the tests instead.

Sources: Cohen, *Educational and Psychological Measurement* 20 (1960) 37; Fleiss, *Psychological Bulletin* 76 (1971)
378; Krippendorff, *Content Analysis* (3rd edition 2013), chapter 12.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bench.statistics.ratings import DEFAULT_BOOTSTRAP, Agreement, Bootstrap, Ratings, estimated
from gnomon.statistics import WeightedStatistic

Array = NDArray[np.float64]

NO_PAIRS = "no item has ratings of two raters"
ONE_VALUE = "all ratings are equal, so that chance alone would agree as often"


@dataclass(frozen=True)
class PairwiseAgreement:
    """A statistic of two raters, as the mean over all pairs of raters, each pair counting the same.

    Attributes:
        agreement: the mean.
        n_pairs: pairs of raters that share an item.
        n_undefined: pairs of these for which the statistic is undefined; they are not in the mean.
    """

    agreement: Agreement
    n_pairs: int
    n_undefined: int


def krippendorff_alpha(ratings: Ratings, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> Agreement:
    """Return Krippendorff's alpha: one minus observed over expected disagreement; missing ratings are allowed.

    The disagreement of two values is 1 unless they are equal (nominal), their squared difference (interval), or the
    squared number of ratings between them with half of those at either end (ordinal), which is the squared difference
    of their mid-ranks. Below zero means less agreement than by chance. Undefined where all ratings are equal.
    """
    pairable = ratings.restricted(ratings.per_item >= 2)
    if len(pairable.item) == 0:
        return estimated(pairable, _never, bootstrap, NO_PAIRS)
    counts, per_item = pairable.counts, np.maximum(pairable.per_item, 2).astype(np.float64)
    unequal = (per_item**2 - _row_sums(counts.power(2))) / (per_item - 1) * (pairable.per_item > 0)

    def alpha(weights: Array) -> Array:
        totals = _product(weights, counts)
        if ratings.level == "nominal":
            observed = weights @ unequal
            expected = totals.sum(axis=1) ** 2 - (totals**2).sum(axis=1)
        else:
            positions = _positions(ratings, totals)
            observed = _squared_differences(weights, counts, per_item, positions)
            expected = 2 * totals.sum(axis=1) * (totals * _centred(positions, totals) ** 2).sum(axis=1)
        return _one_minus(observed * (totals.sum(axis=1) - 1), expected, totals)

    return estimated(pairable, alpha, bootstrap, ONE_VALUE, width=len(ratings.domain))


def fleiss_kappa(ratings: Ratings, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> Agreement:
    """Return Fleiss' kappa of the values as labels; items without a rating are left out.

    Undefined unless all other items have the same number of ratings, two or more, and where all ratings are equal.
    """
    numbers = sorted({int(number) for number in ratings.per_item if number > 0})
    if len(numbers) != 1 or numbers[0] < 2:
        found = f"from {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else str(numbers[0] if numbers else 0)
        reason = f"Fleiss' kappa needs the same number of ratings of every item, two or more; there are {found}"
        return estimated(ratings.restricted(ratings.per_item < 0), _never, bootstrap, reason)
    counts, per_item = ratings.counts, float(numbers[0])
    agreeing = (_row_sums(counts.power(2)) - per_item) / (per_item * (per_item - 1)) * (ratings.per_item > 0)

    def kappa(weights: Array) -> Array:
        totals = _product(weights, counts)
        observed = weights @ agreeing / np.maximum(weights @ (ratings.per_item > 0), 1)
        chance = ((totals / np.maximum(totals.sum(axis=1, keepdims=True), 1)) ** 2).sum(axis=1)
        return _one_minus(1 - observed, 1 - chance, totals)

    return estimated(ratings, kappa, bootstrap, ONE_VALUE, width=len(ratings.domain))


def agreement_ratio(ratings: Ratings, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> PairwiseAgreement:
    """Return the share of shared items on which two raters give the same value, as the mean over pairs of raters."""
    pairs = _Pairs.of(ratings)

    def ratios(weights: Array) -> Array:
        return _divided(_product(weights, pairs.equal), _product(weights, pairs.shared))

    return _over_pairs(ratings, pairs, ratios, bootstrap, NO_PAIRS)


def cohen_kappa(ratings: Ratings, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> PairwiseAgreement:
    """Return Cohen's kappa of the values as labels: of the two raters, or the mean over pairs of raters.

    A pair enters with the items that both rated. It is undefined where both gave one and the same label throughout.
    """
    pairs = _Pairs.of(ratings)

    def kappas(weights: Array) -> Array:
        # Numerator and denominator in whole numbers, so that a chance agreement of exactly one is recognised.
        shared = _product(weights, pairs.shared)
        chance = _product(_product(weights, pairs.first) * _product(weights, pairs.second), pairs.of_label)
        return _divided(_product(weights, pairs.equal) * shared - chance, shared**2 - chance)

    undefined = "both raters of every pair gave one and the same label throughout" if pairs.number else NO_PAIRS
    return _over_pairs(ratings, pairs, kappas, bootstrap, undefined)


@dataclass(frozen=True)
class _Pairs:
    """Which items each pair of raters shares, as sparse matrices.

    `shared` and `equal` are [items, pairs]. A label here is a value that both raters of a pair used: any other adds
    nothing to their chance agreement. `first` and `second` are [items, labels], `of_label` is [labels, pairs].
    """

    number: int
    shared: sparse.csr_array
    equal: sparse.csr_array
    first: sparse.csr_array
    second: sparse.csr_array
    of_label: sparse.csr_array

    @classmethod
    def of(cls, ratings: Ratings) -> _Pairs:
        order = np.lexsort((ratings.rater, ratings.item))
        per_item = ratings.per_item
        starts = np.cumsum(per_item) - per_item
        lefts, rights = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
        for number in np.unique(per_item[per_item > 1]):  # items with as many ratings have the same pairs of them
            places = starts[per_item == number][:, None]
            first, second = np.triu_indices(number, k=1)
            lefts.append(order[places + first].ravel())
            rights.append(order[places + second].ravel())
        left, right = np.concatenate(lefts), np.concatenate(rights)
        keys = ratings.rater[left] * len(ratings.raters) + ratings.rater[right]
        names, pair = np.unique(keys, return_inverse=True)
        labels = max(len(ratings.domain), 1)
        used = [pair * labels + ratings.code[side] for side in (left, right)]
        common = np.intersect1d(*used)
        item, ones = ratings.item[left], np.ones(len(left))
        shape = len(ratings.items), len(names)
        return cls(
            number=len(names),
            shared=sparse.csr_array((ones, (item, pair)), shape=shape),
            equal=sparse.csr_array((ones * (ratings.code[left] == ratings.code[right]), (item, pair)), shape=shape),
            first=_uses(item, used[0], common, len(ratings.items)),
            second=_uses(item, used[1], common, len(ratings.items)),
            of_label=sparse.csr_array(
                (np.ones(len(common)), (np.arange(len(common)), common // labels)), shape=(len(common), len(names))
            ),
        )


def _uses(item: NDArray[np.intp], used: NDArray[np.intp], common: NDArray[np.intp], num_items: int) -> sparse.csr_array:
    """Return how often an item got each of the `common` labels [items, labels]."""
    known = np.isin(used, common)
    places = np.searchsorted(common, used[known])
    return sparse.csr_array((np.ones(len(places)), (item[known], places)), shape=(num_items, len(common)))


def _over_pairs(
    ratings: Ratings, pairs: _Pairs, values: WeightedStatistic, bootstrap: Bootstrap, undefined: str
) -> PairwiseAgreement:
    """Return the mean over pairs of raters of `values` [resamples, pairs], pairs without a value left out."""
    pairable = ratings.restricted(ratings.per_item >= 2)
    width = max(pairs.number, pairs.of_label.shape[0])
    agreement = estimated(pairable, lambda weights: _mean_of_finite(values(weights)), bootstrap, undefined, width)
    n_undefined = int(np.isnan(values(np.ones((1, len(ratings.items))))).sum())
    return PairwiseAgreement(agreement, pairs.number, n_undefined)


def _positions(ratings: Ratings, totals: Array) -> Array:
    """Return where each value stands [resamples, values]: at its mid-rank, or for the interval level at itself."""
    if ratings.level == "ordinal":
        return np.cumsum(totals, axis=1) - totals / 2
    values = np.array(ratings.domain, dtype=np.float64)
    # Alpha does not depend on unit and origin; between -1 and 1 no square overflows.
    values = values / max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
    return np.broadcast_to(values - values.mean(), totals.shape)


def _squared_differences(weights: Array, counts: sparse.csr_array, per_item: Array, positions: Array) -> Array:
    """Return the sum over ordered pairs of ratings of one item of their squared difference, per rating [resamples]."""
    transposed = counts.T.tocsr()
    squares, sums = _product(positions**2, transposed), _product(positions, transposed)
    differences = np.maximum(per_item * squares - sums**2, 0)  # rounding must not make agreement better than perfect
    total: Array = 2 * (weights * differences / (per_item - 1)).sum(axis=1)
    return total


def _centred(positions: Array, totals: Array) -> Array:
    """Return positions [resamples, values] minus their mean over ratings."""
    number = np.maximum(totals.sum(axis=1, keepdims=True), 1)
    centred: Array = positions - (totals * positions).sum(axis=1, keepdims=True) / number
    return centred


def _one_minus(observed: Array, expected: Array, totals: Array) -> Array:
    """Return 1 - observed / expected [resamples]; NaN where all ratings have one value."""
    # The second condition is for numbers that differ by less than float64 keeps beside others 10^16 times as large.
    varied = (totals.max(axis=1, initial=0) < totals.sum(axis=1)) & (expected > 0)
    ratio: Array = np.divide(observed, expected, out=np.full(len(observed), np.nan), where=varied)
    return 1 - ratio


def _divided(numerator: Array, denominator: Array) -> Array:
    """Return the quotients [resamples, pairs]; NaN where the denominator is zero."""
    quotients: Array = np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator > 0)
    return quotients


def _mean_of_finite(values: Array) -> Array:
    """Return the mean of the values [resamples, pairs] that are not NaN; NaN where there is none."""
    defined = ~np.isnan(values)
    number = defined.sum(axis=1)
    total = np.where(defined, values, 0).sum(axis=1)
    mean: Array = np.divide(total, number, out=np.full(len(values), np.nan), where=number > 0)
    return mean


def _product(left: Array, right: sparse.csr_array) -> Array:
    """Return a dense product of a dense and a sparse matrix."""
    return np.asarray(left @ right)


def _row_sums(matrix: sparse.csr_array) -> Array:
    return np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()


def _never(weights: Array) -> Array:
    """A statistic that is undefined whatever is drawn."""
    return np.full(len(weights), np.nan)
