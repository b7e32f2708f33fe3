"""How several judges order the same models, and how far their orders agree.

Means are those that the benchmark orders runs by (the final one, where it has one), over the cases that every judge has
a score of in every run, so that orders differ by the judges alone. Intervals resample these cases, the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import rankdata

from bench.aggregation import resampled_headlines
from bench.benchmarks import Score
from bench.report.examples import JudgedRun
from bench.results import mean_by_case
from bench.statistics.means import KINDS, correlation_of_resampled_means
from bench.statistics.ratings import DEFAULT_BOOTSTRAP, Agreement, Bootstrap


@dataclass(frozen=True)
class JudgeOrder:
    """The models by one judge.

    Attributes:
        metric: what they are ordered by.
        means: of each model, rounded, since equal means of equal numbers must not differ by their last bits.
        ranks: 1 is best; equal means share the mean of their ranks.
    """

    metric: str
    means: list[float]
    ranks: list[float]


@dataclass(frozen=True)
class OrdersAgreement:
    """Two judges' orders.

    Attributes:
        first: a judge.
        second: the other one.
        correlations: of the means (pearson) and of the ranks (spearman, kendall_tau_b).
        swapped: pairs of models, the better one by the first judge before the one that the second prefers.
    """

    first: str
    second: str
    correlations: dict[str, Agreement]
    swapped: list[tuple[str, str]]


@dataclass(frozen=True)
class Reranking:
    """What `gnomon bench study reranking` writes.

    Attributes:
        models: names, in the order of all lists below.
        num_cases: that every judge has a score of in every run.
        num_left_out: cases that lack one.
        orders: by judge.
        agreements: of every two judges.
    """

    models: list[str]
    num_cases: int
    num_left_out: int
    orders: dict[str, JudgeOrder]
    agreements: list[OrdersAgreement]


def reranking(
    runs: Sequence[JudgedRun], headlines: Mapping[str, str], bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
) -> Reranking | None:
    """Return the models' order by each judge, and the agreement of every two; None where no case is scored by all.

    Args:
        runs: of one model each, that all of these judges judged.
        headlines: by judge, the metric that it orders models by.
        bootstrap: how cases are resampled.
    """
    cases = {case_id: case for run in runs for case_id, case in run.run.cases.items()}
    columns = [mean_by_case(run.scores[judge].get(metric, {})) for judge, metric in headlines.items() for run in runs]
    shared = sorted(set.intersection(*map(set, columns))) if columns else []
    if not shared:
        return None
    scores = [{(case_id, 0): Score(found[case_id]) for case_id in shared} for found in columns]
    drawn = resampled_headlines(
        [(case_id, 0) for case_id in shared],
        scores,
        cases,
        seed=bootstrap.seed,
        num_resamples=max(1, bootstrap.num_resamples),
    )
    shape = len(headlines), len(runs)
    means, deviations = drawn.means.reshape(shape), drawn.deviations.reshape(-1, *shape)
    models = [run.label for run in runs]
    orders = {judge: _order(headlines[judge], found) for judge, found in zip(headlines, means, strict=True)}
    agreements = [
        OrdersAgreement(
            first,
            second,
            {
                kind: correlation_of_resampled_means(
                    means[[here, there]], deviations[:, [here, there]], kind, confidence=bootstrap.confidence
                )
                for kind in KINDS
            },
            _swapped(models, orders[first].means, orders[second].means),
        )
        for (here, first), (there, second) in combinations(enumerate(headlines), 2)
    ]
    return Reranking(models, len(shared), len(cases) - len(shared), orders, agreements)


def _order(metric: str, found: np.ndarray) -> JudgeOrder:
    means = np.round(found, 12)
    return JudgeOrder(metric, means.tolist(), rankdata(-means).tolist())


def _swapped(models: Sequence[str], first: Sequence[float], second: Sequence[float]) -> list[tuple[str, str]]:
    """Return the pairs of models that two judges order differently, those that one of them ties left out."""
    found = []
    for one, other in combinations(range(len(models)), 2):
        better, worse = (one, other) if first[one] > first[other] else (other, one)
        if first[better] > first[worse] and second[better] < second[worse]:
            found.append((models[better], models[worse]))
    return found
