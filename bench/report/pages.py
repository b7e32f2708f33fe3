"""The page of one run, and the page that compares two; that of any number is in :mod:`bench.report.leaderboard`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.benchmarks import Benchmark
from bench.folder import REPORT, BenchRun, JudgeFile
from bench.report.axes import add_axes, add_prompts
from bench.report.blocks import Cell as TableCell
from bench.report.blocks import Figure, Gallery, Table, Tile, Tone
from bench.report.cells import (
    INTERVAL_NOTE,
    NO_FAILURES,
    failure_rows,
    group_figures,
    judge_lead,
    metric_table,
    metric_tile,
    named,
)
from bench.report.controls import control_table
from bench.report.diagnosis import dimension_heat_map, dimension_radar
from bench.report.display import Display, scoring_notes
from bench.report.document import Report
from bench.report.examples import JudgedRun, best_and_worst, evenly_spread, gallery_rows, labels
from bench.report.failed_questions import failed_question_tables
from bench.report.formatting import NOTHING, interval, number
from bench.report.plots import Bar, plot_bars
from bench.report.subjects import add_subjects
from bench.results import Difference, JudgeResult, MetricDifference, Results, RunComparison, mean_by_case
from bench.scores import headline_metric
from bench.workflow import summarize


def write_run_page(run: str | Path, *, num_examples: int = 12) -> Path:
    """Summarize a run afresh, write its `report.html` and return the path.

    Args:
        run: run folder.
        num_examples: cases whose pictures are shown for each judge, half of them the best and half the worst; where
            nothing was judged, spread evenly over the run.
    """
    results = summarize(run)
    bench_run = BenchRun.read(run)
    return run_page(bench_run, results, num_examples=num_examples).write(bench_run.path / REPORT)


def write_comparison_page(
    run_a: str | Path, run_b: str | Path, out: str | Path, comparison: RunComparison, *, num_examples: int = 12
) -> Path:
    """Write `out`/report.html about a comparison that :func:`bench.workflow.compare` made, and return the path."""
    page = comparison_page(BenchRun.read(run_a), BenchRun.read(run_b), comparison, num_examples=num_examples)
    return page.write(Path(out) / REPORT)


def run_page(run: BenchRun, results: Results, *, num_examples: int = 12) -> Report:
    """Return the page of one run: key figures, tables and drawings for each judge, failures, best and worst cases."""
    display = Display(run.cases.values())
    results = display.results(results)
    benchmarks = ", ".join(results.benchmarks)
    each = "one candidate" if results.repeats == 1 else f"{results.repeats} candidates"
    lead = f"{results.coverage} of {benchmarks}, {each} each, from seed {results.seed}."
    lead = " ".join(filter(None, [lead, display.note, *scoring_notes(results.scoring)]))
    report = Report(f"{results.generator} on {benchmarks}", lead=lead).add_section("Candidates")
    report.add_tiles(
        [
            Tile(status, str(count), tone="neutral" if status in (*NO_FAILURES, "pending") else "bad")
            for status, count in results.candidates.items()
        ]
    )
    judged = display.run(JudgedRun.read(run))
    add_axes(report, [(judged, results)], display.benchmark)
    add_subjects(report, [(judged.label, results)])
    for judge in judged.judges:
        _add_judge(report, judged.label, judge, results.judges[judge.name], display.benchmark)
        if judge.asks_questions:
            _add_questions(report, judged, judge, results, display)
    _add_failures(report, judged)
    if num_examples:
        _add_examples(report, judged, num_examples)
    add_prompts(report, [judged], display.benchmark, num_examples)
    return report


def comparison_page(before: BenchRun, after: BenchRun, comparison: RunComparison, *, num_examples: int = 12) -> Report:
    """Return the page that compares two runs: differences by metric and task, pictures side by side."""
    first, second = labels([before, after])
    display = Display([*before.cases.values(), *after.cases.values()])
    comparison = display.comparison(comparison)
    lead = f"{second} minus {first}, paired by case: above zero, {second} is better."
    lead = " ".join(filter(None, [lead, display.note, *scoring_notes(comparison.scoring)]))
    report = Report(f"{second} against {first}", lead=lead)
    for name, metrics in comparison.judges.items():
        report.add_section(f"Differences by {name}", judge_lead("", comparison.served_by.get(name, {})))
        report.add_tiles([_difference_tile(metric, change) for metric, change in metrics.items()])
        report.add_figures(
            [
                _difference_figure(metric, kind, changes)
                for metric, change in metrics.items()
                for kind, changes in change.groups.items()
                if sum(change.difference is not None for change in changes.values()) > 1
            ]
        )
        report.add_table(_difference_table(name, metrics))
    if num_examples:
        report.add_section("Pictures", "The same cases by both, with their scores.")
        judged = [display.run(JudgedRun.read(run, label)) for run, label in ((before, first), (after, second))]
        shared = [case_id for case_id in before.cases if case_id in after.cases]
        rows = gallery_rows(judged, evenly_spread(shared, num_examples))
        report.add_gallery(Gallery("Cases spread evenly over those that both have.", rows))
    return report


def _add_judge(report: Report, label: str, judge: JudgeFile, result: JudgeResult, benchmark: Benchmark | None) -> None:
    """Add the section of one judge; the drawings of its other metrics are folded behind those of the headline."""
    lead = judge_lead(f"Judge fingerprint {judge.fingerprint}.", result.served_by)
    report.add_section(f"Scores by {judge.name}", lead)
    report.add_tiles([metric_tile(metric, found) for metric, found in result.metrics.items()])
    if benchmark is not None:
        radar = dimension_radar(label, result.metrics, benchmark)
        report.add_figures([*radar, *dimension_heat_map(label, result.metrics, benchmark)])
    headline = headline_metric(judge, list(result.metrics))
    if headline is not None and judge.looks:
        report.add_figures(group_figures(headline, result.metrics[headline]))
    # Metrics that stand beside others on axes are drawn there.
    others = [metric for metric in result.metrics if metric != headline and (benchmark is None or not benchmark.axes)]
    figures = [figure for metric in others for figure in group_figures(metric, result.metrics[metric])]
    report.add_figures(figures, fold=f"Drawings of {', '.join(others)}")
    report.add_table(metric_table(judge.name, result.metrics))


def _add_questions(report: Report, judged: JudgedRun, judge: JudgeFile, results: Results, display: Display) -> None:
    """Add what judges reach that do not look, and which questions are failed most often."""
    beside = control_table(judge.name, [judged], [results.judges], display)
    for table in [*([] if beside is None else [beside]), *failed_question_tables([judged], judge, display.times)]:
        report.add_table(table)


def _add_failures(report: Report, judged: JudgedRun) -> None:
    candidates = [candidate for made in judged.candidates.values() for candidate in made]
    rows = list(failure_rows(candidates, {judge.name: judged.verdicts_of(judge) for judge in judged.judges}))
    if rows:
        report.add_section("Failures", "Every kind with one example; all are in candidates.jsonl and samples.jsonl.")
        report.add_table(Table("Failures by kind", ["where", "kind", "count", "for example", "reason"], rows))


def _add_examples(report: Report, judged: JudgedRun, num_examples: int) -> None:
    shown = False
    for judge in judged.judges:
        metric = headline_metric(judge, list(judged.scores[judge.name]))
        means = mean_by_case(judged.scores[judge.name][metric]) if metric is not None else {}
        if not means or not judge.looks:  # a control's best and worst cases show nothing
            continue
        shown = True
        report.add_section(f"Best and worst by {judge.name}", f"By {metric}, the mean over a case's candidates.")
        best, worst = best_and_worst(means, num_examples)
        for case_ids, caption in ((best, "The best, the best first."), (worst, "The worst, the worst first.")):
            if case_ids:
                report.add_gallery(Gallery(caption, gallery_rows([judged], case_ids, found_by=[judge.name])))
    if not shown and judged.run.items:
        report.add_section("Pictures", "Each candidate, or why there is none; nothing was scored yet.")
        case_ids = evenly_spread(list(judged.run.cases), num_examples)
        report.add_gallery(Gallery("Cases spread evenly over the run.", gallery_rows([judged], case_ids)))


def _difference_tile(metric: str, change: MetricDifference) -> Tile:
    estimate = change.estimate
    if estimate is None:
        return Tile(metric, NOTHING, "no pairs")
    low, high = estimate.ci_low, estimate.ci_high
    tone: Tone = "good" if low is not None and low > 0 else "bad" if high is not None and high < 0 else "neutral"
    sign = "+" if estimate.value > 0 else ""
    return Tile(metric, sign + number(estimate.value), f"{interval(estimate)}, {change.n_pairs} pairs", tone=tone)


def _difference_figure(metric: str, kind: str, changes: Mapping[str, Difference]) -> Figure:
    bars = [
        Bar(name, change.difference, change.ci_low, change.ci_high)
        for name, change in changes.items()
        if change.difference is not None
    ]
    return Figure(plot_bars(bars, title=metric, x_label="difference"), f"Change of {metric} by {kind}, 95 % intervals.")


def _difference_table(name: str, metrics: Mapping[str, MetricDifference]) -> Table:
    rows: list[list[TableCell]] = []
    for metric, result in metrics.items():
        for group, change in [("all", result), *named(result.groups)]:
            means: list[TableCell] = [change.before, change.after, change.estimate]
            rows.append([metric, group, *means, change.n_pairs, change.n_unpaired])
    columns = ["metric", "cases", "before", "after", "difference", "pairs", "unpaired"]
    return Table(f"Every metric of {name}, over all cases and by group", columns, rows, INTERVAL_NOTE)
