"""Two judges on the same pairs: what one has more than the other, with an interval and McNemar's test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gnomon.statistics import mcnemar, paired_difference
from rm.scorers import PairSample

_Couple = tuple[PairSample, PairSample]


def paired_accuracy(
    before: Iterable[PairSample],
    after: Iterable[PairSample],
    *,
    decided_only: bool = False,
    failed_wrong: bool = False,
    seed: int = 0,
) -> dict[str, Any]:
    """Return the accuracy of `after` minus that of `before`, per dimension and over all, on the pairs of both.

    Args:
        before: samples of one judge.
        after: samples of the other one.
        decided_only: leave tied pairs out, as the strict accuracy does; by default they count by the tie rule.
        failed_wrong: a pair that a judge failed to score is wrong; by default such pairs are left out for both.
        seed: of the bootstrap.

    Returns:
        `{"average": row, "dimensions": {name: row}}`. A row has `value`, `ci_low` and `ci_high` of its 95 % interval by
        paired cluster bootstrap, `n`, `num_clusters`, `left_out` (pairs of both that one of them failed to score) and
        `mcnemar` (first is before). No pairs, no row: `average` is then None.
    """
    found = {sample.key: sample for sample in before}
    couples = [
        (found[sample.key], sample)
        for sample in after
        if sample.key in found and not (decided_only and sample.label == 0)
    ]
    rows = {
        name: _row([couple for couple in couples if couple[1].dimension == name], failed_wrong, seed)
        for name in dict.fromkeys(sample.dimension for _, sample in couples)
    }
    return {
        "average": _row(couples, failed_wrong, seed),
        "dimensions": {name: row for name, row in rows.items() if row is not None},
    }


def _row(couples: Sequence[_Couple], failed_wrong: bool, seed: int) -> dict[str, Any] | None:
    kept = [couple for couple in couples if failed_wrong or all(sample.correct is not None for sample in couple)]
    if not kept:
        return None
    first, second = (np.array([bool(couple[side].correct) for couple in kept]) for side in (0, 1))
    groups = np.array([sample.group_id for _, sample in kept], dtype=np.str_)
    difference = paired_difference(first.astype(float), second.astype(float), groups, seed=seed)
    return {**vars(difference), "left_out": len(couples) - len(kept), "mcnemar": vars(mcnemar(first, second))}
