"""The page over any number of runs on one dataset: leaderboard, groups side by side, failures, best and worst cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.benchmarks import Benchmark
from bench.comparable import refuse_unlike
from bench.folder import REPORT, BenchRun, JudgeFile
from bench.report.axes import add_axes, add_prompts
from bench.report.blocks import Cell as TableCell
from bench.report.blocks import Figure, Gallery, Table
from bench.report.cells import INTERVAL_NOTE, failure_rows, judge_lead, measured, radar_figures
from bench.report.controls import control_table
from bench.report.diagnosis import dimension_heat_map, dimension_radar
from bench.report.display import Display, scoring_notes
from bench.report.document import Report
from bench.report.examples import JudgedRun, best_and_worst, gallery_rows, labels
from bench.report.failed_questions import failed_question_tables
from bench.report.formatting import number
from bench.report.languages import GAP, caption_of, gap_tables, language_pairs, languages_of
from bench.report.orders import order_tables
from bench.report.plots import MAX_SERIES, Bar, plot_grouped_bars
from bench.report.subjects import add_subjects
from bench.results import Cell, JudgeResult, MetricResult, Results, mean_by_case
from bench.scores import headline_metric
from bench.workflow import summarize
from gnomon.errors import UserError
from gnomon.runs import RunFolder

MAX_OPEN_GROUPS = 12  # drawings of more are tall, and folded


@dataclass(frozen=True)
class _Row:
    """One run by one judge."""

    judged: JudgedRun
    judge: JudgeFile
    results: Mapping[str, JudgeResult]
    num_missing_cases: int

    @property
    def result(self) -> JudgeResult:
        return self.results[self.judge.name]

    def cell(self, metric: str) -> MetricResult | None:
        return self.result.metrics.get(metric)

    def groups(self, metric: str, kind: str) -> Mapping[str, Cell]:
        cell = self.cell(metric)
        return cell.groups.get(kind, {}) if cell is not None else {}


def write_leaderboard_page(
    runs: Sequence[str | Path], out: str | Path, *, metrics: Sequence[str] | None = None, num_examples: int = 12
) -> Path:
    """Summarize the runs afresh, write `out`/report.html about all of them and return the path.

    Args:
        runs: run folders, on one dataset.
        out: a folder of its own, or that of an earlier page on this dataset.
        metrics: those that are shown, the first of which orders runs and cases; None for all.
        num_examples: cases whose pictures are shown for each judge.

    Raises:
        UserError: for runs of different datasets, judges of one name and different fingerprints, a run that is named
            twice or was not judged, an unknown metric, and where `out` holds something else.
    """
    known = [BenchRun.read(run) for run in runs]
    refuse_unlike(known)
    results = [summarize(run.path) for run in known]
    page = leaderboard_page(known, results, metrics=metrics, num_examples=num_examples)
    # The dataset alone identifies the page, so that a run can be added to it.
    with RunFolder.open(out, command="bench report", config={}, seed=0, inputs={"dataset": known[0].dataset}):
        return page.write(Path(out) / REPORT)


def leaderboard_page(
    runs: Sequence[BenchRun],
    results: Sequence[Results],
    *,
    metrics: Sequence[str] | None = None,
    num_examples: int = 12,
) -> Report:
    """Return the page over several runs; `results` are theirs, in their order."""
    display = Display(case for run in runs for case in run.cases.values())
    results = [display.results(result) for result in results]
    judged = [display.run(JudgedRun.read(run, label)) for run, label in zip(runs, labels(runs), strict=True)]
    benchmarks = ", ".join(sorted({name for result in results for name in result.benchmarks}))
    lead = [f"The same dataset, {results[0].dataset[:12]}, by each.", display.note]
    lead += scoring_notes(results[0].scoring)
    report = Report(f"{len(runs)} runs on {benchmarks}", lead=" ".join(filter(None, lead)))
    all_cases = {case_id for run in runs for case_id in run.cases}
    names = dict.fromkeys(judge.name for one in judged for judge in one.judges)
    known = {metric for result in results for judge in result.judges.values() for metric in judge.metrics}
    _refuse_unknown(metrics or (), known)
    add_axes(report, list(zip(judged, results, strict=True)), display.benchmark)
    add_subjects(report, [(one.label, result) for one, result in zip(judged, results, strict=True)])
    for name in names:
        rows = [
            _Row(
                one,
                judge,
                result.judges,
                max(len(all_cases), result.num_cases_of_dataset or 0) - result.num_cases,
            )
            for one, result in zip(judged, results, strict=True)
            for judge in one.judges
            if judge.name == name
        ]
        _add_judge(report, name, rows, metrics, num_examples, display)
    _add_orders(report, judged, list(names), metrics)
    _add_failures(report, judged)
    add_prompts(report, judged[:MAX_SERIES], display.benchmark, num_examples)
    return report


def _refuse_unknown(metrics: Iterable[str], known: set[str]) -> None:
    for metric in metrics:
        if metric not in known:
            raise UserError(f"expected --metrics out of {', '.join(sorted(known))}, got {metric!r}")


def _add_judge(
    report: Report,
    name: str,
    rows: Sequence[_Row],
    metrics: Sequence[str] | None,
    num_examples: int,
    display: Display,
) -> None:
    """Add what one judge says about all runs that it judged."""
    found = list(dict.fromkeys(metric for row in rows for metric in row.result.metrics))
    shown = found if metrics is None else [metric for metric in metrics if metric in found]
    headline = _headline(rows[0].judge, found, metrics)
    if headline is None:
        return
    shown = [headline, *(metric for metric in shown if metric != headline)]
    ordered = sorted(rows, key=lambda row: _rank(row, headline))
    served = sum((Counter(row.result.served_by) for row in rows), Counter[str]())
    lead = judge_lead(
        f"Judge fingerprint {rows[0].judge.fingerprint}. Runs by {headline}; whole ones before partial ones.", served
    )
    report.add_section(f"Leaderboard by {name}", lead)
    cells = [cell for row in ordered if (cell := row.cell(headline)) is not None]
    kinds = list(dict.fromkeys(kind for cell in cells for kind in cell.groups))
    languages = languages_of([row.judged for row in ordered])
    for language in languages:
        of_language = [row for row in ordered if row.judged.run.config.language == language]
        which = caption_of(language, languages)
        report.add_table(_overall_table(name, of_language, shown, which))
        if (table := _final_table(headline, of_language, which)) is not None:
            report.add_table(table)
        for kind in kinds:
            report.add_table(_group_table(headline, kind, of_language, which))
    if display.benchmark is not None:
        _add_diagnosis(report, ordered, display.benchmark)
    tall = [kind for kind in kinds if max(len(row.groups(headline, kind)) for row in ordered) > MAX_OPEN_GROUPS]
    report.add_figures([one for kind in kinds if kind not in tall for one in _group_figures(headline, kind, ordered)])
    for kind in tall:
        report.add_figures(_group_figures(headline, kind, ordered), fold=f"Drawing of {headline} by {kind}")
    if rows[0].judge.asks_questions:
        _add_questions(report, name, ordered, display)
    _add_gap(report, name, ordered, shown)
    if num_examples and rows[0].judge.looks:  # a control's best and worst cases show nothing
        _add_examples(report, name, ordered, headline, num_examples)


def _add_diagnosis(report: Report, rows: Sequence[_Row], benchmark: Benchmark) -> None:
    """Add a radar of each run over the benchmark's dimensions, and its heat map; those of many runs are folded."""
    labelled = [(row.judged.label, row.result.metrics) for row in rows]
    radars = [one for label, metrics in labelled for one in dimension_radar(label, metrics, benchmark)]
    heat_maps = [one for label, metrics in labelled for one in dimension_heat_map(label, metrics, benchmark)]
    many = len(rows) > MAX_SERIES
    report.add_figures(radars, fold="Radar of each run by dimension" if many else "")
    report.add_figures(heat_maps, fold="Heat map of each run" if many else "")


