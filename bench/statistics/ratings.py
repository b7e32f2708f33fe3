"""Ratings in long form, and a statistic of them with its interval or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gnomon.statistics import WeightedStatistic, cluster_bootstrap_statistic

Level = Literal["nominal", "ordinal", "interval"]
"""What values may be compared by: equality, order, or differences."""


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are resampled.

    Attributes:
        seed: seed of the draws.
        num_resamples: how many resamples; 0 for no interval.
        confidence: the interval's level in (0, 1).
        clusters: the group of each item, in the order of `Ratings.items`, where items of one group are not
            independent (questions about one picture); each item is its own group where None.
    """

    seed: int = 0
    num_resamples: int = 2000
    confidence: float = 0.95
    clusters: Sequence[str] | None = None


DEFAULT_BOOTSTRAP = Bootstrap()


@dataclass(frozen=True)
class Agreement:
    """A statistic of ratings.

    Attributes:
        value: the statistic, None where it is undefined.
        ci_low: lower end of its interval, None where there is none.
        ci_high: upper end.
        n_items: items that entered; those with too few ratings do not.
        n_raters: raters of these items.
        reason: why there is no value, or no interval; None where there are both or no interval was asked for.
    """

    value: float | None
    ci_low: float | None
    ci_high: float | None
    n_items: int
    n_raters: int
    reason: str | None = None


@dataclass(frozen=True)
class Ratings:
    """Who rated what how, one entry per rating that is not missing; made by :meth:`from_triples` or :meth:`from_table`.

    Attributes:
        items: names of the items, those without a rating included.
        raters: names of the raters.
        domain: the values that occur; ascending numbers for the ordinal and the interval level.
        item: position of each entry's item [n].
        rater: position of each entry's rater [n].
        code: position of each entry's value in `domain` [n].
        level: the level of measurement.
    """

    items: tuple[str, ...]
    raters: tuple[str, ...]
    domain: tuple[Hashable, ...]
    item: NDArray[np.intp]
    rater: NDArray[np.intp]
    code: NDArray[np.intp]
    level: Level

    @classmethod
    def from_triples(cls, triples: Iterable[tuple[str, str, Hashable]], level: Level) -> Ratings:
        """Return the ratings of (item, rater, value) triples in any order.

        Args:
            triples: a value of None or NaN is missing; labels for the nominal level, finite numbers for the others.
            level: the level of measurement.

        Raises:
            ValueError: for two values of one rater on one item, or no finite number where one is needed.
        """
        items: dict[str, int] = {}
        raters: dict[str, int] = {}
        found: dict[tuple[int, int], Hashable] = {}
        seen: set[tuple[int, int]] = set()
        for item, rater, value in triples:
            key = items.setdefault(item, len(items)), raters.setdefault(rater, len(raters))
            if key in seen:
                raise ValueError(f"expected one value of rater {rater!r} on item {item!r}, got two")
            seen.add(key)
            if not is_missing(value):
                found[key] = value if level == "nominal" else _finite(value)
        domain = tuple(dict.fromkeys(found.values()))
        if level != "nominal":
            domain = tuple(np.unique(np.array(domain, dtype=np.float64)).tolist())
        codes = {value: code for code, value in enumerate(domain)}
        return cls(
            items=tuple(items),
            raters=tuple(raters),
            domain=domain,
            item=np.array([key[0] for key in found], dtype=np.intp),
            rater=np.array([key[1] for key in found], dtype=np.intp),
            code=np.array([codes[value] for value in found.values()], dtype=np.intp),
            level=level,
        )

    @classmethod
    def from_table(cls, table: Sequence[Sequence[Hashable]], level: Level) -> Ratings:
        """Return the ratings of a table with a row per item and a column per rater; see :meth:`from_triples`."""
        return cls.from_triples(
            ((str(i), str(r), value) for i, row in enumerate(table) for r, value in enumerate(row)), level
        )

    def paired(self) -> tuple[list[float | None], list[float | None]]:
        """Return the numbers of each of two raters [items], None where one is missing.

        Raises:
            ValueError: unless there are two raters and a level with numbers.
        """
        if len(self.raters) != 2 or self.level == "nominal":
            raise ValueError(f"expected numbers of two raters, got {self.level} values of {len(self.raters)}")
        columns: tuple[list[float | None], list[float | None]] = ([None] * len(self.items), [None] * len(self.items))
        for item, rater, code in zip(self.item, self.rater, self.code, strict=True):
            columns[rater][item] = _finite(self.domain[code])
        return columns

    @property
    def counts(self) -> sparse.csr_array:
        """How often each item got each value [items, values]."""
        shape = len(self.items), len(self.domain)
        return sparse.csr_array((np.ones(len(self.item)), (self.item, self.code)), shape=shape)

    @property
    def per_item(self) -> NDArray[np.intp]:
        """The number of ratings of each item [items]."""
        return np.bincount(self.item, minlength=len(self.items))

    def restricted(self, kept: NDArray[np.bool_]) -> Ratings:
        """Return the ratings of the items marked in `kept` [items]; `items` keeps its length and positions."""
        entries = kept[self.item]
        return Ratings(
            items=self.items,
            raters=self.raters,
            domain=self.domain,
            item=self.item[entries],
            rater=self.rater[entries],
            code=self.code[entries],
            level=self.level,
        )


