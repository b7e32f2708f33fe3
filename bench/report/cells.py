"""Cells of results as tiles, tables and drawings of a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from bench.report.blocks import Cell as TableCell
from bench.report.blocks import Figure, Measured, Table, Tile
from bench.report.formatting import NOTHING, interval, number
from bench.report.plots import Bar, plot_bars, plot_radar
from bench.results import Cell, Item, MetricResult
from bench.text import missing_texts, repeats_texts
from gnomon.records import Candidate, Verdict
from gnomon.statistics import Estimate
from rm.evaluation_text import served_texts

INTERVAL_NOTE = (
    "Intervals are 95 % percentile bootstrap intervals that resample whole cases (2000 resamples). Failed candidates "
    "are counted by kind and are not part of a value."
)
NO_FAILURES = ("ok", "not_applicable")
RADAR_GROUPS = range(3, 9)  # fewer make no area, more are not read
LONGEST_REASON = 200  # characters
Part = TypeVar("Part")
Verdicts = Mapping[tuple[str, str], Mapping[Item, Verdict]]


def metric_tile(metric: str, result: MetricResult) -> Tile:
    """Return a metric's value, the benchmark's own number where it has one, with interval, coverage and repeats."""
    coverage = f"{result.n_scored} of {result.n_total}"
    shown = result.headline.estimate
    if result.estimate is None or shown is None:
        return Tile(metric, NOTHING, f"{coverage} scored")
    label = f"{metric} (partial)" if result.is_partial else metric
    over_items = [f"{number(result.estimate.value)} over all items"] if result.final is not None else []
    detail = "; ".join([f"{interval(shown)}, n = {coverage}", *over_items, *repeats_texts(result)])
    return Tile(label, number(shown.value), detail)


def judge_lead(text: str, served_by: Mapping[str, int]) -> str:
    """Return the lead of a judge's section: `text`, and which model answered where a server says."""
    return " ".join(filter(None, [text, *(f"{served[0].upper()}{served[1:]}." for served in served_texts(served_by))]))


def measured(cell: Cell, *, notes: tuple[str, ...] = ()) -> Measured:
    """Return a cell for a table with its coverage: how many of all items are scored, and what became of the others."""
    lines = [f"{cell.n_scored} of {cell.n_total} scored"]
    if cell.n_failed:
        lines.append(f"{cell.n_failed} failed")
    if cell.n_na:
        lines.append(f"{cell.n_na} not applicable")
    if cell.n_pending:
        lines.append(f"{cell.n_pending} pending")
    return Measured(cell.estimate, (*lines, *notes))


def metric_table(name: str, metrics: Mapping[str, MetricResult]) -> Table:
    """Return every metric of one judge over all cases, by group, and as the mean of the groups' means."""
    rows: list[list[TableCell]] = []
    notes = [INTERVAL_NOTE]
    for metric, result in metrics.items():
        whole = "all (partial)" if result.is_partial else "all"
        rows += [[metric, name, estimate, *[None] * 6] for name, estimate in _final_rows(result)]
        parts = [
            (f"each {kind}: {name}", cell) for kind, found in result.slices.items() for name, cell in found.items()
        ]
        for group, cell in [(whole, result), *named(result.groups), *parts]:
            failed = ", ".join(f"{count} {status}" for status, count in cell.failed.items())
            counts = [cell.n_total, cell.n_scored, cell.n_failed]
            rows.append([metric, group, cell.estimate, *counts, failed or None, cell.n_na, cell.n_pending])
        several = [kind for kind, by_name in result.groups.items() if len(by_name) > 1 and result.final is None]
        rows += [[metric, f"mean of every {kind}'s mean", result.macro_estimate(kind), *[None] * 6] for kind in several]
        notes += [f"{metric}: {text}." for text in (*missing_texts(result), *repeats_texts(result))]
    if any(result.slices for result in metrics.values()):
        notes.append("Rows of each age, size and the like count single people or items, not candidates.")
    if any(result.final is not None for result in metrics.values()):
        notes.append("A final score has no interval where one of its groups has scores of fewer than two cases.")
    columns = ["metric", "cases", "mean", "n", "scored", "failed", "failures", "not applicable", "pending"]
    return Table(f"Every metric of {name}, over all cases and by group", columns, rows, "\n".join(notes))


