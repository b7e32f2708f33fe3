"""Verifies a folder of edited pictures: `gnomon data verify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from bench.placement import ENDINGS, ById
from data_build.puzzles.puzzle import Outcome, Value
from data_build.puzzles.verify import PUZZLE, verify
from gnomon.datasets import read_cases, write_records
from gnomon.errors import UserError
from gnomon.progress import track
from gnomon.records import Case, Record
from gnomon.statistics import Estimate, cluster_bootstrap
from rm.pictures import NoPictures, load_pictures

VALUES: tuple[Value, ...] = get_args(Value)


class Verified(Record):
    """What the picture of one case is worth; a line of the file that is written."""

    id: str
    value: Value
    reason: str


@dataclass(frozen=True)
class Verification:
    """What came of a folder.

    Attributes:
        verified: one for each puzzle, in the order of the cases.
        tasks: of each of them.
        num_others: cases that hold no puzzle.
    """

    verified: list[Verified]
    tasks: list[str]
    num_others: int

    def counts(self, task: str) -> Counter[Value]:
        """Return how many pictures of a task have each value."""
        return Counter(item.value for item, name in zip(self.verified, self.tasks, strict=True) if name == task)

    def correct(self) -> Estimate:
        """Return the share of correct pictures, with an interval from resampling cases."""
        return cluster_bootstrap(
            [item.value == "correct" for item in self.verified], [item.id for item in self.verified]
        )

    def __str__(self) -> str:
        """Return a table by task, with the share of correct pictures below it."""
        width = max(map(len, self.tasks))
        lines = [" ".join([" " * width, *(f"{value:>10}" for value in VALUES)])]
        for task in dict.fromkeys(self.tasks):
            counts = self.counts(task)
            lines.append(" ".join([f"{task:<{width}}", *(f"{counts[value]:>10}" for value in VALUES)]))
        estimate = self.correct()
        interval = (
            "" if estimate.ci_low is None else f" (95 % interval {estimate.ci_low:.3f} to {estimate.ci_high:.3f})"
        )
        lines.append(f"correct: {estimate.value:.3f}{interval}, n = {estimate.n}")
        if self.num_others:
            lines.append(f"left out: {self.num_others} cases that hold no puzzle")
        return "\n".join(lines)


def verify_folder(cases_root: Path, images: Path, out: Path | None = None) -> Verification:
    """Verify the picture of every puzzle.

    A picture that is missing, cannot be read or lies there twice is `unreadable`, as is one whose case is broken; the
    reason says so, and the others go on.

    Args:
        cases_root: dataset folder with `cases.jsonl`.
        images: pictures, each under its case's id.
        out: file for one line a puzzle.

    Raises:
        UserError: for a broken dataset, one without puzzles, and no such folder of pictures.
    """
    cases = read_cases(cases_root)
    if not images.is_dir():
        raise UserError(f"expected a folder of pictures at {images}, there is none")
    puzzles = [case for case in cases if PUZZLE in case.meta]
    if not puzzles:
        raise UserError(f"expected puzzles that `gnomon data build avr` made in {cases_root}, none of its cases is one")
    verified = []
    for case in track(puzzles, "verifying"):
        outcome = _outcome(cases_root, case, ById().find(str(images), case, 0))
        verified.append(Verified(id=case.id, value=outcome.value, reason=outcome.reason))
    if out is not None:
        write_records(out, verified)
    return Verification(verified, [case.task for case in puzzles], len(cases) - len(puzzles))


def _outcome(root: Path, case: Case, names: Sequence[str]) -> Outcome:
    files = [Path(name) for name in names]
    if len(files) != 1:
        found = ", ".join(file.name for file in files)
        name = ById().name(case, 0)
        return Outcome("unreadable", f"expected one file {name} ({', '.join(ENDINGS)}), found {found or 'none'}")
    pictures = load_pictures(root, case.references[:1], files)
    if isinstance(pictures, NoPictures):
        return Outcome("unreadable", pictures.reason)
    try:
        return verify(case, pictures.references[0], pictures.candidates[0])
    except UserError as error:
        return Outcome("unreadable", str(error))
