"""The stage gallery: every picture of the sources is looked at once, and those that are used make the index.

Left out are pictures that cannot be read, small ones, exact duplicates (equal pixels) and near duplicates (perceptual
hashes that differ in few bits). Real pictures are compared with real ones and synthetic with synthetic ones, so that a
picture and the one that was made from it both stay.

Looks are kept (`looks.jsonl`), so that a kill loses none, and sources, the smallest size or the distance may be changed
with only what is new being looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from data_build.mdmr.folder import GALLERY, BuildFolder
from data_build.mdmr.indexing import LEFT_OUT, LOOKS, GalleryReport, Indexer, located, look_key
from data_build.mdmr.last_lines import Place, last_lines
from data_build.mdmr.looking import LOOK_VERSION, in_threads, look
from data_build.mdmr.near_duplicates import MAX_DISTANCE
from data_build.mdmr.settings import GallerySettings, Source
from data_build.mdmr.sources import Item, SourceProblem, items
from data_build.stages import counts_text, write_report
from gnomon.errors import UserError
from gnomon.progress import track
from gnomon.runs import RunFolder

COMMAND = "data build mdmr, gallery"


def build_gallery(folder: BuildFolder, settings: GallerySettings) -> GalleryReport:
    """Look at what is new in the sources, and write the index; run again to go on after a stop.

    Raises:
        UserError: for settings out of range, a source that is not there, and where no picture can be used.
    """
    _check(settings)
    with RunFolder.open(folder.stage(GALLERY), command=COMMAND, config={"looks": LOOK_VERSION}, seed=0) as run:
        known = last_lines(run.path / LOOKS, _pick)
        order: list[str] = []
        ranges = {}
        for name, source in settings.sources.items():
            start = len(order)
            new = _new_items(name, source, known, order)
            looks = in_threads(lambda item, name=name: look(name, item), new, settings.num_threads)  # type: ignore[misc]
            for seen in track(looks, f"looking at {name}"):
                place = known.get(look_key(seen.source, seen.member))
                if place is None or place.facts != (seen.stamp, seen.status, seen.message if seen.id is None else None):
                    run.append(seen, LOOKS)
            ranges[name] = (start, len(order))
        report = Indexer(run.path, settings, order, ranges).write()
        run.write_json("sources.json", {name: located(source) for name, source in settings.sources.items()})
        write_report(run, report, report_lines(report))
    if not report.outcomes.get("ok"):
        raise UserError(
            f"no picture of the gallery can be used: {counts_text(report.outcomes)}; see {run.path / LEFT_OUT}"
        )
    return report


def report_lines(report: GalleryReport) -> list[str]:
    """Return the report for people."""
    lines = [f"{report.outcomes.get('ok', 0):,} pictures in the gallery; of all: {counts_text(report.outcomes)}"]
    lines += [f"  {name}: {counts_text(counts)}" for name, counts in report.outcomes_of_sources.items()]
    lines.append(f"pairs of a real picture and a synthetic one: {report.num_pairs:,}")
    if report.num_made_from_unknown:
        lines.append(f"synthetic pictures whose real one is not in use: {report.num_made_from_unknown:,}")
    if report.num_unclear_facts:
        lines.append(f"pictures of which it cannot be read what is said: {report.num_unclear_facts:,}")
    return lines


def _check(settings: GallerySettings) -> None:
    if not settings.sources:
        raise UserError("expected at least one source under gallery.sources, got none")
    if settings.min_side < 1 or settings.num_threads < 1 or not 0 <= settings.max_distance <= MAX_DISTANCE:
        raise UserError(
            f"expected gallery.min_side and gallery.num_threads >= 1, and gallery.max_distance in 0..{MAX_DISTANCE}, "
            f"got {settings.min_side}, {settings.num_threads} and {settings.max_distance}"
        )


def _pick(line: dict[str, Any]) -> tuple[str, tuple[str, str, str | None]]:
    message = line["message"] if line["id"] is None else None
    return look_key(line["source"], line["member"]), (line["stamp"], line["status"], message)


def _new_items(name: str, source: Source, known: dict[str, Place], order: list[str]) -> Iterator[Item | SourceProblem]:
    """Yield what has to be looked at, and note everything that is there in `order`."""

    def wanted(member: str, stamp: str) -> bool:
        key = look_key(name, member)
        order.append(key)
        place = known.get(key)
        return place is None or place.facts[:2] != (stamp, "ok")

    for item in items(name, source, wanted):
        if isinstance(item, SourceProblem):
            order.append(look_key(name, item.member))
        yield item
