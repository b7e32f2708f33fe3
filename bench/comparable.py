"""Which runs may stand in one table: those of one dataset, by judges that are the same wherever they share a name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.folder import BenchRun
from gnomon.errors import UserError


def refuse_other_numbers(runs: Sequence[BenchRun]) -> None:
    """Refuse runs of different cases, or whose scores are made in different ways.

    Raises:
        UserError: names two such runs.
    """
    first = runs[0]
    for run in runs:
        if run.dataset != first.dataset:
            raise UserError(
                f"{first.path} and {run.path} are about different datasets; put runs of the same cases together"
            )
        if run.scoring != first.scoring:
            raise UserError(
                f"{first.path} was summarized with {first.scoring.flags}, {run.path} with {run.scoring.flags}; run "
                "`gnomon bench summarize` on both with the same flags"
            )


def refuse_unlike(runs: Sequence[BenchRun]) -> None:
    """Refuse runs whose numbers do not belong into one table.

    Raises:
        UserError: for a run that is named twice or was not judged, runs of different datasets or whose scores are made
            in different ways, and judges of one name and different fingerprints.
    """
    refuse_other_numbers(runs)
    fingerprints: dict[str, tuple[str, Path]] = {}
    for position, run in enumerate(runs):
        if run.path.resolve() in {other.path.resolve() for other in runs[:position]}:
            raise UserError(f"expected each run once, got {run.path} twice")
        judges = run.judges()
        if not judges:
            raise UserError(f"{run.path} was not judged; run `gnomon bench judge` on it, or leave it out")
        for judge in judges:
            known, path = fingerprints.setdefault(judge.name, (judge.fingerprint, run.path))
            if judge.fingerprint != known:
                raise UserError(
                    f"judge {judge.name!r} is not the same in {path} and {run.path}; judge both with one of them, "
                    "under a new name"
                )
