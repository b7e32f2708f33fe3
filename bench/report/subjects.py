"""The part of a page that says what came of each subject where a generator paints them one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from bench.report.blocks import Table
from bench.report.cells import INTERVAL_NOTE, measured
from bench.report.document import Report
from bench.results import Results

_COLUMNS = ["run", "people", "given up", "tried again", "seconds a subject", "why given up"]
_NOTE = (
    "Shares of 0 to 1 of all subjects; seconds are of those that had a place, over all tries, on the machine that made "
    "the pictures."
)


def add_subjects(report: Report, runs: Sequence[tuple[str, Results]]) -> None:
    """Add a table with a row for each run and number of people; nothing where no run tells of subjects.

    Args:
        report: the page.
        runs: labels with results.
    """
    rows = [
        [
            label,
            people,
            measured(found.given_up),
            measured(found.tried_again),
            measured(found.seconds),
            "; ".join(f"{problem} ({count})" for problem, count in found.problems.items()) or None,
        ]
        for label, results in runs
        for people, found in results.subjects.items()
    ]
    if rows:
        report.add_section("Subjects", "Painted one by one; what was given up counts 0 in ID-Sim or DINO-Sim.")
        report.add_table(Table("Subjects by number of people", _COLUMNS, rows, f"{_NOTE} {INTERVAL_NOTE}"))
