"""What a check of a dataset folder found, as a table for people and as JSON for programs."""

from __future__ import annotations

from typing import get_args

from bench.text import aligned
from gnomon.datasets import ValidationReport
from gnomon.hashing import to_plain
from gnomon.records import Label
from gnomon.skew import gives_the_answer_away


def label_table(report: ValidationReport) -> str:
    """Return a line for each dimension: its judgements, the share of each label, and whether the place tells them."""
    labels = get_args(Label)
    rows = [("dimension", "judgements", *labels, "first is better", "95 % interval", "")]
    for dimension, shares in report.label_shares().items():
        shown = [f"{shares.get(label, 0.0):.1%}" for label in labels]
        total = sum(report.labels[dimension].values())
        rows.append((dimension, f"{total:,}", *shown, *_first_is_better(report, dimension)))
    return aligned(rows)


def _first_is_better(report: ValidationReport, dimension: str) -> tuple[str, str, str]:
    estimate = report.first_is_better.get(dimension)
    if estimate is None:
        return "-", "-", "all are ties"
    if estimate.ci_low is None or estimate.ci_high is None:
        return f"{estimate.value:.1%}", "-", "one group only"
    remark = "the place gives answers away" if gives_the_answer_away(estimate) else ""
    return f"{estimate.value:.1%}", f"{estimate.ci_low:.1%} to {estimate.ci_high:.1%}", remark


def report_json(report: ValidationReport) -> object:
    """Return everything that was found, all problems included, as what JSON can hold."""
    return {"ok": report.ok, "label_shares": report.label_shares(), **_fields(report)}


def _fields(report: ValidationReport) -> dict[str, object]:
    return {name: to_plain(value, name) for name, value in vars(report).items()}