def _add_questions(report: Report, name: str, rows: Sequence[_Row], display: Display) -> None:
    """Add what judges reach that do not look, and which questions are failed most often."""
    runs = [row.judged for row in rows]
    beside = control_table(name, runs, [row.results for row in rows], display)
    for table in [*([] if beside is None else [beside]), *failed_question_tables(runs, rows[0].judge, display.times)]:
        report.add_table(table)


def _headline(judge: JudgeFile, found: Sequence[str], metrics: Sequence[str] | None) -> str | None:
    """Return the metric that a judge's runs are ordered by: the first chosen one that there are numbers of."""
    if metrics is None:
        return headline_metric(judge, found)
    return next((metric for metric in metrics if metric in found), None)


def _add_orders(
    report: Report, judged: Sequence[JudgedRun], names: Sequence[str], metrics: Sequence[str] | None
) -> None:
    """Add how the judges of all runs order them, each by its headline."""
    headlines = {}
    for name in names:
        by_run = [judge for one in judged for judge in one.judges if judge.name == name]
        found = list(dict.fromkeys(metric for one in judged for metric in one.scores.get(name, {})))
        headline = _headline(by_run[0], found, metrics)
        if len(by_run) == len(judged) and headline is not None:
            headlines[name] = headline
    tables = order_tables(judged, headlines)
    if tables:
        report.add_section("Do the judges agree?", "Judges that judged every run.")
        for table in tables:
            report.add_table(table)