def _final_rows(result: MetricResult) -> list[tuple[str, Estimate | None]]:
    """Return the benchmark's own number and what it is the mean of; nothing where it has none."""
    if result.final is None:
        return []
    outer, inner = result.final.kinds
    groups = result.final.groups.items()
    of_groups = [(f"{outer} {name}: mean of its {inner} means", one.estimate) for name, one in groups]
    return [(f"final: mean over every {outer}", result.final.estimate), *of_groups]


def named(groups: Mapping[str, Mapping[str, Part]]) -> list[tuple[str, Part]]:
    """Return the cells of all groups under names that tell the kind where there are several."""
    return [
        (name if len(groups) == 1 else f"{kind}: {name}", part)
        for kind, by_name in groups.items()
        for name, part in by_name.items()
    ]


def group_figures(metric: str, result: MetricResult) -> list[Figure]:
    """Return bars for every kind of group with two scored ones, and a radar where it can be read."""
    figures = []
    for kind, cells in result.groups.items():
        known = [(name, cell) for name, cell in cells.items() if cell.value is not None]
        bars = [Bar(name, cell.value, cell.ci_low, cell.ci_high) for name, cell in known if cell.value is not None]
        if len(bars) > 1:
            drawing = plot_bars(bars, title=metric, x_label="mean")
            figures.append(Figure(drawing, f"{metric} by {kind}, with 95 % intervals."))
        figures += radar_figures(metric, kind, {"": {bar.label: bar.value for bar in bars}})
    return figures


def radar_figures(metric: str, kind: str, series: Mapping[str, Mapping[str, float]]) -> list[Figure]:
    """Return a radar over the groups of a kind, or nothing where they are too few or many, or a value is negative.

    Args:
        metric: what is drawn.
        kind: of group.
        series: the values by group, for each run.
    """
    spokes = list(dict.fromkeys(name for values in series.values() for name in values))
    if len(spokes) not in RADAR_GROUPS or any(value < 0 for values in series.values() for value in values.values()):
        return []
    lines = {label: [values.get(spoke) for spoke in spokes] for label, values in series.items()}
    return [Figure(plot_radar(spokes, lines, title=metric), f"{metric} by {kind}, from zero at the centre.")]


def failure_rows(
    candidates: list[Candidate], judges: Mapping[str, Mapping[str, list[Verdict]]]
) -> Iterator[list[TableCell]]:
    """Yield a row for every kind of failure of candidates, and of each judge's metrics: how often, and one example.

    Args:
        candidates: of the run.
        judges: the verdicts of each judge by metric.
    """
    failed = [
        (made.status, made.case_id, made.sampling.get("reason"))
        for made in candidates
        if made.status not in NO_FAILURES
    ]
    yield from _by_status("candidates", failed)
    for name, verdicts in judges.items():
        for metric, given in verdicts.items():
            of_metric = [
                (verdict.status, verdict.case_id, verdict.rationale)
                for verdict in given
                if verdict.status not in NO_FAILURES
            ]
            yield from _by_status(f"{name}, {metric}", of_metric)


def _by_status(where: str, failed: Sequence[tuple[str, str, str | None]]) -> Iterator[list[TableCell]]:
    for status in sorted({status for status, _, _ in failed}):
        of_status = sorted((case_id, reason or "") for other, case_id, reason in failed if other == status)
        case_id, reason = of_status[0]
        shown = reason if len(reason) <= LONGEST_REASON else reason[: LONGEST_REASON - 1] + "…"
        yield [where, status, len(of_status), case_id, shown or None]
