"""Whole rankings: a comparison of K candidates is right when the judge is right about every judged pair of it.

The rule of EditReward-Bench (TIGER-Lab) for its groups of two, three and four: far harder than single pairs, the more
so the larger K is, so that figures of different K are never pooled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gnomon.statistics import cluster_bootstrap
from rm.scorers import PairSample


def ranking_figures(samples: Iterable[PairSample], *, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Return, per number of judged candidates, how many comparisons are right as a whole.

    Args:
        samples: of one dimension; a pair counts by the tie rule of :mod:`rm.metrics`.
        seed: of the bootstrap.

    Returns:
        By K: `right` (a share), its 95 % interval by cluster bootstrap over groups, `n` comparisons, and `failures`,
        those with a pair that the judge could not score, which are in no share.
    """
    comparisons: dict[str, list[PairSample]] = {}
    for sample in samples:
        comparisons.setdefault(sample.comparison_id, []).append(sample)
    by_size: dict[int, list[list[PairSample]]] = {}
    for pairs in comparisons.values():
        size = len({side for pair in pairs for side in (pair.first, pair.second)})
        by_size.setdefault(size, []).append(pairs)
    return {str(size): _figures(members, seed) for size, members in sorted(by_size.items())}


def _figures(comparisons: list[list[PairSample]], seed: int) -> dict[str, Any]:
    scored = [pairs for pairs in comparisons if all(pair.correct is not None for pair in pairs)]
    figures: dict[str, Any] = {"right": None, "ci_low": None, "ci_high": None}
    if scored:
        right = np.array([all(pair.correct for pair in pairs) for pairs in scored], dtype=np.float64)
        estimate = cluster_bootstrap(right, np.array([pairs[0].group_id for pairs in scored], np.str_), seed=seed)
        figures = {"right": estimate.value, "ci_low": estimate.ci_low, "ci_high": estimate.ci_high}
    return {**figures, "n": len(scored), "failures": len(comparisons) - len(scored)}
