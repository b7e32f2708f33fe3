"""Pair accuracy with honest error bars: what a judge gets right, how often it ties, and how sure that is.

Conventions (they matter more than most gaps between judges): a predicted tie on a decided pair is wrong in the
strict accuracy and half right in the half-credit one; a tied pair counts in neither but in the accuracy by the tie
rule, where the label "tie" is right exactly when the judge's difference is below `TIE_THRESHOLD`. A pair that the
judge failed to score is in no accuracy; it is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchmetrics import Metric

from gnomon.hashing import stable_seed
from gnomon.statistics import cluster_bootstrap
from rm.calibration import calibrate

TIE_THRESHOLD = 1e-5


class PairFigures(NamedTuple):
    """The figures of one dimension.

    Attributes:
        n: decided pairs that were scored.
        n_ties: tied pairs that were scored.
        failures: labelled pairs without a finite score on both sides.
        strict: share of the decided pairs whose better side scored higher.
        half_credit: the same with one half for every predicted tie.
        tie_rule: share of all scored pairs that are right by the tie rule.
        tie_rate: share of all scored pairs that the judge tied.
        ci_low: lower end of the 95 % interval of `strict`, by cluster bootstrap over groups; None below two groups.
        ci_high: upper end.
        num_groups: groups among the decided pairs.
        ece: expected calibration error of the decided pairs, their differences read as log-odds.
        temperature: what the differences are best divided by for that.
        ece_with_temperature: the error with temperatures fitted on other pairs; None where there are too few.
    """

    n: int
    n_ties: int
    failures: int
    strict: float | None
    half_credit: float | None
    tie_rule: float | None
    tie_rate: float | None
    ci_low: float | None
    ci_high: float | None
    num_groups: int
    ece: float | None = None
    temperature: float | None = None
    ece_with_temperature: float | None = None


def pair_figures(
    differences: NDArray[np.float64], labels: NDArray[np.float64], groups: NDArray[np.generic], *, seed: int = 0
) -> PairFigures:
    """Return the figures of one dimension.

    Args:
        differences: score of the first minus score of the second candidate [pairs]; NaN where the judge failed.
        labels: 1 first better, -1 second better, 0 tie, NaN not labelled (left out) [pairs].
        groups: the cluster of each pair [pairs].
        seed: seed of the bootstrap.
    """
    labelled = ~np.isnan(labels)
    scored = labelled & np.isfinite(differences)
    failures = int(labelled.sum() - scored.sum())
    differences, labels, groups = differences[scored], labels[scored], groups[scored]
    tied = np.abs(differences) < TIE_THRESHOLD
    decided = labels != 0
    right = ~tied & (np.sign(differences) == labels)
    by_rule = np.where(decided, right, tied)
    if not decided.any():
        none = None if len(labels) == 0 else float(by_rule.mean())
        rate = None if len(labels) == 0 else float(tied.mean())
        return PairFigures(0, len(labels), failures, None, None, none, rate, None, None, 0)
    calibration = calibrate(differences[decided], labels[decided], groups[decided], seed=seed)
    estimate = cluster_bootstrap(right[decided].astype(np.float64), groups[decided], seed=seed)
    return PairFigures(
        n=estimate.n,
        n_ties=int((~decided).sum()),
        failures=failures,
        strict=estimate.value,
        half_credit=float((right + 0.5 * tied)[decided].mean()),
        tie_rule=float(by_rule.mean()),
        tie_rate=float(tied.mean()),
        # Rounding may carry an end a hair beyond what a share can be.
        ci_low=None if estimate.ci_low is None else max(0.0, estimate.ci_low),
        ci_high=None if estimate.ci_high is None else min(1.0, estimate.ci_high),
        num_groups=estimate.num_clusters,
        ece=calibration.ece,
        temperature=calibration.temperature,
        ece_with_temperature=calibration.ece_with_temperature,
    )


class PairAccuracy(Metric):
    """Collects score differences and labels of pairs, and returns :class:`PairFigures` per dimension.

    Every pair counts once, however often it was given: a distributed sampler repeats items to make the ranks even.

    Args:
        dimensions: names of the columns.
        seed: seed of the bootstrap.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    ids: list[Tensor]
    groups: list[Tensor]
    differences: list[Tensor]
    labels: list[Tensor]

    def __init__(self, dimensions: Sequence[str], *, seed: int = 0) -> None:
        """Make empty states."""
        super().__init__()
        self.dimensions = tuple(dimensions)
        self.seed = seed
        for name in ("ids", "groups", "differences", "labels"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, ids: Sequence[str], groups: Sequence[str], differences: Tensor, labels: Tensor) -> None:
        """Add pairs.

        Args:
            ids: one id per pair, unique over the whole evaluation.
            groups: the cluster of each pair.
            differences: first minus second score [pairs, dimensions]; not finite where the judge failed.
            labels: 1, -1, 0 or NaN [pairs, dimensions].

        Raises:
            ValueError: when the shapes do not fit.
        """
        expected = (len(ids), len(self.dimensions))
        if not (tuple(differences.shape) == tuple(labels.shape) == expected and len(groups) == len(ids)):
            raise ValueError(
                f"expected differences and labels of shape {expected} and one group per pair, got "
                f"{tuple(differences.shape)}, {tuple(labels.shape)} and {len(groups)} groups"
            )
        # Names travel between ranks as 63-bit hashes, since only tensors can be gathered.
        self.ids.append(_hashes(ids, self.device))
        self.groups.append(_hashes(groups, self.device))
        self.differences.append(differences.detach().double())
        self.labels.append(labels.detach().double())

    def compute(self) -> dict[str, PairFigures]:
        """Return the figures per dimension, over all ranks."""
        ids, groups = _joined(self.ids), _joined(self.groups)
        differences, labels = _joined(self.differences), _joined(self.labels)
        if len(ids) == 0:
            differences = labels = np.zeros((0, len(self.dimensions)))
        # Sorted by id: the figures do not depend on how pairs were spread over ranks and batches.
        _, kept = np.unique(ids, return_index=True)
        return {
            name: pair_figures(differences[kept, column], labels[kept, column], groups[kept], seed=self.seed)
            for column, name in enumerate(self.dimensions)
        }


def _hashes(names: Sequence[str], device: torch.device) -> Tensor:
    return torch.tensor([stable_seed(name) for name in names], dtype=torch.int64, device=device)


def _joined(state: list[Tensor] | Tensor) -> NDArray[np.generic]:
    """Return a list state as one array; after a gather it is one tensor already."""
    if isinstance(state, Tensor):
        return state.cpu().numpy()
    return torch.cat(state).cpu().numpy() if state else np.zeros(0)
