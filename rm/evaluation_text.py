"""The results of an evaluation as lines for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rm.averages import CONVENTIONS, is_partial


def results_text(results: Mapping[str, Any]) -> str:
    """Return all that `gnomon rm eval` prints: figures per dimension, averages, and what stands below them."""
    return "\n".join([format_table(results), "", average_table(results), *more_lines(results)])


def format_table(results: Mapping[str, Any]) -> str:
    """Return the figures as lines for a terminal, one per dimension and restriction."""
    lines = [("dimension", "pairs", "n", "strict", "95 %", "half", "ties", "tie rule", "ece", "failed")]
    for name, tables in results["dimensions"].items():
        for restriction, figures in tables.items():
            interval = _interval(figures)
            shares = [_share(figures.get(key)) for key in ("half_credit", "tie_rate", "tie_rule", "ece")]
            strict, failures = _share(figures["strict"]), str(figures["failures"])
            lines.append((name, restriction, str(figures["n"]), strict, interval, *shares, failures))
    for control, by_name in results.get("baselines", {}).items():
        for name, figures in by_name.items():
            cells = (str(figures["n"]), _share(figures["strict"]), _interval(figures))
            lines.append((name, f"({control})", *cells, "", "", _share(figures["tie_rule"]), "", ""))
    return _aligned(lines)


def average_table(results: Mapping[str, Any]) -> str:
    """Return the accuracies by the tie rule as lines: micro and macro average over dimensions, by both conventions."""
    header = ("average by the tie rule", "pairs", "failed dropped", "95 %", "n", "failed wrong", "95 %", "n", "failed")
    lines: list[tuple[str, ...]] = [header]
    rows = [("all", results["average"])]
    rows += [(f"task={task}", figures) for task, figures in results["tasks"].items()]
    rows += [(f"({control})", figures) for control, figures in results["baseline_averages"].items()]
    notes = []
    for pairs, figures in rows:
        partial = " (partial)" if is_partial(figures) else ""
        for kind in ("micro", "macro"):
            cells = [cell for convention in CONVENTIONS for cell in _average_cells(figures[convention][kind])]
            lines.append((kind + partial, pairs, *cells, str(figures["failures"])))
        notes += _missing_notes(pairs, figures) if not pairs.startswith("(") else []
    return "\n".join([_aligned(lines), *notes])


def _average_cells(figures: Mapping[str, Any] | None) -> tuple[str, str, str]:
    return ("-", "-", "0") if figures is None else (_share(figures["value"]), _interval(figures), str(figures["n"]))


def _missing_notes(pairs: str, figures: Mapping[str, Any]) -> list[str]:
    notes = []
    if missing := figures["missing_dimensions"]:
        notes.append(f"{pairs}: the judge has no {', '.join(missing)}, so its averages are over the other dimensions")
    if unscored := figures["unscored_dimensions"]:
        notes.append(f"{pairs}: every pair failed in {', '.join(unscored)}")
    return notes


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def _interval(figures: Mapping[str, Any]) -> str:
    low, high = figures["ci_low"], figures["ci_high"]
    return "-" if low is None else f"{low:.3f}..{high:.3f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def more_lines(results: Mapping[str, Any]) -> list[str]:
    """Return what stands below the tables: the other judge, whole rankings, both orders, the sanity set."""
    lines = served_texts(results.get("served_by", {}))
    if failed := {name: count for name, count in results.get("statuses", {}).items() if name != "ok"}:
        lines.append(f"failed: {failed_text(failed)}")
    if against := results.get("against"):
        rows = [(name, "strict", row) for name, row in against["strict"].items()]
        rows += [(name, "tie rule", row) for name, row in against["tie_rule"]["dimensions"].items()]
        if (average := against["tie_rule"]["average"]) is not None:
            rows.append(("micro average", "tie rule", average))
        lines += [f"{name}, {rule}: {difference_text(row)} against {against['run']}" for name, rule, row in rows]
        if not rows:
            lines.append(f"there is no pair that both this judge and the one of {against['run']} scored")
    lines += [
        f"{name}: {_share(row['right'])} of {row['n']} rankings of {size} are right as a whole ({_interval(row)})"
        for name, by_size in results.get("rankings", {}).items()
        for size, row in by_size.items()
        if int(size) > 2 and row["n"]
    ]
    lines += [
        f"{name}: both orders agree on {row['share']:.3f} of {row['n']} pairs"
        for name, row in results.get("swap_consistency", {}).items()
    ]
    for name, by_kind in results.get("sanity", {}).items():
        shown = ", ".join(f"{kind} {_share(row['lower'])} (n {row['n']})" for kind, row in by_kind.items())
        lines.append(f"{name}: share of spoilt edits that score lower: {shown}")
    return lines


def failed_text(failed: Mapping[str, int]) -> str:
    """Return failures by status."""
    return ", ".join(f"{count} {status}" for status, count in sorted(failed.items()))


def served_texts(served_by: Mapping[str, int]) -> list[str]:
    """Return which model answered for a judge, as its server calls it; nothing where no server said so.

    Args:
        served_by: how many verdicts or pairs each is behind.
    """
    if len(served_by) < 2:
        return [f"answered by {name}" for name in served_by]
    counts = ", ".join(f"{name} ({count})" for name, count in served_by.items())
    return [f"answered by {counts}: the model behind the judge changed, and not all values are of one judge"]


def difference_text(row: Mapping[str, Any]) -> str:
    """Return a row of :func:`rm.comparing.paired_accuracy` in one line."""
    interval = "" if row["ci_low"] is None else f" ({row['ci_low']:+.3f}..{row['ci_high']:+.3f})"
    test = row["mcnemar"]
    p_value = "" if test["p_value"] is None else f", p {test['p_value']:.2g}"
    counts = f"n {row['n']}" + (f" ({row['left_out']} left out, failed)" if row["left_out"] else "")
    return f"{row['value']:+.3f}{interval}, {counts}; McNemar {test['only_second']} : {test['only_first']}{p_value}"
