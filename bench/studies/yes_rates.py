"""How often people and a judge say yes, and by how much the judge says it more often.

A judge may order pictures as people do and still say yes too often, so that its absolute scores are optimistic. Source:
Nguyen et al. 2026 (arXiv 2606.15867), section 6, which prints 57.64 % for its judge and 51.00 % for people.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.statistics.ratings import Bootstrap
from gnomon.statistics import Estimate, cluster_bootstrap


@dataclass(frozen=True)
class YesRates:
    """Shares of yes over the questions that both answered, 0..1.

    Attributes:
        judge: the judge's.
        people: that of the majorities.
        gap: the judge's less that of people; its interval is of the paired difference.
    """

    judge: Estimate
    people: Estimate
    gap: Estimate


def yes_rates(
    people: Sequence[float | None],
    judge: Sequence[float | None],
    pictures: Sequence[Hashable],
    cases: Sequence[str],
    bootstrap: Bootstrap,
) -> dict[str, YesRates]:
    """Return the rates with every question the same ("question"), and with every picture the same ("picture").

    Args:
        people: 1 for yes and 0 for no, by question.
        judge: the same; None where there is no answer.
        pictures: that each question is about.
        cases: of these, which are resampled.
        bootstrap: how; `clusters` is not looked at.

    Returns:
        Nothing where no question was answered by both.
    """
    by_picture: dict[Hashable, list[tuple[float, float]]] = {}
    case_of: dict[Hashable, str] = {}
    for seen, answered, picture, case in zip(people, judge, pictures, cases, strict=True):
        if seen is not None and answered is not None:
            by_picture.setdefault(picture, []).append((seen, answered))
            case_of[picture] = case
    if not by_picture:
        return {}
    questions = [(pair, case_of[picture]) for picture, pairs in by_picture.items() for pair in pairs]
    means = [
        ((fmean(seen for seen, _ in pairs), fmean(said for _, said in pairs)), case_of[picture])
        for picture, pairs in by_picture.items()
    ]
    return {"question": _rates(questions, bootstrap), "picture": _rates(means, bootstrap)}


def _rates(pairs: Sequence[tuple[tuple[float, float], str]], bootstrap: Bootstrap) -> YesRates:
    cases = [case for _, case in pairs]

    def mean(values: Sequence[float]) -> Estimate:
        if bootstrap.num_resamples == 0:
            return Estimate(fmean(values), None, None, len(values), len(set(cases)))
        return cluster_bootstrap(
            values, cases, seed=bootstrap.seed, num_resamples=bootstrap.num_resamples, level=bootstrap.confidence
        )

    people, judge = [seen for (seen, _), _ in pairs], [said for (_, said), _ in pairs]
    return YesRates(mean(judge), mean(people), mean([said - seen for (seen, said), _ in pairs]))
