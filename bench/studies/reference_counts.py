"""How scores fall with the number of references: the mean at each number, of each model and of all together.

Cases with more references are other cases, so nothing is paired: the difference between the most and the fewest has an
interval that resamples the cases of both. Where the numbers of references go with other things (sub-tasks), so does the
difference.

Source: MDMR-Bench, its study of two to four references of attribute transfer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from bench.report.examples import JudgedRun
from bench.results import mean_by_case
from bench.statistics.ratings import Bootstrap
from gnomon.records import CLEAN_SOURCE, Case
from gnomon.statistics import Estimate, cluster_bootstrap, cluster_bootstrap_statistic

ALL_MODELS = "mean of all"


@dataclass(frozen=True)
class CountCurve:
    """One metric by the number of references.

    Attributes:
        points: mean over the cases with so many references, by their number, ascending; `n` counts cases.
        change: the mean at the largest number minus that at the smallest; None where there is one number.
        num_left_out: cases without a score.
    """

    points: dict[str, Estimate]
    change: Estimate | None
    num_left_out: int


def reference_counts(
    runs: Sequence[JudgedRun], judge: str, metrics: Sequence[str], bootstrap: Bootstrap
) -> dict[str, dict[str, CountCurve]]:
    """Return the curve of each metric of each model, and of the mean over models where there are several.

    Args:
        runs: of one model each.
        judge: of all of them.
        metrics: of the judge.
        bootstrap: how cases are resampled.
    """
    cases = {case_id: case for one in runs for case_id, case in one.run.cases.items()}
    by_model = {
        one.label: {metric: mean_by_case(one.scores[judge].get(metric, {})) for metric in metrics} for one in runs
    }
    if len(runs) > 1:
        by_model[ALL_MODELS] = {
            metric: _over_models([found[metric] for found in by_model.values()]) for metric in metrics
        }
    return {
        model: {metric: _curve(means, cases, bootstrap) for metric, means in found.items()}
        for model, found in by_model.items()
    }


def number_of_references(case: Case) -> int:
    """Return how many references a generator sees."""
    return sum(reference.role != CLEAN_SOURCE for reference in case.references)


def _over_models(by_model: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean over models of each case that all of them have a score of."""
    shared = [case_id for case_id in by_model[0] if all(case_id in found for found in by_model)]
    return {case_id: fmean(found[case_id] for found in by_model) for case_id in shared}


def _curve(means: Mapping[str, float], cases: Mapping[str, Case], bootstrap: Bootstrap) -> CountCurve:
    counts = {case_id: number_of_references(cases[case_id]) for case_id in means}
    points = {}
    for count in sorted(set(counts.values())):
        members = [case_id for case_id in means if counts[case_id] == count]
        points[str(count)] = cluster_bootstrap(
            [means[case_id] for case_id in members],
            members,
            seed=bootstrap.seed,
            num_resamples=bootstrap.num_resamples,
            level=bootstrap.confidence,
        )
    return CountCurve(points, _change(means, counts, bootstrap), len(cases) - len(means))


def _change(means: Mapping[str, float], counts: Mapping[str, int], bootstrap: Bootstrap) -> Estimate | None:
    fewest, most = min(counts.values(), default=0), max(counts.values(), default=0)
    members = [case_id for case_id in means if counts[case_id] in (fewest, most)]
    if fewest == most:
        return None
    values = np.array([means[case_id] for case_id in members])
    is_most = np.array([counts[case_id] == most for case_id in members], dtype=np.float64)

    def change(weights: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):  # a resample without cases of one side has no difference
            sides = [weights * side @ values / (weights @ side) for side in (is_most, 1 - is_most)]
        return np.asarray(sides[0] - sides[1])

    return cluster_bootstrap_statistic(
        change, members, seed=bootstrap.seed, num_resamples=bootstrap.num_resamples, level=bootstrap.confidence
    )
