"""A comparison of judges as a CSV file and as lines for a terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from bench.judges.comparison import AVERAGE, JudgeComparison, JudgeRow
from bench.report.formatting import NOTHING, interval, number
from bench.text import aligned
from gnomon.statistics import Estimate
from rm.averages import CONVENTIONS
from rm.evaluation_text import failed_text


def estimate_of(figures: Mapping[str, Any] | None) -> Estimate | None:
    """Return the figures of an accuracy or of a paired difference as an estimate; None where there are none."""
    if figures is None:
        return None
    clusters = figures["num_groups"] if "num_groups" in figures else figures["num_clusters"]
    return Estimate(figures["value"], figures["ci_low"], figures["ci_high"], figures["n"], clusters)


def named_rows(comparison: JudgeComparison) -> list[tuple[str, JudgeRow]]:
    """Return all rows, judges that do not look last and in brackets; a partial average is marked."""
    rows = [(row.name, row) for row in comparison.judges]
    rows += [(f"({row.name})", row) for row in comparison.baselines]
    return [(f"{name}, partial" if row.is_partial else name, row) for name, row in rows]


def comparison_csv(comparison: JudgeComparison) -> str:
    """Return the table as CSV: a line per judge, shares with the ends of their intervals, blank where unknown."""
    wrongly = [f"{name}_failed_wrong" for name in (*comparison.dimensions, AVERAGE, "macro_average")]
    kinds = [*comparison.dimensions, AVERAGE, "macro_average", *wrongly]
    header = ["run", "judge", "baseline", "partial"]
    header += [f"{kind}{end}" for kind in kinds for end in ("", "_ci_low", "_ci_high", "_n")]
    header += ["failures", "failures_by_status", "tie_rate", "swap_consistency", "num_swapped"]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    for row in [*comparison.judges, *comparison.baselines]:
        figures = []
        for convention in CONVENTIONS:
            found = row.figures[convention]
            figures += [found["dimensions"].get(name) for name in comparison.dimensions]
            figures += [found["micro"], found["macro"]]
        keys = ("value", "ci_low", "ci_high", "n")
        cells = [None if one is None else one[key] for one in figures for key in keys]
        about = [row.name, row.judge, row in comparison.baselines, row.is_partial]
        failures = [row.figures["failures"], failed_text(row.failed)]
        writer.writerow([*about, *cells, *failures, row.tie_rate, row.swap_consistency, row.num_swapped])
    return buffer.getvalue()


def comparison_text(comparison: JudgeComparison) -> str:
    """Return the table, and the differences of the averages from the reference."""
    lines: list[tuple[str, ...]] = [
        ("run", *comparison.dimensions, AVERAGE, "95 %", "macro", "failed wrong", "n", "failed", "tie rate")
    ]
    for name, row in named_rows(comparison):
        dropped, wrong = row.figures["failed_dropped"], row.figures["failed_wrong"]
        shares = [_value(dropped["dimensions"].get(dimension)) for dimension in comparison.dimensions]
        average = estimate_of(dropped["micro"])
        ends = (NOTHING, "0") if average is None else (interval(average), str(average.n))
        cells = (_value(dropped["micro"]), ends[0], _value(dropped["macro"]), _value(wrong["micro"]), ends[1])
        rate = NOTHING if row.tie_rate is None else number(row.tie_rate)
        lines.append((name, *shares, *cells, str(row.figures["failures"]), rate))
    tests = [("run", f"minus {comparison.reference}", "95 %", "n", "left out", "McNemar", "p")]
    for label, by_convention in comparison.tests.items():
        if (paired := by_convention["failed_dropped"]["average"]) is not None:
            found, test = estimate_of(paired), paired["mcnemar"]
            assert found is not None, "a row has a value"
            counts = (str(found.n), str(paired["left_out"]), f"{test['only_second']} : {test['only_first']}")
            p_value = NOTHING if test["p_value"] is None else f"{test['p_value']:.2g}"
            tests.append((label, number(found.value), interval(found), *counts, p_value))
    changes = [
        f"{gain.varied}, {gain.before} to {gain.after}: {gain.points[AVERAGE]:+.2f} points"
        for gain in comparison.gains
        if AVERAGE in gain.points
    ]
    failed = [f"{name}: failed {failed_text(row.failed)}" for name, row in named_rows(comparison) if row.failed]
    return "\n".join([aligned(lines), *failed, "", aligned(tests), *changes])


def _value(figures: Mapping[str, Any] | None) -> str:
    return NOTHING if figures is None else number(figures["value"])
