"""What judges reach that do not look at the pictures, beside what a judge says of them.

A judge that always says yes, or no, gives every picture of a case the same score, so it need not be run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.aggregation import metric_results
from bench.benchmarks import Score, benchmark_of
from bench.checklists import right_scores
from bench.report.blocks import Cell, Table
from bench.report.display import Display
from bench.report.examples import JudgedRun
from bench.results import Item, JudgeResult, MetricResult
from gnomon.records import Case

CONSTANT = {"(always yes)": 1.0, "(always no)": 0.0}


def control_table(
    judge: str, runs: Sequence[JudgedRun], results: Sequence[Mapping[str, JudgeResult]], display: Display
) -> Table | None:
    """Return the metrics of every run by a judge of questions, and below them those of judges that do not look.

    Args:
        judge: its name.
        runs: that it judged.
        results: by judge, of each run, as they are shown.
        display: how those of the judges that were not run are shown.

    Returns:
        None where the judge has no metric.
    """
    metrics = list(dict.fromkeys(metric for found in results for metric in found[judge].metrics))
    if not metrics:
        return None
    rows = [_row(run.label, found[judge].metrics, metrics) for run, found in zip(runs, results, strict=True)]
    cases = {case_id: case for run in runs for case_id, case in run.run.cases.items()}
    for name, value in CONSTANT.items():
        shown = {metric: display.metric(metric, found) for metric, found in constant_results(cases, value).items()}
        rows.append(_row(name, shown, metrics))
    rows += [
        _row(f"({other.name}) {run.label}", found[other.name].metrics, metrics)
        for run, found in zip(runs, results, strict=True)
        for other in run.judges
        if not other.looks and other.name != judge
    ]
    note = "In brackets: judges that open no picture. A score says something as far as it differs from theirs."
    return Table(f"{judge} beside judges that do not look", ["run", *metrics], rows, note)


def constant_results(cases: Mapping[str, Case], value: float) -> dict[str, MetricResult]:
    """Return the metrics that any run would get if every question were answered alike.

    Args:
        cases: by id, with their questions.
        value: 1 for yes, 0 for no.
    """
    scores: dict[str, dict[Item, Score]] = {}
    for case in cases.values():
        answers = {question.id: Score(value) for question in case.questions}
        for metric, score in benchmark_of(case).derive_from_answers(case, right_scores(case, answers)).items():
            scores.setdefault(metric, {})[case.id, 0] = score
    return metric_results([(case_id, 0) for case_id in cases], scores, cases)


def _row(name: str, found: Mapping[str, MetricResult], metrics: Sequence[str]) -> list[Cell]:
    return [name, *(found[metric].headline.estimate if metric in found else None for metric in metrics)]
