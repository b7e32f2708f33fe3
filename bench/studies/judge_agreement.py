"""How far judges agree with each other, those of checklists and those that give scores side by side.

Krippendorff's alpha takes the judges as raters. Judges of checklists decide yes or no about each question of each
picture (nominal). What they have in common with judges that score is what both end in, values of the same metrics:
there alpha is that of ordered numbers (ordinal) and of their differences (interval). Intervals resample cases, whole.

Source: MDMR-Bench, its figure on the agreement of judges by both protocols.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench.benchmarks import Score
from bench.folder import JudgeFile
from bench.questions import YES
from bench.report.examples import JudgedRun
from bench.statistics.ratings import Agreement, Bootstrap, Level, Ratings
from bench.statistics.reliability import agreement_ratio, cohen_kappa, krippendorff_alpha
from bench.studies.runs import metrics_of

LEVELS: tuple[Level, ...] = ("ordinal", "interval")
Key = tuple[str, str, int, str]
"""What is judged: the run's label, case id, seed, and question or metric."""


@dataclass(frozen=True)
class ProtocolAgreement:
    """The judges of one protocol.

    Attributes:
        judges: their names.
        failed: of each judge, what has no answer by status: questions, or metrics of judges that score.
        decisions: agreement ratio, kappa (both as means over pairs of judges) and nominal alpha of what was seen;
            empty for judges that score.
        metrics: ordinal and interval alpha of each metric that all these judges end in.
    """

    judges: list[str]
    failed: dict[str, dict[str, int]]
    decisions: dict[str, Agreement]
    metrics: dict[str, dict[str, Agreement]]


def judge_agreement(
    runs: Sequence[JudgedRun], judges: Sequence[JudgeFile], bootstrap: Bootstrap
) -> dict[str, ProtocolAgreement]:
    """Return how far judges agree, by protocol: "checklist" for those of questions, "score" for the others.

    Args:
        runs: whose pictures are judged.
        judges: of all of them; those that do not look are left out. A protocol without a judge is left out, too, and
            with a lone one every value is None with the reason.
        bootstrap: how cases are resampled; `clusters` is not looked at.
    """
    protocols = {
        "checklist": [judge for judge in judges if judge.asks_questions and judge.looks],
        "score": [judge for judge in judges if not judge.asks_questions and judge.looks],
    }
    return {name: _protocol(runs, members, bootstrap) for name, members in protocols.items() if members}


def _protocol(runs: Sequence[JudgedRun], judges: Sequence[JudgeFile], bootstrap: Bootstrap) -> ProtocolAgreement:
    asks = judges[0].asks_questions
    metrics = [
        metric
        for metric in metrics_of(runs, judges[0].name)
        if all(metric in metrics_of(runs, judge.name) for judge in judges)
    ]
    seen = {judge.name: _decisions(runs, judge) for judge in judges} if asks else {}
    own = {judge.name: seen[judge.name] if asks else _scores(runs, judge.name, judge.metrics) for judge in judges}
    return ProtocolAgreement(
        judges=[judge.name for judge in judges],
        failed={name: _failed(found) for name, found in own.items()},
        decisions=_agreement_of_decisions(seen, bootstrap) if asks else {},
        metrics={
            metric: {
                level: _alpha({judge.name: _scores(runs, judge.name, [metric]) for judge in judges}, level, bootstrap)
                for level in LEVELS
            }
            for metric in metrics
        },
    )


def _decisions(runs: Sequence[JudgedRun], judge: JudgeFile) -> dict[Key, Score | None]:
    """Return what a judge saw, 1 for yes and 0 for no, for each question about each picture; None where not asked."""
    found: dict[Key, Score | None] = {}
    for one in runs:
        for item in one.run.items:
            for question in one.run.cases[item[0]].questions:
                verdict = one.answer(judge, item, question.id)
                seen = None if verdict is None or verdict.value is None else float(verdict.value >= YES)
                found[one.label, *item, question.id] = None if verdict is None else Score(seen, verdict.status)
    return found


def _scores(runs: Sequence[JudgedRun], judge: str, metrics: Sequence[str]) -> dict[Key, Score | None]:
    return {
        (one.label, *item, metric): one.scores[judge].get(metric, {}).get(item)
        for metric in metrics
        for one in runs
        for item in one.run.items
    }


def _failed(found: Mapping[Key, Score | None]) -> dict[str, int]:
    counts = Counter("pending" if score is None else score.status for score in found.values())
    return {status: count for status, count in sorted(counts.items()) if status not in ("ok", "not_applicable")}


def _agreement_of_decisions(
    by_judge: Mapping[str, Mapping[Key, Score | None]], bootstrap: Bootstrap
) -> dict[str, Agreement]:
    ratings, by_case = _ratings(by_judge, "nominal", bootstrap)
    return {
        "agreement": agreement_ratio(ratings, by_case).agreement,
        "cohen_kappa": cohen_kappa(ratings, by_case).agreement,
        "alpha": krippendorff_alpha(ratings, by_case),
    }


def _alpha(by_judge: Mapping[str, Mapping[Key, Score | None]], level: Level, bootstrap: Bootstrap) -> Agreement:
    return krippendorff_alpha(*_ratings(by_judge, level, bootstrap))


def _ratings(
    by_judge: Mapping[str, Mapping[Key, Score | None]], level: Level, bootstrap: Bootstrap
) -> tuple[Ratings, Bootstrap]:
    """Return the judges' values as ratings, and how they are resampled by case."""
    keys = list(dict.fromkeys(key for found in by_judge.values() for key in found))
    triples = [
        (str(key), judge, None if (score := found.get(key)) is None else score.value)
        for key in keys
        for judge, found in by_judge.items()
    ]
    return Ratings.from_triples(triples, level), replace(bootstrap, clusters=[key[1] for key in keys])
