"""The scores of a run by one judge: its verdicts, and what the benchmark computes from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bench.benchmarks import Score, benchmark_of
from bench.folder import BenchRun, JudgeFile
from bench.results import Item
from gnomon.records import Case, Verdict

Scores = dict[str, dict[Item, Score]]
"""Metric -> item -> score."""


def all_scores(
    items: Sequence[Item],
    verdicts: Mapping[tuple[str, str], Mapping[Item, Verdict]],
    cases: Mapping[str, Case],
    *,
    fingerprint: str,
    metrics: Sequence[str],
) -> Scores:
    """Return the scores of a judge's metrics, and behind them those that the benchmark derives.

    A derived metric that the judge has under the same name is the judge's. An item without all that its derived
    metric needs has none yet.

    Args:
        items: every item that was to be judged.
        verdicts: the last verdicts, by (judge fingerprint, metric) and item.
        cases: the cases by id.
        fingerprint: of the judge.
        metrics: of the judge.
    """
    scores: Scores = {
        metric: {
            item: Score(verdict.value, verdict.status)
            for item, verdict in verdicts.get((fingerprint, metric), {}).items()
        }
        for metric in metrics
    }
    derived: Scores = {}
    for item in items:
        case = cases[item[0]]
        known = {metric: scores[metric][item] for metric in metrics if item in scores[metric]}
        for metric, score in benchmark_of(case).derive(case, known).items():
            if metric not in scores:
                derived.setdefault(metric, {})[item] = score
    return scores | derived


def scores_of(run: BenchRun, verdicts: Mapping[tuple[str, str], Mapping[Item, Verdict]], judge: JudgeFile) -> Scores:
    """Return the scores of one judge of a run, see :func:`all_scores`."""
    return all_scores(run.items, verdicts, run.cases, fingerprint=judge.fingerprint, metrics=judge.metrics)


def served_by(verdicts: Mapping[tuple[str, str], Mapping[Item, Verdict]], judge: JudgeFile) -> dict[str, int]:
    """Return how many verdicts of a judge each model gave, by what the server called it; empty where none says."""
    names = Counter(
        verdict.served_by
        for metric in judge.metrics
        for verdict in verdicts.get((judge.fingerprint, metric), {}).values()
        if verdict.served_by is not None
    )
    return dict(sorted(names.items()))


def prompt_hashes(verdicts: Mapping[tuple[str, str], Mapping[Item, Verdict]], judge: JudgeFile) -> dict[str, list[str]]:
    """Return the hashes of the words that a judge's metrics were asked with; a metric without any is left out."""
    found = {
        metric: {verdict.prompt_hash for verdict in verdicts.get((judge.fingerprint, metric), {}).values()}
        for metric in judge.metrics
    }
    known = {metric: sorted(one for one in hashes if one is not None) for metric, hashes in found.items()}
    return {metric: hashes for metric, hashes in known.items() if hashes}


def headline_metric(judge: JudgeFile, metrics: Sequence[str]) -> str | None:
    """Return the metric that cases and runs are ordered by: "overall", else the first derived, else the first.

    Args:
        judge: says which metrics are its own.
        metrics: those that there are numbers of, in their order.
    """
    derived = [metric for metric in metrics if metric not in judge.metrics]
    return next(iter([*(metric for metric in metrics if metric == "overall"), *derived, *metrics]), None)
