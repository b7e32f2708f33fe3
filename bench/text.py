"""Results as plain text for a terminal or a log."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from bench.benchmarks import Benchmark, known_benchmarks
from bench.report.formatting import NOTHING, interval, number
from bench.results import Cell, Difference, MetricResult, QuestionResults, Results, RunComparison
from rm.evaluation_text import served_texts


def results_text(results: Results) -> str:
    """Return a table with a line for each judge and metric; below it, what the run or a metric lacks, and repeats."""
    axes = axis_benchmark(results)
    rows = [("judge", "metric", "value", "95 % interval", "scored", "failed", "n/a", "pending")]
    notes = [] if results.num_cases_of_dataset in (None, results.num_cases) else [f"a run of {results.coverage}"]
    notes += results.scoring.texts
    for name, judge in results.judges.items():
        notes += [f"{name}: {text}" for text in (*served_texts(judge.served_by), *questions_texts(judge.questions))]
        for metric, cell in judge.metrics.items():
            rows.append((name, f"{metric} (partial)" if cell.is_partial else metric, *cell_texts(cell)))
            macros = () if cell.final or axes is not None else macro_texts(cell)
            texts = (*macros, *missing_texts(cell), *repeats_texts(cell))
            notes += [f"{name}, {metric}: {text}" for text in texts]
    by_axis = [] if axes is None else axis_table(results, axes.axis_groups)
    notes += subjects_texts(results)
    return "\n".join([aligned(rows), *final_tables(results), *by_axis, *notes])


def subjects_texts(results: Results) -> list[str]:
    """Return a text for each number of people of pictures that were painted one subject after the other."""
    return [
        f"subjects of {people if people == 'all' else f'{people} people'}: given up {_value(found.given_up)} of "
        f"{found.given_up.n_scored}, tried again {_value(found.tried_again)}, "
        f"seconds a subject {_value(found.seconds)} (n = {found.seconds.n_scored})"
        for people, found in results.subjects.items()
    ]


def axis_benchmark(results: Results) -> Benchmark | None:
    """Return the benchmark of a run whose metrics are shown side by side over numbers, such as of people."""
    benchmark = known_benchmarks().get(results.benchmarks[0]) if len(results.benchmarks) == 1 else None
    return benchmark if benchmark is not None and benchmark.axes else None


def axis_table(results: Results, kind: str) -> list[str]:
    """Return a table with every metric in each group of a kind, and how many items are scored there."""
    found = [
        (name, metric, cell.groups.get(kind, {}))
        for name, judge in results.judges.items()
        for metric, cell in judge.metrics.items()
    ]
    groups = sorted({group for *_, cells in found for group in cells}, key=lambda name: (len(name), name))
    if not groups:
        return []
    rows = [("judge", f"metric, by {kind}", *groups)]
    for name, metric, cells in found:
        shown = [
            f"{_value(cells[group])} (n = {cells[group].n_scored})" if group in cells else NOTHING for group in groups
        ]
        rows.append((name, metric, *shown))
    return ["", aligned(rows), ""]


def macro_texts(cell: MetricResult) -> list[str]:
    """Return the plain mean of the groups' means for every kind of group with several; `value` is over all items."""
    found = {kind: cell.macro_estimate(kind) for kind, by_name in cell.groups.items() if len(by_name) > 1}
    return [
        f"{number(one.value)} ({interval(one)}) is the mean of every {kind}'s mean"
        for kind, one in found.items()
        if one is not None
    ]


def final_tables(results: Results) -> list[str]:
    """Return a table of the benchmark's own numbers and what they are made of; nothing where it has none."""
    found = [
        (name, metric, cell, cell.final)
        for name, judge in results.judges.items()
        for metric, cell in judge.metrics.items()
        if cell.final is not None
    ]
    if not found:
        return []
    outer, inner = found[0][3].kinds
    groups = list(dict.fromkeys(group for *_, final in found for group in final.groups))
    rows = [("judge", f"metric, by {outer}: mean of its {inner} means", *groups, "final: their mean", "95 % interval")]
    for name, metric, cell, final in found:
        values = [_value(final.groups[group]) if group in final.groups else NOTHING for group in groups]
        whole = NOTHING if final.estimate is None else interval(final.estimate)
        rows.append((name, f"{metric} (partial)" if cell.is_partial else metric, *values, _value(final), whole))
    return ["", aligned(rows), ""]


def _value(cell: Cell) -> str:
    return NOTHING if cell.value is None else number(cell.value)


def questions_texts(questions: QuestionResults | None) -> list[str]:
    """Return how many questions were answered and how, over all items; nothing for a judge of metrics."""
    if questions is None:
        return []
    shares = {"yes": questions.yes.estimate, "as expected": questions.right.estimate}
    known = [f"{number(one.value)} ({interval(one)}) {name}" for name, one in shares.items() if one is not None]
    _, _, scored, failed, n_na, n_pending = cell_texts(questions.yes)
    counts = f"{scored} questions answered, failed {failed}, n/a {n_na}, pending {n_pending}"
    return ["; ".join([counts, *known])]


def missing_texts(cell: MetricResult) -> list[str]:
    """Return a text for every kind of group of which a metric lacks some."""
    return [f"nothing scored in the {kind} {', '.join(names)}" for kind, names in cell.missing.items() if names]


def repeats_texts(cell: MetricResult) -> list[str]:
    """Return how a metric varies between repeats, or nothing where there is one."""
    if cell.std is None:
        return []
    mean = number(fmean(cell.seeds.values()))
    return [f"{mean} ± {number(cell.std)} over {len(cell.seeds)} seeds (sample std)"]


def comparison_text(comparison: RunComparison) -> str:
    """Return a table with a line for each judge and metric."""
    rows = [("judge", "metric", "before", "after", "difference", "95 % interval", "pairs", "unpaired")]
    for name, metrics in comparison.judges.items():
        rows += [(name, metric, *difference_texts(change)) for metric, change in metrics.items()]
    notes = [f"{name}: {text}" for name, served in comparison.served_by.items() for text in served_texts(served)]
    notes += comparison.scoring.texts
    return "\n".join([aligned(rows), *notes])


def cell_texts(cell: Cell) -> tuple[str, str, str, str, str, str]:
    """Return value, interval, scored of total, failed by status, not applicable, pending."""
    estimate = cell.estimate
    failed = ", ".join(f"{count} {status}" for status, count in cell.failed.items())
    return (
        number(estimate.value) if estimate else NOTHING,
        interval(estimate) if estimate else NOTHING,
        f"{cell.n_scored} of {cell.n_total}",
        failed or "0",
        str(cell.n_na),
        str(cell.n_pending),
    )


def difference_texts(change: Difference) -> tuple[str, str, str, str, str, str]:
    """Return before, after, difference, interval, pairs, unpaired cases."""
    estimate = change.estimate
    return (
        NOTHING if change.before is None else number(change.before),
        NOTHING if change.after is None else number(change.after),
        number(estimate.value) if estimate else NOTHING,
        interval(estimate) if estimate else NOTHING,
        str(change.n_pairs),
        str(change.n_unpaired),
    )


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines with aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
