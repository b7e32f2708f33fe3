"""The figures of a judge against people: models by their means, pictures one by one, and the best picture of a case.

Intervals resample cases, whole, with all pictures of all models. So they say how figures vary over other cases, and
nothing about other models or other people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from bench.alignment.pictures import RatedPicture, RatedRuns
from bench.statistics.correlations import kendall_tau_b, pearson, spearman
from bench.statistics.means import KINDS, correlation_of_means
from bench.statistics.ratings import Agreement, Bootstrap, Ratings
from bench.statistics.reliability import krippendorff_alpha
from gnomon.statistics import Estimate, cluster_bootstrap


@dataclass(frozen=True)
class ModelMeans:
    """One model by both, over the same pictures; `failed` counts, by status, the rated ones without a score."""

    model: str
    human: float | None
    judge: float | None
    n: int
    failed: dict[str, int]


@dataclass(frozen=True)
class TopOne:
    """How often the judge's best picture of a case is the people's best.

    Attributes:
        share: of cases; None where there are none. Where the judge has several best pictures, a case counts by the
            share of them that are the people's best, as if one of them were drawn.
        chance: what a judge that does not look would reach on the same cases.
        n_undecided: cases left out because people rate all their pictures equally, or rated a single one.
        n_failed: cases left out because a rated picture has no score.
    """

    share: Estimate | None
    chance: float | None
    n_undecided: int
    n_failed: int


@dataclass(frozen=True)
class Alignment:
    """What `gnomon bench alignment` writes: who was compared, the models by both, and three ways to agree."""

    judge: str
    metric: str
    models: list[ModelMeans]
    model_level: dict[str, Agreement]
    picture_level: dict[str, Agreement]
    top_1: TopOne


def alignment(rated: RatedRuns, bootstrap: Bootstrap) -> Alignment:
    """Return how far a judge agrees with people about the pictures that both rated.

    Args:
        rated: at least one picture.
        bootstrap: how cases are resampled; `clusters` is not looked at.
    """
    models = dict.fromkeys(one.model for one in rated.pictures)
    return Alignment(
        judge=rated.judge,
        metric=rated.metric,
        models=[_means(model, [one for one in rated.pictures if one.model == model]) for model in models],
        model_level=_model_level(rated.pictures, bootstrap),
        picture_level=_picture_level(rated.pictures, bootstrap),
        top_1=_top_one(rated.pictures, bootstrap),
    )


def _means(model: str, pictures: Sequence[RatedPicture]) -> ModelMeans:
    scored = [(one.human, one.judge) for one in pictures if one.judge is not None]
    human, judge = (fmean(column) for column in zip(*scored, strict=True)) if scored else (None, None)
    failed = Counter(one.status for one in pictures if one.judge is None)
    return ModelMeans(model, human, judge, len(scored), dict(sorted(failed.items())))


def _model_level(pictures: Sequence[RatedPicture], bootstrap: Bootstrap) -> dict[str, Agreement]:
    """Return the correlations of the models' means; a model's pictures of one case are averaged first."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for one in pictures:
        if one.judge is not None:
            found.setdefault((one.model, one.case_id), []).append((one.human, one.judge))
    models = list(dict.fromkeys(model for model, _ in found))
    cases = list(dict.fromkeys(case_id for _, case_id in found))
    tables = np.full((2, len(models), len(cases)), np.nan)
    for (model, case_id), pairs in found.items():
        tables[:, models.index(model), cases.index(case_id)] = np.mean(pairs, axis=0)
    return {kind: correlation_of_means(tables[0], tables[1], kind, bootstrap) for kind in KINDS}


def _picture_level(pictures: Sequence[RatedPicture], bootstrap: Bootstrap) -> dict[str, Agreement]:
    cases = [one.case_id for one in pictures]
    by_case = Bootstrap(bootstrap.seed, bootstrap.num_resamples, bootstrap.confidence, cases)
    columns = [one.human for one in pictures], [one.judge for one in pictures]
    kinds = {"pearson": pearson, "spearman": spearman, "kendall_tau_b": kendall_tau_b}
    ratings = Ratings.from_table(list(zip(*columns, strict=True)), "interval")
    found = {name: correlation(*columns, by_case) for name, correlation in kinds.items()}
    return {**found, "alpha": krippendorff_alpha(ratings, by_case)}


def _top_one(pictures: Sequence[RatedPicture], bootstrap: Bootstrap) -> TopOne:
    by_case: dict[str, list[RatedPicture]] = {}
    for one in pictures:
        by_case.setdefault(one.case_id, []).append(one)
    decided = {name: found for name, found in by_case.items() if len({one.human for one in found}) > 1}
    scored = {name: found for name, found in decided.items() if all(one.judge is not None for one in found)}
    counts = len(by_case) - len(decided), len(decided) - len(scored)
    if not scored:
        return TopOne(None, None, *counts)
    hits = [_hits(found) for found in scored.values()]
    share = cluster_bootstrap(
        [hit for hit, _ in hits],
        list(scored),
        seed=bootstrap.seed,
        num_resamples=bootstrap.num_resamples,
        level=bootstrap.confidence,
    )
    return TopOne(share, fmean(chance for _, chance in hits), *counts)


def _hits(pictures: Sequence[RatedPicture]) -> tuple[float, float]:
    """Return the share of people's best pictures among the judge's best ones, and among all."""
    best = max(one.human for one in pictures)
    highest = max(one.judge for one in pictures if one.judge is not None)
    of_judge = [one.human == best for one in pictures if one.judge == highest]
    return fmean(of_judge), fmean(one.human == best for one in pictures)