def _add_gap(report: Report, name: str, rows: Sequence[_Row], metrics: Sequence[str]) -> None:
    """Add how much better or worse each generator is by the Chinese instructions, where there are runs of both."""
    pairs, several = language_pairs([row.judged for row in rows])
    if not pairs and not several:
        return
    lead = f"Without a gap, since there are several runs in one language: {', '.join(several)}." if several else ""
    report.add_section(f"{GAP} by {name}", lead)
    for table in gap_tables(name, pairs, metrics) if pairs else ():
        report.add_table(table)


def _is_partial(row: _Row, metric: str) -> bool:
    cell = row.cell(metric)
    return cell is None or cell.is_partial or cell.n_pending > 0 or row.num_missing_cases > 0


def _rank(row: _Row, metric: str) -> tuple[bool, bool, float, str]:
    """Order runs: with a value before those without, whole before partial, better before worse, then by name."""
    cell = row.cell(metric)
    value = None if cell is None else cell.headline.value
    if cell is None or value is None:
        return True, True, 0.0, row.judged.label
    better = -value if cell.higher_is_better else value
    return False, _is_partial(row, metric), better, row.judged.label


def _overall_table(name: str, rows: Sequence[_Row], metrics: Sequence[str], which: str) -> Table:
    shown: list[list[TableCell]] = []
    for row in rows:
        cells: list[TableCell] = []
        for metric in metrics:
            cell = row.cell(metric)
            notes = () if cell is None else (*_repeats_notes(cell), *_partial_notes(row, metric))
            cells.append(None if cell is None else measured(cell.headline, notes=notes))
        shown.append([row.judged.label, *cells])
    note = (
        f"{INTERVAL_NOTE} Intervals of two runs say little about their difference: `gnomon bench compare` pairs them "
        "by case. A partial mean lacks a group, cases or verdicts that others have, and is not to be compared with "
        "whole ones. A dash is what was not measured; ± is the sample standard deviation of the means of the seeds."
    )
    finals = {cell.final.kinds for row in rows for metric in metrics if (cell := row.cell(metric)) and cell.final}
    means = [f"the mean over every {outer} of its {inner} means" for outer, inner in sorted(finals)]
    caption = f"Final scores: {means[0]}" if means else "Means over all cases"
    return Table(f"{caption}, judged by {name}{which}", ["run", *metrics], shown, note)


def _final_table(metric: str, rows: Sequence[_Row], which: str) -> Table | None:
    """Return the groups that the benchmark's own number is the mean of; None where it has none."""
    finals = [None if (cell := row.cell(metric)) is None else cell.final for row in rows]
    names = sorted({name for final in finals if final is not None for name in final.groups})
    if not names:
        return None
    outer, inner = next(final.kinds for final in finals if final is not None)
    shown: list[list[TableCell]] = []
    for row, final in zip(rows, finals, strict=True):
        groups = {} if final is None else final.groups
        cells = [measured(groups[name]) if name in groups else None for name in names]
        shown.append([row.judged.label, *cells, None if final is None else final.estimate])
    note = "A dash is what was not measured; it is no zero."
    return Table(f"{metric} by {outer}, the mean of its {inner} means{which}", ["run", *names, "final"], shown, note)


