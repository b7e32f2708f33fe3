"""A benchmark's axes side by side: each over the number of people, every method a curve, and one table of all of them.

No axis says enough alone, and there is no number over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.benchmarks import Benchmark
from bench.report.blocks import Cell as TableCell
from bench.report.blocks import Figure, Gallery, Table
from bench.report.cells import INTERVAL_NOTE, measured
from bench.report.document import Report
from bench.report.examples import JudgedRun, evenly_spread, gallery_rows
from bench.report.plots import MAX_SERIES, Series, plot_curves
from bench.results import Cell, JudgeResult, MetricResult, Results

ALL, TASK = "all", "task"


def add_axes(report: Report, runs: Sequence[tuple[JudgedRun, Results]], benchmark: Benchmark | None) -> None:
    """Add a section with the axes of a benchmark that has some; judges that do not look are left out.

    Args:
        report: the page.
        runs: with their results as they are shown.
        benchmark: of all cases; None where they are of several.
    """
    if benchmark is None or not benchmark.axes:
        return
    shown = [
        AxisRun(judged.label, {one.name: results.judges[one.name] for one in judged.judges if one.looks})
        for judged, results in runs
    ]
    if (table := axis_table(shown, benchmark)) is None:
        return
    report.add_section(f"Axes by {_words(benchmark.axis_groups)}", "Read them together: no number stands for all.")
    report.add_figures(axis_figures(shown, benchmark))
    report.add_table(table)
    for more in (question_table(shown, benchmark), question_group_table(shown)):
        if more is not None:
            report.add_table(more)


def add_prompts(report: Report, runs: Sequence[JudgedRun], benchmark: Benchmark | None, num_examples: int) -> None:
    """Add cases spread evenly over the runs with all that was found in their pictures, for a benchmark with axes."""
    if benchmark is None or not benchmark.axes or not num_examples:
        return
    names = {judge.name for run in runs for judge in run.judges}
    case_ids = evenly_spread(list(dict.fromkeys(case_id for run in runs for case_id in run.run.cases)), num_examples)
    report.add_section("Prompts", "What each judge found where; every picture is judged on every axis apart.")
    rows = gallery_rows(runs, case_ids, found_by=names)
    report.add_gallery(Gallery("Cases spread evenly over those of the page.", rows))


@dataclass(frozen=True)
class AxisRun:
    """A run on such a page.

    Attributes:
        label: of the run.
        judges: what each judge that looks says of it, as it is shown.
    """

    label: str
    judges: Mapping[str, JudgeResult]


def axis_figures(runs: Sequence[AxisRun], benchmark: Benchmark) -> list[Figure]:
    """Return a drawing for each axis that has values at two numbers at least; a curve for each run and judge.

    Args:
        runs: of which the first are drawn where they are too many to be told apart.
        benchmark: says which the axes are, and over what they are drawn.
    """
    figures = []
    for axis in benchmark.axes:
        series = [
            one for label, result in _curves(runs, axis) if (one := _series(label, result, benchmark)) is not None
        ]
        places = {place for one in series for place in one.x}
        if len(places) > 1:
            kind = _words(benchmark.axis_groups)
            drawing = plot_curves(series[:MAX_SERIES], title=axis, x_label=kind, y_label=axis, from_zero=True)
            which = f" The first {MAX_SERIES} of {len(series)} curves." if len(series) > MAX_SERIES else ""
            figures.append(Figure(drawing, f"{axis} by {kind}, bands of 95 %.{which}"))
    return figures


def _curves(runs: Sequence[AxisRun], axis: str) -> list[tuple[str, MetricResult]]:
    """Return what there is of an axis, under names that tell judges apart where there are several."""
    names = {name for run in runs for name, result in run.judges.items() if axis in result.metrics}
    return [
        (run.label if len(names) < 2 else f"{run.label}, {name}", result.metrics[axis])
        for run in runs
        for name, result in run.judges.items()
        if axis in result.metrics
    ]


def _series(label: str, result: MetricResult, benchmark: Benchmark) -> Series | None:
    cells = result.groups.get(benchmark.axis_groups, {})
    known = sorted((int(name), cell) for name, cell in cells.items() if name.isdecimal() and cell.value is not None)
    if not known:
        return None
    values = [cell for _, cell in known]
    return Series(
        label,
        [place for place, _ in known],
        [cell.value for cell in values],
        [cell.ci_low for cell in values],
        [cell.ci_high for cell in values],
    )


def axis_table(runs: Sequence[AxisRun], benchmark: Benchmark) -> Table | None:
    """Return a row for each run and number, and a column for each axis and judge; None without any value."""
    columns = [
        (axis, name)
        for axis in benchmark.axes
        for name in dict.fromkeys(name for run in runs for name, result in run.judges.items() if axis in result.metrics)
    ]
    if not columns:
        return None
    kind = benchmark.axis_groups
    rows: list[list[TableCell]] = []
    tasks = _groups(runs, columns, TASK)
    wholes = [(TASK, task, f"{ALL} of {task}") for task in tasks] if len(tasks) > 1 else [(kind, ALL, ALL)]
    for of, group, name_of_row in [*((kind, name, name) for name in _groups(runs, columns, kind)), *wholes]:
        for run in runs:
            cells = [_cell(run, axis, name, of, group) for axis, name in columns]
            if any(cell is not None for cell in cells):
                shown = [None if cell is None else measured(cell) for cell in cells]
                rows.append([run.label, name_of_row, *shown])
    judges = [f"{axis} is by {name}" for axis, name in columns]
    several = {axis for axis, _ in columns if sum(axis == other for other, _ in columns) > 1}
    titles = [f"{axis} ({name})" if axis in several else axis for axis, name in columns]
    note = (
        f"{INTERVAL_NOTE} A dash is what does not apply or was not measured; it is no zero. There is no number over "
        f"all axes: each may look good while another fails. {'; '.join(judges)}."
    )
    return Table(f"Axes by {_words(kind)}", ["run", _words(kind), *titles], rows, note)


def _groups(runs: Sequence[AxisRun], columns: Sequence[tuple[str, str]], kind: str) -> list[str]:
    names = {
        group
        for run in runs
        for axis, name in columns
        if name in run.judges and axis in run.judges[name].metrics
        for group in run.judges[name].metrics[axis].groups.get(kind, {})
    }
    return sorted(names, key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name))


def _cell(run: AxisRun, axis: str, judge: str, kind: str, group: str) -> Cell | None:
    result = run.judges[judge].metrics.get(axis) if judge in run.judges else None
    if result is None:
        return None
    return result if group == ALL else result.groups.get(kind, {}).get(group)


def question_table(runs: Sequence[AxisRun], benchmark: Benchmark) -> Table | None:
    """Return the share of right answers with every question the same, and with every prompt the same; None without any.

    The two differ where prompts have different numbers of questions. What expects no is in neither where the benchmark
    tells such probes apart.
    """
    rows = [
        [run.label, name, *row]
        for run in runs
        for name, result in run.judges.items()
        for row in _question_rows(result, benchmark)
    ]
    if not rows:
        return None
    note = "Counts below the first are of pictures, below the second of questions; both intervals resample prompts."
    columns = ["run", "judge", _words(benchmark.axis_groups), "mean of prompts", "mean of questions"]
    return Table("Questions: every prompt the same, and every question the same", columns, rows, note)


def _question_rows(result: JudgeResult, benchmark: Benchmark) -> list[list[TableCell]]:
    """Return the two means over everything, or over each task where there are several, and at each number."""
    axis = next((axis for axis in benchmark.axes if axis in result.metrics), None)
    if result.questions is None or axis is None:
        return []
    right, prompts = result.questions.right, result.metrics[axis]
    tasks, kind = right.groups.get(TASK, {}), benchmark.axis_groups
    micro = right.groups.get("probe", {}).get("positive", right)
    shown: list[tuple[str, Cell | None, Cell]] = [] if len(tasks) > 1 else [(ALL, prompts, micro)]
    for task, cell in tasks.items() if len(tasks) > 1 else ():
        shown.append((f"{ALL} of {task}", prompts.groups.get(TASK, {}).get(task), cell))
    for group, cell in right.groups.get(kind, {}).items():
        shown.append((group, prompts.groups.get(kind, {}).get(group), cell))
    return [[name, None if one is None else measured(one), measured(other)] for name, one, other in shown]


def question_group_table(runs: Sequence[AxisRun]) -> Table | None:
    """Return the share of right answers to the questions of each group; None where there is none."""
    rows: list[list[TableCell]] = [
        [run.label, name, f"{_words(kind)}: {group}", measured(cell)]
        for run in runs
        for name, result in run.judges.items()
        if result.questions is not None
        for kind, by_name in result.questions.right.groups.items()
        for group, cell in by_name.items()
    ]
    if not rows:
        return None
    note = "A question about two people counts for the group of each."
    return Table("Questions by what they are about", ["run", "judge", "questions", "share right"], rows, note)


def _words(name: str) -> str:
    return name.replace("num_", "number of ").replace("_", " ")
