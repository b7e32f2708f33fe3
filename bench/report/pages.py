"""The page of one run, and the page that compares two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from bench.folder import REPORT, BenchRun
from bench.report.blocks import Cell as TableCell
from bench.report.blocks import Figure, Gallery, GalleryRow, Picture, PictureGroup, Table, Tile, Tone
from bench.report.document import Report
from bench.report.formatting import NOTHING, interval, number
from bench.report.plots import Bar, plot_bars
from bench.results import Cell, Difference, Item, MetricDifference, MetricResult, Results, RunComparison
from bench.workflow import summarize
from gnomon.datasets import resolve
from gnomon.records import Candidate, Case, Verdict

INTERVAL_NOTE = (
    "Intervals are 95 % percentile bootstrap intervals that resample whole cases (2000 resamples). Failed candidates "
    "are counted by kind and are not part of a value."
)
Part = TypeVar("Part")
Verdicts = Mapping[tuple[str, str], Mapping[Item, Verdict]]


def write_run_page(run: str | Path, *, num_examples: int = 12) -> Path:
    """Summarize a run afresh, write its `report.html` and return the path.

    Args:
        run: run folder.
        num_examples: cases whose pictures are shown, spread evenly over the run.
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
    """Return the page of one run: key figures, a table and a drawing for each judge, pictures with their scores."""
    benchmarks = ", ".join(results.benchmarks)
    each = "one candidate" if results.repeats == 1 else f"{results.repeats} candidates"
    lead = f"{results.num_cases} cases of {benchmarks}, {each} each, from seed {results.seed}."
    report = Report(f"{results.generator} on {benchmarks}", lead=lead).add_section("Candidates")
    report.add_tiles(
        [
            Tile(status, str(count), tone="neutral" if status in ("ok", "pending") else "bad")
            for status, count in results.candidates.items()
        ]
    )
    for name, judge in results.judges.items():
        report.add_section(f"Scores by {name}", f"Judge fingerprint {judge.fingerprint}.")
        report.add_tiles([_metric_tile(metric, cell) for metric, cell in judge.metrics.items()])
        report.add_figures(
            [
                _group_figure(metric, kind, cells)
                for metric, result in judge.metrics.items()
                for kind, cells in result.groups.items()
                if sum(cell.value is not None for cell in cells.values()) > 1
            ]
        )
        report.add_table(_metric_table(name, judge.metrics))
    if num_examples and run.items:
        report.add_section("Pictures", "Each candidate with its scores, or why it has none.")
        report.add_gallery(Gallery("Cases spread evenly over the run.", _example_rows([run], num_examples)))
    return report


def comparison_page(before: BenchRun, after: BenchRun, comparison: RunComparison, *, num_examples: int = 12) -> Report:
    """Return the page that compares two runs: differences by metric and task, pictures side by side."""
    lead = f"{comparison.after} minus {comparison.before}, paired by case: above zero, {comparison.after} is better."
    report = Report(f"{comparison.after} against {comparison.before}", lead=lead)
    for name, metrics in comparison.judges.items():
        report.add_section(f"Differences by {name}")
        report.add_tiles([_difference_tile(metric, change) for metric, change in metrics.items()])
        report.add_figures(
            [
                _difference_figure(metric, kind, changes)
                for metric, change in metrics.items()
                for kind, changes in change.groups.items()
                if len(changes) > 1
            ]
        )
        report.add_table(_difference_table(name, metrics))
    if num_examples:
        report.add_section("Pictures", "The same cases by both, with their scores.")
        report.add_gallery(
            Gallery("Cases spread evenly over the first run.", _example_rows([before, after], num_examples))
        )
    return report


def _metric_tile(metric: str, cell: Cell) -> Tile:
    if cell.estimate is None:
        return Tile(metric, NOTHING, f"0 of {cell.n_total} scored")
    return Tile(
        metric, number(cell.estimate.value), f"{interval(cell.estimate)}, n = {cell.n_scored} of {cell.n_total}"
    )


def _difference_tile(metric: str, change: MetricDifference) -> Tile:
    estimate = change.estimate
    if estimate is None:
        return Tile(metric, NOTHING, "no pairs")
    low, high = estimate.ci_low, estimate.ci_high
    tone: Tone = "good" if low is not None and low > 0 else "bad" if high is not None and high < 0 else "neutral"
    sign = "+" if estimate.value > 0 else ""
    return Tile(metric, sign + number(estimate.value), f"{interval(estimate)}, {change.n_pairs} pairs", tone=tone)