def is_missing(value: object) -> bool:
    """Say whether a value stands for no rating: None or NaN."""
    return value is None or (isinstance(value, float | np.floating) and math.isnan(value))


def estimated(
    ratings: Ratings, statistic: WeightedStatistic, bootstrap: Bootstrap, undefined: str, width: int = 1
) -> Agreement:
    """Return `statistic` over the items that `ratings` has entries of, two at least.

    Args:
        ratings: restricted to the ratings that enter.
        statistic: see :data:`gnomon.statistics.WeightedStatistic`; its weights are those of all of `ratings.items`.
        bootstrap: how to resample.
        undefined: why the statistic has no value where it gives NaN.
        width: how many numbers the statistic holds per resample, if more than there are items.

    Raises:
        ValueError: where `bootstrap.clusters` does not name a group per item.
    """
    if bootstrap.clusters is not None and len(bootstrap.clusters) != len(ratings.items):
        raise ValueError(f"expected a cluster per item, got {len(bootstrap.clusters)} for {len(ratings.items)} items")
    kept = np.unique(ratings.item)
    n_raters = len(np.unique(ratings.rater))
    if len(kept) < 2:
        reason = "there is one item with enough ratings; two are needed" if len(kept) else undefined
        return Agreement(None, None, None, len(kept), n_raters, reason)
    clusters = kept if bootstrap.clusters is None else np.asarray(bootstrap.clusters)[kept]

    def on_all(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        spread = np.zeros((len(weights), len(ratings.items)))
        spread[:, kept] = weights
        return statistic(spread)

    value = float(on_all(np.ones((1, len(kept))))[0])
    if not math.isfinite(value):
        return Agreement(None, None, None, len(kept), n_raters, undefined)
    if bootstrap.num_resamples == 0:
        return Agreement(value, None, None, len(kept), n_raters)
    estimate = cluster_bootstrap_statistic(
        on_all,
        clusters,
        seed=bootstrap.seed,
        num_resamples=bootstrap.num_resamples,
        level=bootstrap.confidence,
        width=max(width, len(ratings.items)),
    )
    return Agreement(
        value,
        estimate.ci_low,
        estimate.ci_high,
        len(kept),
        n_raters,
        _no_interval(estimate.num_clusters, estimate.ci_low),
    )


def _no_interval(num_clusters: int, ci_low: float | None) -> str | None:
    if num_clusters < 2:
        return "no interval: fewer than two groups of items to resample"
    return "no interval: the statistic is undefined in most resamples" if ci_low is None else None


def _finite(value: object) -> float:
    """Return `value` as a finite float."""
    if not isinstance(value, int | float | np.integer | np.floating) or not math.isfinite(value):
        raise ValueError(f"expected a finite number for the ordinal or interval level, got {value!r}")
    return float(value)
