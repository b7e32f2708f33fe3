"""Two judges on the same pairs: what one has more than the other, with an interval and McNemar's test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gnomon.statistics import mcnemar, paired_difference
from rm.controls import control_differences
from rm.pairs import Pair
from rm.scorers import PairSample, predicted

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


def control_samples(name: str, samples: Sequence[PairSample], *, seed: int = 0) -> list[PairSample]:
    """Return what a control judge says about the pairs and dimensions that another judge was asked about.

    Args:
        name: of the control judge, see :mod:`rm.controls`.
        samples: of the other judge, each pair and dimension once.
        seed: of the random judge.
    """
    labels: dict[str, dict[str, int]] = {}
    for sample in samples:
        labels.setdefault(sample.pair_id, {})[sample.dimension] = sample.label
    pairs = {
        sample.pair_id: Pair(sample.pair_id, sample.group_id, sample.first, sample.second, labels[sample.pair_id], {})
        for sample in samples
    }
    dimensions = list(dict.fromkeys(sample.dimension for sample in samples))
    said = dict(zip(pairs, control_differences(name, [*pairs.values()], dimensions, seed=seed), strict=True))
    answers = [(sample, said[sample.pair_id][sample.dimension]) for sample in samples]
    nothing_else = {"scores": None, "status": "ok", "reason": None, "consistent": None}
    return [
        sample.model_copy(update={**nothing_else, "difference": answer, "correct": predicted(answer) == sample.label})
        for sample, answer in answers
    ]
