"""A judge against people as a JSON file and as lines for a terminal."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from bench.alignment.figures import Alignment
from bench.report.formatting import NOTHING, interval, number
from bench.statistics.ratings import Agreement
from bench.text import aligned
from gnomon.files import atomic_write_text
from gnomon.hashing import to_plain


def write_alignment(path: Path, found: Alignment) -> None:
    """Write the figures as one JSON object.

    Raises:
        UserError: when the system refuses.
    """
    plain = to_plain(asdict(found))
    atomic_write_text(path, json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=2) + "\n")


def alignment_text(found: Alignment) -> str:
    """Return the models by both, the correlations, and how often the best picture of a case is the same."""
    models = [("model", "people", "judge", "pictures", "failed")]
    for model in found.models:
        failed = ", ".join(f"{count} {status}" for status, count in model.failed.items()) or "0"
        models.append((model.model, _number(model.human), _number(model.judge), str(model.n), failed))
    rows = [("of", "statistic", "value", "95 % interval", "n")]
    notes = []
    for level, statistics in (("models", found.model_level), ("pictures", found.picture_level)):
        for name, one in statistics.items():
            rows.append((level, name, _number(one.value), _interval(one), str(one.n_items)))
            notes += [f"{level}, {name}: {one.reason}"] if one.reason else []
    top = found.top_1
    if top.share is not None:
        rows.append(("cases", "top-1", number(top.share.value), interval(top.share), str(top.share.n)))
        notes.append(f"top-1 by chance is {_number(top.chance)}")
    notes.append(f"top-1 leaves out {top.n_undecided} cases without one best picture and {top.n_failed} with a failure")
    return "\n".join([f"{found.metric} by {found.judge}", aligned(models), "", aligned(rows), *notes])


def _number(value: float | None) -> str:
    return NOTHING if value is None else number(value)


def _interval(found: Agreement) -> str:
    if found.ci_low is None or found.ci_high is None:
        return NOTHING
    return f"{number(found.ci_low)} to {number(found.ci_high)}"
