"""The scores of a run by one judge: its verdicts, and what the benchmark computes from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bench.benchmarks import Score, benchmark_of
from bench.folder import BenchRun, JudgeFile
from bench.results import Item
from gnomon.hashing import stable_hash
from gnomon.records import Case, Verdict

Scores = dict[str, dict[Item, Score]]
"""Metric -> item -> score."""


Verdicts = Mapping[tuple[str, str], Mapping[Item, Verdict]]
"""The last verdicts, by (judge fingerprint, metric or question id) and item."""


def all_scores(items: Sequence[Item], verdicts: Verdicts, cases: Mapping[str, Case], judge: JudgeFile) -> Scores:
    """Return the scores of a judge's metrics, and behind them those that the benchmark derives.

    A derived metric that the judge has under the same name is the judge's. An item without all that its derived
    metric needs has none yet.

    Args:
        items: every item that was to be judged.
        verdicts: the last verdicts.
        cases: the cases by id.
        judge: whose scores. Questions have different words in each case and are no metrics: what there is of a judge of
            questions is what the benchmark derives from its answers.
    """
    scores: Scores = {
        metric: {
            item: Score(verdict.value, verdict.status)
            for item, verdict in verdicts.get((judge.fingerprint, metric), {}).items()
        }
        for metric in judge.metrics
    }
    derived: Scores = {}
    for item in items:
        case = cases[item[0]]
        known = (
            answers(item, case, verdicts, judge)
            if judge.asks_questions
            else {metric: scores[metric][item] for metric in judge.metrics if item in scores[metric]}
        )
        for metric, score in benchmark_of(case).derive(case, known).items():
            if metric not in scores:
                derived.setdefault(metric, {})[item] = score
    return scores | derived


def answers(item: Item, case: Case, verdicts: Verdicts, judge: JudgeFile) -> dict[str, Score]:
    """Return what a judge answered to the questions of an item's case, as far as it was asked, by question id."""
    found = {question.id: verdicts.get((judge.fingerprint, question.id), {}).get(item) for question in case.questions}
    return {name: Score(verdict.value, verdict.status) for name, verdict in found.items() if verdict is not None}


def scores_of(run: BenchRun, verdicts: Verdicts, judge: JudgeFile) -> Scores:
    """Return the scores of one judge of a run, see :func:`all_scores`."""
    return all_scores(run.items, verdicts, run.cases, judge)


def _by_metric(verdicts: Verdicts, judge: JudgeFile) -> dict[str, list[Verdict]]:
    """Return a judge's verdicts by metric or question."""
    return {
        metric: list(by_item.values())
        for (fingerprint, metric), by_item in verdicts.items()
        if fingerprint == judge.fingerprint and (judge.asks_questions or metric in judge.metrics)
    }


def served_by(verdicts: Verdicts, judge: JudgeFile) -> dict[str, int]:
    """Return how many verdicts of a judge each model gave, by what the server called it; empty where none says."""
    names = Counter(
        verdict.served_by
        for found in _by_metric(verdicts, judge).values()
        for verdict in found
        if verdict.served_by is not None
    )
    return dict(sorted(names.items()))


def prompt_hashes(verdicts: Verdicts, judge: JudgeFile) -> dict[str, list[str]]:
    """Return the hashes of the words that a judge's metrics were asked with; a metric without any is left out.

    Questions are too many: what there is of them is one hash over all of theirs, under "questions".
    """
    found = {
        metric: sorted({verdict.prompt_hash for verdict in of_metric if verdict.prompt_hash is not None})
        for metric, of_metric in _by_metric(verdicts, judge).items()
    }
    if judge.asks_questions:
        every = sorted({one for hashes in found.values() for one in hashes})
        return {"questions": [stable_hash(every)]} if every else {}
    return {metric: found[metric] for metric in judge.metrics if found.get(metric)}


def headline_metric(judge: JudgeFile, metrics: Sequence[str]) -> str | None:
    """Return the metric that cases and runs are ordered by: "overall", else the first derived, else the first.

    Args:
        judge: says which metrics are its own.
        metrics: those that there are numbers of, in their order.
    """
    derived = [metric for metric in metrics if metric not in judge.metrics]
    return next(iter([*(metric for metric in metrics if metric == "overall"), *derived, *metrics]), None)