def _repeats_notes(cell: MetricResult) -> list[str]:
    return [] if cell.std is None else [f"± {number(cell.std)} over {len(cell.seeds)} seeds"]


def _partial_notes(row: _Row, metric: str) -> list[str]:
    if not _is_partial(row, metric):
        return []
    missing = f", {row.num_missing_cases} cases not in this run" if row.num_missing_cases else ""
    return [f"partial{missing}"]


def _group_table(metric: str, kind: str, rows: Sequence[_Row], which: str) -> Table:
    """Return one metric with a column for each group that any run has or lacks, and the mean of the groups."""
    names: set[str] = set()
    for row in rows:
        if (cell := row.cell(metric)) is not None:
            names |= {*cell.groups.get(kind, ()), *cell.missing.get(kind, ())}
    shown: list[list[TableCell]] = []
    for row in rows:
        cell, groups = row.cell(metric), row.groups(metric, kind)
        known = [groups.get(name) for name in sorted(names)]
        cells = [None if group is None else measured(group) for group in known]
        shown.append([row.judged.label, *cells, None if cell is None else cell.macro_estimate(kind)])
    columns = ["run", *sorted(names), f"mean of every {kind}'s mean"]
    return Table(f"{metric} by {kind}{which}", columns, shown, "A dash is what was not measured; it is no zero.")


def _group_figures(metric: str, kind: str, rows: Sequence[_Row]) -> list[Figure]:
    """Return bars and a radar of the first runs, side by side."""
    series: dict[str, list[Bar]] = {}
    for row in rows[:MAX_SERIES]:
        cells = row.groups(metric, kind).items()
        bars = [Bar(name, one.value, one.ci_low, one.ci_high) for name, one in cells if one.value is not None]
        if bars:
            series[row.judged.label] = bars
    groups = sorted({bar.label for bars in series.values() for bar in bars})
    if len(groups) < 2:
        return []
    which = f" The first {MAX_SERIES} runs." if len(rows) > MAX_SERIES else ""
    drawing = plot_grouped_bars(groups, series, title=metric, x_label="mean")
    values = {
        label: {bar.label: bar.value for bar in sorted(bars, key=lambda bar: bar.label)}
        for label, bars in series.items()
    }
    return [
        Figure(drawing, f"{metric} by {kind}, with 95 % intervals.{which}"),
        *radar_figures(metric, kind, values),
    ]


def _add_failures(report: Report, judged: Sequence[JudgedRun]) -> None:
    rows: list[list[TableCell]] = []
    for one in judged:
        candidates = [candidate for made in one.candidates.values() for candidate in made]
        by_judge = {judge.name: one.verdicts_of(judge) for judge in one.judges}
        rows += [[one.label, *row] for row in failure_rows(candidates, by_judge)]
    if rows:
        report.add_section("Failures", "Every kind with one example.")
        report.add_table(Table("Failures by kind", ["run", "where", "kind", "count", "for example", "reason"], rows))


def _add_examples(report: Report, name: str, rows: Sequence[_Row], metric: str, num_examples: int) -> None:
    """Add the cases with the best and worst mean over the runs, of those cases that every run has a score of."""
    by_run = [mean_by_case(row.judged.scores[name].get(metric, {})) for row in rows]
    shared = set.intersection(*(set(means) for means in by_run))
    means = {case_id: sum(means[case_id] for means in by_run) / len(by_run) for case_id in shared}
    if not means:
        return
    report.add_section(
        f"Best and worst by {name}",
        f"By the runs' mean {metric}, of the {len(means)} cases that every run has a score of.",
    )
    best, worst = best_and_worst(means, num_examples)
    shown = [row.judged for row in rows[:MAX_SERIES]]
    report.add_gallery(Gallery("The best, the best first.", gallery_rows(shown, best, found_by=[name])))
    if worst:
        report.add_gallery(Gallery("The worst, the worst first.", gallery_rows(shown, worst, found_by=[name])))