def _group_figure(metric: str, kind: str, cells: Mapping[str, Cell]) -> Figure:
    bars = [Bar(name, cell.value, cell.ci_low, cell.ci_high) for name, cell in cells.items() if cell.value is not None]
    return Figure(plot_bars(bars, title=metric, x_label="mean"), f"{metric} by {kind}, with 95 % intervals.")


def _difference_figure(metric: str, kind: str, changes: Mapping[str, Difference]) -> Figure:
    bars = [
        Bar(name, change.difference, change.ci_low, change.ci_high)
        for name, change in changes.items()
        if change.difference is not None
    ]
    return Figure(plot_bars(bars, title=metric, x_label="difference"), f"Change of {metric} by {kind}, 95 % intervals.")


def _metric_table(name: str, metrics: Mapping[str, MetricResult]) -> Table:
    rows: list[list[TableCell]] = []
    for metric, result in metrics.items():
        whole = "all (partial)" if result.is_partial else "all"
        for group, cell in [(whole, result), *_named(result.groups)]:
            failed = ", ".join(f"{count} {status}" for status, count in cell.failed.items())
            counts = [cell.n_total, cell.n_scored, cell.n_failed]
            rows.append([metric, group, cell.estimate, *counts, failed or None, cell.n_na, cell.n_pending])
    columns = ["metric", "cases", "mean", "n", "scored", "failed", "failures", "not applicable", "pending"]
    return Table(f"Every metric of {name}, over all cases and by group", columns, rows, INTERVAL_NOTE)


def _difference_table(name: str, metrics: Mapping[str, MetricDifference]) -> Table:
    rows: list[list[TableCell]] = []
    for metric, result in metrics.items():
        for group, change in [("all", result), *_named(result.groups)]:
            means: list[TableCell] = [change.before, change.after, change.estimate]
            rows.append([metric, group, *means, change.n_pairs, change.n_unpaired])
    columns = ["metric", "cases", "before", "after", "difference", "pairs", "unpaired"]
    return Table(f"Every metric of {name}, over all cases and by group", columns, rows, INTERVAL_NOTE)


def _named(groups: Mapping[str, Mapping[str, Part]]) -> list[tuple[str, Part]]:
    """Return the cells of all groups under names that tell the kind where there are several."""
    return [
        (name if len(groups) == 1 else f"{kind}: {name}", part)
        for kind, by_name in groups.items()
        for name, part in by_name.items()
    ]


def _example_rows(runs: Sequence[BenchRun], num_examples: int) -> list[GalleryRow]:
    """Return rows for cases spread evenly over the first run: references, then the candidates of every run."""
    case_ids = list(runs[0].cases)
    step = max(1, len(case_ids) / num_examples)
    chosen = [case_ids[int(position * step)] for position in range(min(num_examples, len(case_ids)))]
    verdicts = [run.verdicts() for run in runs]
    candidates = [_by_case(run.candidates()) for run in runs]
    rows = []
    for case_id in chosen:
        case = runs[0].cases[case_id]
        groups = [_references(runs[0], case)] if case.references else []
        for run, known, made in zip(runs, verdicts, candidates, strict=True):
            pictures = [_picture(run, candidate, known) for candidate in made.get(case_id, [])]
            groups.append(PictureGroup(run.config.generator, pictures))
        rows.append(GalleryRow(_instruction(case), groups, note=f"{case.task}, case {case.id}"))
    return rows


def _by_case(candidates: Sequence[Candidate]) -> dict[str, list[Candidate]]:
    found: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        found.setdefault(candidate.case_id, []).append(candidate)
    return found


def _instruction(case: Case) -> str:
    return " / ".join(text for text in (case.instruction.en, case.instruction.zh) if text)


def _references(run: BenchRun, case: Case) -> PictureGroup:
    pictures = [
        Picture(resolve(run.root, reference.path), reference.name or reference.role) for reference in case.references
    ]
    return PictureGroup("given", pictures)


def _picture(run: BenchRun, candidate: Candidate, verdicts: Verdicts) -> Picture:
    """Return a candidate with the scores of every judge, or the status where there is none."""
    scores: dict[str, float | str | None] = {}
    for judge in run.judges():
        for metric in judge.metrics:
            verdict = verdicts.get((judge.fingerprint, metric), {}).get((candidate.case_id, candidate.seed))
            if verdict is not None:
                scores[f"{judge.name} {metric}"] = verdict.status if verdict.value is None else verdict.value
    image = None if candidate.path is None else resolve(run.path, candidate.path)
    return Picture(image, f"seed {candidate.seed}", scores)
