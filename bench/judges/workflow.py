"""The step behind `gnomon rm compare`: evaluations in, a folder with the table and the page out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.folder import REPORT
from bench.judges.comparison import compare_runs
from bench.judges.page import comparison_page
from bench.judges.runs import read_about, read_runs
from bench.judges.text import comparison_csv, comparison_text
from gnomon.files import atomic_write_text
from gnomon.hashing import stable_hash
from gnomon.runs import RunFolder

COMPARISON, TABLE = "comparison.json", "table.csv"


def compare_judges(
    runs: Sequence[str | Path],
    out: str | Path,
    *,
    about: str | Path | None = None,
    against: str | None = None,
    seed: int = 0,
) -> tuple[str, Path]:
    """Write `OUT/comparison.json`, `OUT/table.csv` and `OUT/report.html`, and return a summary and the page's path.

    Args:
        runs: run folders of `gnomon rm eval`.
        out: a run folder of its own; the same comparison may be written again.
        about: CSV file that says what the judges are, see :func:`bench.judges.runs.read_about`.
        against: label of the run that the others are tested against; the best one by default.
        seed: of the bootstrap and of the random judge.

    Raises:
        UserError: for runs that cannot be compared, a broken file, an unknown `against`, or when `out` holds another
            comparison.
    """
    found = read_runs(runs)
    labels = [run.label for run in found]
    lines = [] if about is None else read_about(about, labels)
    comparison = compare_runs(found, lines, against=against, seed=seed)
    config = {"runs": labels, "against": against, "about": [line.model_dump() for line in lines]}
    inputs = {run.label: stable_hash(run.identity) for run in found}
    with RunFolder.open(out, command="rm compare", config=config, seed=seed, inputs=inputs) as folder:
        folder.write_json(COMPARISON, comparison)
        atomic_write_text(folder.path / TABLE, comparison_csv(comparison))
        page = comparison_page(comparison).write(folder.path / REPORT)
    return comparison_text(comparison), page
