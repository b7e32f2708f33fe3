"""The page of a comparison of judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.judges.comparison import AVERAGE, Gain, JudgeComparison, JudgeRow
from bench.judges.text import estimate_of, named_rows
from bench.report.blocks import Cell, Figure, Table, Tile
from bench.report.document import Report
from bench.report.formatting import NOTHING, interval, number
from bench.report.plots import Bar, Series, plot_bars, plot_curves
from gnomon.statistics import Estimate
from rm.evaluation_text import failed_text

RULE = (
    "Accuracy is the share of pairs that are right by the tie rule: the better picture scores higher, or a tie differs "
    "by less than 1e-5. The average is over all pairs of all dimensions; the macro average is the mean of the "
    "dimensions. Intervals are 95 % percentile bootstrap intervals that resample whole groups (2000 resamples)."
)
FAILED = (
    "Pairs that a judge failed to score are in no accuracy but the column that counts them as wrong. A dimension that "
    "a judge does not have is blank, and its average is partial: it is not to be compared with a whole one."
)
TESTS = (
    "Differences are paired: on the pairs that both scored. The columns about right pairs count those that one alone "
    "gets right; p is McNemar's exact test of them, which takes pairs as independent: with several pairs of one "
    "instruction the interval is the honest one. No p is corrected for the number of tests."
)


def comparison_page(comparison: JudgeComparison) -> Report:
    """Return the page: the table with its drawing, paired tests, gains, and accuracy over size."""
    names = ", ".join(row.name for row in comparison.judges)
    report = Report(f"{len(comparison.judges)} judges on the same pairs", lead=names).add_section("Accuracy", RULE)
    reference = next(row for row in comparison.judges if row.name == comparison.reference)
    tiles = [_tile(f"{reference.name} (reference)", reference)]
    report.add_tiles(tiles + [_tile(f"({row.name})", row) for row in comparison.baselines])
    report.add_figures([_bars(comparison)])
    report.add_table(_accuracy_table(comparison))
    if comparison.tests:
        report.add_section(f"Against {comparison.reference}", TESTS).add_table(_test_table(comparison))
    if comparison.gains:
        report.add_section("What one change gains", "Runs that are said to differ in nothing else.")
        report.add_table(_gain_table(comparison))
    if comparison.sizes:
        report.add_section("Size", "The average by the tie rule, a line per family and way of asking.")
        report.add_figures([_curves(comparison)])
    return report


def _tile(label: str, row: JudgeRow) -> Tile:
    average = estimate_of(row.figures["failed_dropped"]["micro"])
    if average is None:
        return Tile(label, NOTHING, "nothing scored")
    return Tile(label, number(average.value), f"{interval(average)}, n = {average.n}")


def _bars(comparison: JudgeComparison) -> Figure:
    averages = [(name, estimate_of(row.figures["failed_dropped"]["micro"])) for name, row in named_rows(comparison)]
    bars = [Bar(name, found.value, found.ci_low, found.ci_high) for name, found in averages if found is not None]
    return Figure(
        plot_bars(bars or [Bar("nothing scored", 0.0)], title="average accuracy", x_label="share of pairs"),
        "The average over all pairs by the tie rule, with 95 % intervals; in brackets judges that do not look.",
    )


def _accuracy_table(comparison: JudgeComparison) -> Table:
    columns = ["run", "judge", *comparison.dimensions, AVERAGE, "macro average", "average, failed wrong"]
    columns += ["n", "failed", "failures", "tie rate", "both orders agree"]
    rows: list[list[Cell]] = []
    for name, row in named_rows(comparison):
        dropped, wrong = row.figures["failed_dropped"], row.figures["failed_wrong"]
        cells: list[Cell] = [estimate_of(dropped["dimensions"].get(dimension)) for dimension in comparison.dimensions]
        cells += [estimate_of(dropped["micro"]), estimate_of(dropped["macro"]), estimate_of(wrong["micro"])]
        count = dropped["micro"]["n"] if dropped["micro"] else 0
        counts: list[Cell] = [count, row.figures["failures"], failed_text(row.failed) or None]
        rows.append([name, row.judge, *cells, *counts, row.tie_rate, row.swap_consistency])
    return Table("Judges, and in brackets those that do not look", columns, rows, FAILED)


def _test_table(comparison: JudgeComparison) -> Table:
    rows: list[list[Cell]] = []
    for label, by_convention in comparison.tests.items():
        dropped, wrong = by_convention["failed_dropped"], by_convention["failed_wrong"]
        for name, row in _by_name(dropped).items():
            test = row["mcnemar"]
            counts: list[Cell] = [row["n"], row["left_out"], test["only_second"], test["only_first"], test["p_value"]]
            rows.append([label, name, estimate_of(row), *counts, estimate_of(_by_name(wrong).get(name))])
    columns = ["run", "pairs of", "difference", "n", "left out, failed", "only it right", "only reference right", "p"]
    return Table(
        f"Each run minus {comparison.reference}", [*columns, "difference, failed wrong"], _with_small_p(rows, 7)
    )


def _with_small_p(rows: Sequence[Sequence[Cell]], place: int) -> list[list[Cell]]:
    """Return rows in which a p value keeps its order of size: three decimals would make it zero."""
    return [
        [f"{cell:.2g}" if column == place and isinstance(cell, float) else cell for column, cell in enumerate(row)]
        for row in rows
    ]


def _by_name(paired: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the rows of a paired comparison, the average first."""
    average = {} if paired["average"] is None else {AVERAGE: paired["average"]}
    return {**average, **paired["dimensions"]}


def _gain_table(comparison: JudgeComparison) -> Table:
    rows: list[list[Cell]] = [
        [gain.varied, gain.before, gain.after, name, points, *_paired_points(gain, name)]
        for gain in comparison.gains
        for name, points in sorted(gain.points.items(), key=lambda item: item[0] != AVERAGE)
    ]
    columns = ["what changes", "before", "after", "pairs of", "points", "points on common pairs", "common pairs"]
    return Table("Gains in points (accuracy times 100)", columns, rows)


def _paired_points(gain: Gain, name: str) -> tuple[Cell, Cell]:
    row = _by_name(gain.paired).get(name) if gain.paired else None
    found = estimate_of(row)
    if found is None:
        return None, None
    low, high = (None if end is None else 100 * end for end in (found.ci_low, found.ci_high))
    return Estimate(100 * found.value, low, high, found.n, found.num_clusters), found.n


def _curves(comparison: JudgeComparison) -> Figure:
    series = [
        Series(
            line.label,
            line.parameters,
            [figures["value"] for figures in line.figures],
            [figures["ci_low"] for figures in line.figures],
            [figures["ci_high"] for figures in line.figures],
        )
        for line in comparison.sizes
    ]
    drawing = plot_curves(
        series, title="average accuracy", x_label="parameters in billions", y_label="share of pairs", logarithmic=True
    )
    return Figure(drawing, "Accuracy over size, with 95 % intervals.")
