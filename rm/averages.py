"""One number over all dimensions: the share of judged pairs that are right by the tie rule.

The unit is a pair in one dimension. By the tie rule (:mod:`rm.metrics`) a tied pair is right exactly where the judge's
difference is below the threshold; EditReward-Compass counts so. The *micro* average is the mean over all units, so a
dimension weighs as much as it has pairs; the *macro* average is the plain mean of the dimensions.

A pair that the judge failed to score is counted by one of two conventions, and both are given, since they can differ by
more than two judges do:

- failed_dropped: it is in no share, as everywhere else in an evaluation;
- failed_wrong: it is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.statistics import Estimate, cluster_bootstrap
from rm.scorers import PairSample

CONVENTIONS = ("failed_dropped", "failed_wrong")


def average_figures(samples: Sequence[PairSample], *, missing: Iterable[str] = (), seed: int = 0) -> dict[str, Any]:
    """Return the shares that are right by the tie rule, per dimension and over all of them.

    Args:
        samples: of all dimensions that the judge has.
        missing: dimensions that the pairs are judged in and the judge does not have.
        seed: of the bootstrap.

    Returns:
        For each of `CONVENTIONS` the figures `micro`, `macro` and `dimensions` (by name); figures are `value`, the ends
        `ci_low` and `ci_high` of a 95 % interval by cluster bootstrap over groups, `n` and `num_groups`, or None where
        nothing was scored. Beside them `failures`, and what is in no average, so that it is partial:
        `missing_dimensions`, and `unscored_dimensions`, where every pair failed.
    """
    failures = sum(sample.correct is None for sample in samples)
    dropped = _figures([sample for sample in samples if sample.correct is not None], seed)
    names = dict.fromkeys(sample.dimension for sample in samples)
    return {
        "missing_dimensions": list(missing),
        "unscored_dimensions": [name for name in names if name not in dropped["dimensions"]],
        "failures": failures,
        "failed_dropped": dropped,
        "failed_wrong": _figures(samples, seed) if failures else dropped,
    }


def is_partial(figures: Mapping[str, Any]) -> bool:
    """Return whether a dimension is missing from the averages of :func:`average_figures`."""
    return bool(figures["missing_dimensions"] or figures["unscored_dimensions"])


def _figures(samples: Sequence[PairSample], seed: int) -> dict[str, Any]:
    """Return the figures of samples that all count, one without an answer as wrong."""
    if not samples:
        return {"micro": None, "macro": None, "dimensions": {}}
    right = np.array([bool(sample.correct) for sample in samples], dtype=np.float64)
    groups = np.array([sample.group_id for sample in samples], dtype=np.str_)
    _, members = np.unique([sample.dimension for sample in samples], return_inverse=True)
    names = list(dict.fromkeys(sample.dimension for sample in samples))
    of = {name: np.array([sample.dimension == name for sample in samples]) for name in names}
    return {
        "micro": _shown(cluster_bootstrap(right, groups, seed=seed)),
        "macro": _shown(cluster_bootstrap(_macro_values(right, members), groups, seed=seed)),
        "dimensions": {name: _shown(cluster_bootstrap(right[of[name]], groups[of[name]], seed=seed)) for name in names},
    }


def _macro_values(right: NDArray[np.float64], members: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return values whose mean is the macro average, and whose spread is that of it.

    A unit's value is the macro average plus its influence on it: how far it is from the share of its own dimension,
    by the weight of that dimension's units. So the bootstrap of a mean serves.
    """
    sizes = np.bincount(members)
    shares = np.bincount(members, weights=right) / sizes
    weights = len(right) / (len(sizes) * sizes)
    values: NDArray[np.float64] = shares.mean() + weights[members] * (right - shares[members])
    return values


def _shown(estimate: Estimate) -> dict[str, Any]:
    # Rounding may carry an end a hair beyond what a share can be, and so may the weights of a macro average.
    return {
        "value": estimate.value,
        "ci_low": None if estimate.ci_low is None else max(0.0, estimate.ci_low),
        "ci_high": None if estimate.ci_high is None else min(1.0, estimate.ci_high),
        "n": estimate.n,
        "num_groups": estimate.num_clusters,
    }
