"""The stage curate: which pictures are used, and why the others are not.

Objects and fashion items: no near duplicates, pleasant to look at, and what they are called. Backgrounds: large enough
and without faces. Every role: no picture twice. What people take out is left out. Source: Nguyen et al. 2026 (arXiv
2606.15867), section 3.2 and appendix C.1, whose thresholds hold for its own backends alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from bench.cogcanvas.cases import BACKGROUND, IDENTITY
from data_build.cogcanvas.folder import CURATE, BuildFolder
from data_build.cogcanvas.manifest import Picture, read_pictures
from data_build.cogcanvas.measuring import Measured, Measurer, backends_of
from data_build.cogcanvas.near_duplicates import near_duplicates
from data_build.cogcanvas.settings import CurateSettings
from data_build.stages import counts_text, write_report
from data_build.votes import KeepReview, LineProblem, ProblemKind, Votes, read_votes, unknown_item
from gnomon.errors import UserError
from gnomon.jsonl import write_records
from gnomon.progress import track
from gnomon.records import Record
from gnomon.runs import RunFolder
from gnomon.sheets import write_sheet

COMMAND = "data build cogcanvas, curate"
MEASURED, CURATED, LEFT_OUT, PROBLEMS, REVIEW = (
    "measured.jsonl",
    "curated.jsonl",
    "left_out.jsonl",
    "problems.jsonl",
    "review.csv",
)
SHOWN = ("role", "name", "file")
"""Columns of the sheet that reviewers look at."""

Reason = Literal[
    "unreadable_image",
    "too_small",
    "has_faces",
    "low_aesthetic",
    "not_its_name",
    "no_number",
    "two_identities",
    "duplicate",
    "near_duplicate",
    "taken_out",
]


class LeftOut(Record):
    """A picture that is not used, and why."""

    id: str
    reason: Reason
    detail: str


class PictureReview(KeepReview):
    """Whether one person keeps one picture: neither blurred nor glaring, nothing hidden, and distinct."""

    id: str = Field(min_length=1)

    @property
    def subject(self) -> tuple[str, ...]:
        """What it is about."""
        return (self.id,)


class CurateReport(Record):
    """Counts: pictures, why some are left out, what is used by role, names likewise.

    `backends` says who made each check, and by which threshold; None where it was not made.
    """

    num_pictures: int
    left_out: dict[str, int]
    pictures: dict[str, int]
    names: dict[str, int]
    backends: dict[str, str | None]
    problems: dict[str, int]


def curate_pictures(folder: BuildFolder, settings: CurateSettings) -> CurateReport:
    """Decide about every picture; run again to go on after a stop, or with other thresholds.

    Raises:
        UserError: where the stage before did not run, for a file of reviews that cannot be read, and where nothing is
            left.
    """
    pictures = read_pictures(folder)
    known = {item.entry.id: item for item in pictures}

    def refuse(line: PictureReview) -> tuple[ProblemKind, str] | None:
        return None if line.id in known else unknown_item(line.id, list(known))

    votes = read_votes(settings.reviews, PictureReview, refuse, filled_in=["keep"], shown=SHOWN)
    with RunFolder.open(folder.stage(CURATE), command=COMMAND, config={}, seed=0) as run:
        measurer = Measurer(settings, run.path / "vectors")
        measured = _measured(folder, run, measurer, pictures)
        left_out = dict(_singly(pictures, measured, votes, settings))
        remaining = [item for item in pictures if item.entry.id not in left_out]
        left_out |= _repeated(remaining)
        remaining = [item for item in remaining if item.entry.id not in left_out]
        left_out |= _nearly_repeated(folder, measurer, remaining, settings)
        kept = [item for item in pictures if item.entry.id not in left_out]
        write_records(run.path / CURATED, kept)
        write_records(run.path / LEFT_OUT, [left_out[item.entry.id] for item in pictures if item.entry.id in left_out])
        write_records(run.path / PROBLEMS, votes.problems)
        write_sheet(run.path / REVIEW, ["id", *SHOWN, "reviewer", "keep", "reason"], [_row(item) for item in kept])
        report = _report(kept, list(left_out.values()), settings, votes.problems)
        write_report(run, report, report_lines(report))
    if not kept:
        raise UserError(f"no picture is left: {counts_text(report.left_out)}; see {run.path / LEFT_OUT}")
    return report


def _measured(
    folder: BuildFolder, run: RunFolder, measurer: Measurer, pictures: Sequence[Picture]
) -> dict[str, Measured]:
    """Return what the backends say of every picture, after asking about those that are new."""
    known = {(item.id, item.asked): item for item in run.read(Measured, MEASURED)}
    found = {}
    for item in track(pictures, "looking at pictures"):
        seen = known.get((item.entry.id, measurer.asked(item)))
        if seen is None or seen.unreadable is not None:
            seen = measurer.measure(item, item.path(folder))
            run.append(seen, MEASURED)
        found[item.entry.id] = seen
    return found


def _singly(
    pictures: Sequence[Picture],
    measured: Mapping[str, Measured],
    votes: Votes[PictureReview],
    settings: CurateSettings,
) -> Iterator[tuple[str, LeftOut]]:
    """Yield what is left out for itself, whatever else there is."""
    for item in pictures:
        name = item.entry.id
        against = [vote for vote in votes.counting.get((name,), []) if not vote.line.keep]
        if against:
            said = "; ".join(vote.line.reason or "no reason" for vote in against)
            yield name, LeftOut(id=name, reason="taken_out", detail=f"{against[0].where}: {said}")
        elif (problem := _problem(item, measured[name], settings)) is not None:
            yield name, LeftOut(id=name, reason=problem[0], detail=problem[1])


def _problem(item: Picture, seen: Measured, settings: CurateSettings) -> tuple[Reason, str] | None:
    role = item.entry.role
    if seen.unreadable is not None:
        return "unreadable_image", seen.unreadable
    if role == BACKGROUND and min(item.width, item.height) < settings.min_side:
        return "too_small", f"{item.width} x {item.height}, expected {settings.min_side} on the shorter side"
    if seen.num_faces:
        return "has_faces", f"{seen.num_faces} faces"
    if settings.aesthetic is not None and role in settings.aesthetic.roles:
        if seen.aesthetic is None:
            return "no_number", f"{settings.aesthetic.backend.name} has none for it"
        if seen.aesthetic < settings.aesthetic.minimum:
            return "low_aesthetic", f"{seen.aesthetic:.3f} by {settings.aesthetic.backend.name}"
    if settings.text_picture is not None and role in settings.text_picture.roles:
        if seen.text_picture is None:
            return "no_number", f"{settings.text_picture.backend.name} has none for it"
        if seen.text_picture < settings.text_picture.minimum:
            return "not_its_name", f"{seen.text_picture:.3f} by {settings.text_picture.backend.name}"
    return None


def _repeated(pictures: Sequence[Picture]) -> dict[str, LeftOut]:
    """Return pictures that were there before, and those that are said to show two people."""
    by_pixels: dict[str, list[Picture]] = {}
    for item in pictures:
        by_pixels.setdefault(item.pixels, []).append(item)
    left_out = {}
    for same in by_pixels.values():
        people = {item.entry.key for item in same if item.entry.role == IDENTITY}
        for item in same if len(people) > 1 else same[1:]:
            name, others = item.entry.id, ", ".join(one.entry.id for one in same if one is not item)
            reason: Reason = "two_identities" if len(people) > 1 else "duplicate"
            left_out[name] = LeftOut(id=name, reason=reason, detail=f"the same picture as {others}")
    return left_out


def _nearly_repeated(
    folder: BuildFolder, measurer: Measurer, pictures: Sequence[Picture], settings: CurateSettings
) -> dict[str, LeftOut]:
    """Return near duplicates; of those, the picture with the most pixels stays."""
    filter = settings.near_duplicates
    compared = [item for item in pictures if filter is not None and item.entry.role in filter.roles]
    if filter is None or len(compared) < 2:
        return {}
    compared.sort(key=lambda item: (-item.width * item.height, item.entry.id))
    vectors = np.stack([measurer.vector(item, item.path(folder)) for item in compared])
    return {
        compared[place].entry.id: LeftOut(
            id=compared[place].entry.id,
            reason="near_duplicate",
            detail=f"{cosine:.3f} with {compared[other].entry.id} by {filter.backend.name}",
        )
        for place, (other, cosine) in near_duplicates(vectors, filter.cosine).items()
    }


def _row(item: Picture) -> dict[str, str]:
    return {"id": item.entry.id, "role": item.entry.role, "name": item.entry.name, "file": item.shown}


def _report(
    kept: Sequence[Picture], left_out: Sequence[LeftOut], settings: CurateSettings, problems: Sequence[LineProblem]
) -> CurateReport:
    thresholds = {
        "near_duplicates": settings.near_duplicates and settings.near_duplicates.cosine,
        "aesthetic": settings.aesthetic and settings.aesthetic.minimum,
        "text_picture": settings.text_picture and settings.text_picture.minimum,
        "faces": 0,
    }
    roles = [item.entry.role for item in kept]
    return CurateReport(
        num_pictures=len(kept) + len(left_out),
        left_out=dict(Counter(item.reason for item in left_out).most_common()),
        pictures=dict(Counter(roles)),
        names=dict(Counter(role for role, _ in dict.fromkeys((item.entry.role, item.entry.key) for item in kept))),
        backends={
            name: None if backend is None else f"{backend.name} at {thresholds[name]:g}"
            for name, backend in backends_of(settings).items()
        },
        problems=dict(Counter(problem.kind for problem in problems).most_common()),
    )


def report_lines(report: CurateReport) -> list[str]:
    """Return the report for people."""
    made = {name: backend for name, backend in report.backends.items() if backend is not None}
    num_kept = sum(report.pictures.values())
    lines = [
        f"{num_kept:,} of {report.num_pictures:,} pictures are used: {counts_text(report.pictures)}",
        f"names: {counts_text(dict(sorted(report.names.items())))}",
        f"left out: {counts_text(report.left_out)}",
        *(f"  {name} by {backend}" for name, backend in made.items()),
    ]
    if skipped := [name for name in report.backends if name not in made]:
        lines.append(f"not checked, for want of a backend: {', '.join(skipped)}")
    if report.problems:
        lines.append(f"lines of reviews that do not count: {counts_text(report.problems)}; see {PROBLEMS}")
    return lines
