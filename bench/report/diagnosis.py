"""What ability fails: a radar over a benchmark's dimensions, and a heat map of its outer groups by dimension."""

from __future__ import annotations

from collections.abc import Mapping

from bench.benchmarks import Benchmark
from bench.report.blocks import Figure
from bench.report.heat_map import plot_heat_map
from bench.report.plots import plot_radar
from bench.results import Cell, MetricResult
from bench.scores import OVERALL

Metrics = Mapping[str, MetricResult]


def dimension_radar(label: str, metrics: Metrics, benchmark: Benchmark) -> list[Figure]:
    """Return one model's radar over the dimensions; nothing where fewer than three have a value.

    Args:
        label: of the model.
        metrics: of one judge, as they are shown.
        benchmark: says which metrics are dimensions.
    """
    values = {name: metrics[name].headline.value for name in benchmark.dimensions if name in metrics}
    if sum(value is not None for value in values.values()) < 3:
        return []
    drawing = plot_radar(list(values), {label: list(values.values())}, title=label, highest=benchmark.shown_times)
    partial = " Partial: groups are missing." if any(metrics[name].is_partial for name in values) else ""
    return [Figure(drawing, f"{label} by dimension, from zero at the centre to {benchmark.shown_times}.{partial}")]


def dimension_heat_map(label: str, metrics: Metrics, benchmark: Benchmark) -> list[Figure]:
    """Return one model's heat map: the groups that the benchmark's own number is made of, by dimension and overall.

    Args:
        label: of the model.
        metrics: of one judge, as they are shown.
        benchmark: says which metrics are dimensions; one without a number of its own has no heat map.
    """
    columns = [name for name in (*benchmark.dimensions, OVERALL) if name in metrics and metrics[name].final is not None]
    cells = {name: _groups(metrics[name]) for name in columns}
    rows = sorted({group for found in cells.values() for group in found})
    if benchmark.final is None or len(columns) < 2 or not rows:
        return []
    values = [[cells[name][row].value if row in cells[name] else None for name in columns] for row in rows]
    drawing = plot_heat_map(rows, columns, values, title=label, highest=benchmark.shown_times)
    outer, inner = benchmark.final
    caption = (
        f"{label}: every {outer} by dimension, each the mean of its {inner} means. A dash is what was not measured."
    )
    return [Figure(drawing, caption)]


def _groups(result: MetricResult) -> Mapping[str, Cell]:
    return {} if result.final is None else result.final.groups
