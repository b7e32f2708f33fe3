"""The scores of a run by one judge: its verdicts, and what the benchmark computes from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from bench.benchmarks import Score, Scoring, benchmark_of
from bench.checklists import question_results, right_scores
from bench.folder import BenchRun, JudgeFile, ShortVerdict
from bench.results import Item, QuestionResults
from gnomon.hashing import stable_hash
from gnomon.records import Case, Verdict

Scores = dict[str, dict[Item, Score]]
"""Metric -> item -> score."""


Answers = dict[Item, dict[str, Score]]
"""Item -> question id -> answer, as far as there is one; without items for a judge of metrics."""

Verdicts = Mapping[tuple[str, str], Mapping[Item, Verdict | ShortVerdict]]
"""The last verdicts, by (judge fingerprint, metric or question id) and item."""


OVERALL = "overall"


def all_scores(
    items: Sequence[Item],
    verdicts: Verdicts,
    cases: Mapping[str, Case],
    judge: JudgeFile,
    scoring: Scoring | None = None,
    *,
    given: Answers | None = None,
) -> Scores:
    """Return the scores of a judge's metrics, and behind them those that the benchmark derives.

    A derived metric that the judge has under the same name is the judge's. An item without all that its derived
    metric needs has none yet.

    Args:
        items: every item that was to be judged.
        verdicts: the last verdicts.
        cases: the cases by id.
        judge: whose scores. Questions have different words in each case and are no metrics: what there is of a judge of
            questions is what the benchmark derives from its answers.
        scoring: what scores are made by; the usual by default.
        given: the judge's :func:`answers`, where they are known already.
    """
    scores: Scores = {
        metric: {
            item: Score(verdict.value, verdict.status)
            for item, verdict in verdicts.get((judge.fingerprint, metric), {}).items()
        }
        for metric in judge.metrics
    }
    given = answers(items, verdicts, judge) if given is None else given
    derived: Scores = {}
    for item in items:
        known = given.get(item) or {metric: by_item[item] for metric, by_item in scores.items() if item in by_item}
        found = _derived(cases[item[0]], known, judge.asks_questions, scoring or Scoring())
        for metric, score in found.items():
            if metric not in scores:
                derived.setdefault(metric, {})[item] = score
    return scores | derived


def _derived(case: Case, known: Mapping[str, Score], are_answers: bool, scoring: Scoring) -> dict[str, Score]:
    """Return what the benchmark makes of the answers to a case's questions, or of the scores of metrics."""
    benchmark = benchmark_of(case)
    if are_answers:
        found = benchmark.derive_from_answers(case, right_scores(case, known, as_no=scoring.as_no))
    else:
        found = benchmark.derive(case, known)
    is_whole = not scoring.strict or all(benchmark.applies(case, dimension) for dimension in benchmark.dimensions)
    return found if is_whole or OVERALL not in found else found | {OVERALL: Score(None, "not_applicable")}


def answers(items: Sequence[Item], verdicts: Verdicts, judge: JudgeFile) -> Answers:
    """Return what a judge of questions answered about each item, as far as it was asked, by question id."""
    found: dict[Item, dict[str, Score]] = {item: {} for item in items} if judge.asks_questions else {}
    for (fingerprint, name), by_item in verdicts.items():
        if fingerprint == judge.fingerprint:
            for item, verdict in by_item.items():
                if (of_item := found.get(item)) is not None:
                    of_item[name] = Score(verdict.value, verdict.status)
    return found


def scores_of(run: BenchRun, verdicts: Verdicts, judge: JudgeFile) -> Scores:
    """Return the scores of one judge of a run, made as the run was last summarized; see :func:`all_scores`."""
    return all_scores(run.items, verdicts, run.cases, judge, run.scoring)


def scores_and_questions(run: BenchRun, verdicts: Verdicts, judge: JudgeFile) -> tuple[Scores, QuestionResults | None]:
    """Return what :func:`scores_of` does, and what the judge answered question by question; None for one of metrics."""
    given = answers(run.items, verdicts, judge)
    scores = all_scores(run.items, verdicts, run.cases, judge, run.scoring, given=given)
    return scores, question_results(given, run.cases) if judge.asks_questions else None


def _by_metric(verdicts: Verdicts, judge: JudgeFile) -> dict[str, Collection[Verdict | ShortVerdict]]:
    """Return a judge's verdicts by metric or question."""
    return {
        metric: by_item.values()
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
        metric: {verdict.prompt_hash for verdict in of_metric if verdict.prompt_hash is not None}
        for metric, of_metric in _by_metric(verdicts, judge).items()
    }
    if judge.asks_questions:
        every = sorted(set[str]().union(*found.values()))
        return {"questions": [stable_hash(every)]} if every else {}
    return {metric: sorted(found[metric]) for metric in judge.metrics if found.get(metric)}


def headline_metric(judge: JudgeFile, metrics: Sequence[str]) -> str | None:
    """Return the metric that cases and runs are ordered by: "overall", else the first derived, else the first.

    Args:
        judge: says which metrics are its own.
        metrics: those that there are numbers of, in their order.
    """
    derived = [metric for metric in metrics if metric not in judge.metrics]
    return next(iter([*(metric for metric in metrics if metric == "overall"), *derived, *metrics]), None)
