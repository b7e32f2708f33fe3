"""The stage manifest: fetch what manifests point to, or find it on disk, check its hash, and open it.

Fetched files stay in the build's own folder. What cannot be had is counted by reason, and tried again next time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import Literal

from data_build.cogcanvas.entries import Manifest, ManifestEntry, Sha256, read_manifests
from data_build.cogcanvas.fetching import Fetched, Fetcher, FetchStatus, Limits, fetch_each
from data_build.cogcanvas.folder import MANIFEST, BuildFolder
from data_build.cogcanvas.settings import ManifestSettings
from data_build.cogcanvas.terms import TERMS, terms_hash, terms_text
from data_build.cogcanvas.vocabulary import ROLES
from data_build.stages import counts_text, require_output, write_report
from gnomon.datasets import resolve
from gnomon.errors import UserError
from gnomon.files import atomic_write_bytes, atomic_write_text
from gnomon.hashing import file_hash, stable_hash
from gnomon.images import UnreadableImageError, content_hash, decode_image
from gnomon.jsonl import read_records, write_records
from gnomon.progress import track
from gnomon.records import Record
from gnomon.runs import RunFolder

COMMAND = "data build cogcanvas, manifest"
FETCHED, PICTURES, PROBLEMS = "fetched.jsonl", "pictures.jsonl", "problems.jsonl"
LINK_ROT: tuple[FetchStatus, ...] = ("gone", "http_error", "unreachable")
"""What becomes of links as time goes by."""

Status = FetchStatus | Literal["missing_file", "changed", "unreadable_image"]


class Gathered(Record):
    """What came of one entry.

    Attributes:
        id: of the entry.
        asked: hash of the entry's place and hash; a line about another place is none.
        status: "ok", or what went wrong; "changed" is a file with another hash than the manifest says.
        message: for people.
        sha256: of the file's bytes.
        file: where it is, below the stage's folder, or absolute for one that was on disk before.
        pixels: hash of the upright picture.
        width: of that, in pixels.
        height: likewise.
        final_url: where redirects led, if they did.
    """

    id: str
    asked: str
    status: Status
    message: str | None = None
    sha256: str | None = None
    file: str | None = None
    pixels: str | None = None
    width: int | None = None
    height: int | None = None
    final_url: str | None = None


class Picture(Record):
    """An entry whose picture is there; its hash is that of the file that was found."""

    entry: ManifestEntry
    sha256: Sha256
    file: str
    pixels: str
    width: int
    height: int

    @property
    def shown(self) -> str:
        """Where the file is, seen from the folder of another stage."""
        return str(Path("..", MANIFEST, self.file))

    def path(self, folder: BuildFolder) -> Path:
        """Return where the file is."""
        return folder.stage(MANIFEST) / self.file  # an absolute path stays what it is


class ManifestReport(Record):
    """Counts: entries, outcomes, those of links alone, pictures and names by role, lines that cannot be used.

    `num_rotten` counts links that lead nowhere any more (:data:`LINK_ROT`).
    """

    num_entries: int
    outcomes: dict[str, int]
    num_links: int
    num_rotten: int
    pictures: dict[str, int]
    names: dict[str, int]
    num_problems: int
    terms: str


def gather_pictures(folder: BuildFolder, settings: ManifestSettings, fetcher: Fetcher | None = None) -> ManifestReport:
    """Have every entry's picture there, or the reason why not; run again to go on after a stop.

    Args:
        folder: of the build.
        settings: which manifests, and what a file may cost.
        fetcher: of links; one for public addresses by default.

    Raises:
        UserError: for a manifest that cannot be read, and where no picture is there in the end.
    """
    if not settings.files:
        raise UserError("expected at least one file under manifest.files, got none")
    limits = Limits(settings.max_bytes, settings.timeout, settings.max_redirects)
    manifest = read_manifests(settings.files, settings.folder)
    with RunFolder.open(folder.stage(MANIFEST), command=COMMAND, config={}, seed=0) as run:
        known = {item.id: item for item in run.read(Gathered, FETCHED)}
        known = {name: item for name, item in known.items() if _asked(manifest, name) == item.asked}
        for item in track(
            _gathered(run, manifest, known, fetcher or Fetcher(limits), settings),
            "gathering pictures",
            total=len(manifest.entries),
        ):
            if item != known.get(item.id):
                run.append(item, FETCHED)
                known[item.id] = item
        gathered = {name: known[name] for name in manifest.entries}
        write_records(run.path / PROBLEMS, manifest.problems)
        write_records(run.path / PICTURES, _pictures(manifest, gathered))
        atomic_write_text(run.path / TERMS, terms_text())
        report = _report(manifest, gathered)
        write_report(run, report, report_lines(report))
    if not report.pictures:
        raise UserError(f"no picture is there: {counts_text(report.outcomes)}; see {folder.stage(MANIFEST) / FETCHED}")
    return report


def read_pictures(folder: BuildFolder) -> list[Picture]:
    """Return the entries whose picture is there.

    Raises:
        UserError: where the stage did not run.
    """
    return read_records(require_output(folder.pictures, MANIFEST), Picture)


def _asked(manifest: Manifest, name: str) -> str | None:
    entry = manifest.entries.get(name)
    if entry is None:
        return None
    root = None if entry.path is None else str(manifest.roots[name].absolute())
    return stable_hash([entry.url, entry.path, root, entry.sha256])


def _gathered(
    run: RunFolder,
    manifest: Manifest,
    known: Mapping[str, Gathered],
    fetcher: Fetcher,
    settings: ManifestSettings,
) -> Iterator[Gathered]:
    """Yield what came of every entry: files first, which are looked at anew each time, then links."""
    links: dict[str, str] = {}
    for name, entry in manifest.entries.items():
        old = known.get(name)
        if entry.path is not None:
            yield _found(manifest, entry, old, fetcher.limits.max_bytes)
        elif old is not None and old.status == "ok" and (run.path / str(old.file)).is_file():
            yield old
        else:
            assert entry.url is not None
            links[name] = entry.url
    with asyncio.Runner() as runner:
        arriving = fetch_each(fetcher, links, concurrency=settings.concurrency)
        try:
            while (item := runner.run(_next(arriving))) is not None:
                name, fetched = item
                yield _stored(run, manifest, name, fetched)
        finally:
            runner.run(arriving.aclose())


async def _next(arriving: AsyncGenerator[tuple[str, Fetched], None]) -> tuple[str, Fetched] | None:
    return await anext(arriving, None)


def _found(manifest: Manifest, entry: ManifestEntry, old: Gathered | None, max_bytes: int) -> Gathered:
    """Return what is on disk; a file that was looked at before is only compared by its hash."""
    assert entry.path is not None
    asked = str(_asked(manifest, entry.id))
    try:
        file = resolve(manifest.roots[entry.id], entry.path).absolute()
        if file.exists() and not file.is_file():  # reading a pipe would never end
            return Gathered(id=entry.id, asked=asked, status="missing_file", message=f"{file} is no ordinary file")
        size = file.stat().st_size
        if size > max_bytes:
            return Gathered(id=entry.id, asked=asked, status="too_large", message=f"{size:,} bytes")
        sha256 = file_hash(file)
        if old is not None and old.status == "ok" and old.sha256 == sha256 and old.file == str(file):
            return old
        data = file.read_bytes()
    except (OSError, UserError) as error:
        return Gathered(id=entry.id, asked=asked, status="missing_file", message=str(error))
    return _looked_at(entry, asked, data, sha256, str(file))


def _stored(run: RunFolder, manifest: Manifest, name: str, fetched: Fetched) -> Gathered:
    """Keep what was fetched, if it is the picture that the manifest means."""
    entry, asked = manifest.entries[name], str(_asked(manifest, name))
    if fetched.data is None or fetched.sha256 is None:
        return Gathered(id=name, asked=asked, status=fetched.status, message=fetched.message)
    place = f"files/{fetched.sha256}"
    item = _looked_at(entry, asked, fetched.data, fetched.sha256, place)
    if item.status == "ok":
        atomic_write_bytes(run.path / place, fetched.data)
    return item.model_copy(update={"final_url": fetched.final_url if fetched.final_url != entry.url else None})


def _looked_at(entry: ManifestEntry, asked: str, data: bytes, sha256: str, file: str) -> Gathered:
    if entry.sha256 is not None and sha256 != entry.sha256:
        message = f"expected sha256 {entry.sha256}, got {sha256}"
        return Gathered(id=entry.id, asked=asked, status="changed", message=message, sha256=sha256)
    try:
        image = decode_image(data, entry.id)
    except UnreadableImageError as error:
        return Gathered(id=entry.id, asked=asked, status="unreadable_image", message=str(error), sha256=sha256)
    return Gathered(
        id=entry.id,
        asked=asked,
        status="ok",
        sha256=sha256,
        file=file,
        pixels=content_hash(image),
        width=image.width,
        height=image.height,
    )


def _pictures(manifest: Manifest, gathered: Mapping[str, Gathered]) -> list[Picture]:
    return [
        Picture(
            entry=entry,
            sha256=item.sha256 or "",
            file=item.file or "",
            pixels=item.pixels or "",
            width=item.width or 0,
            height=item.height or 0,
        )
        for name, entry in manifest.entries.items()
        if (item := gathered[name]).status == "ok"
    ]


def _report(manifest: Manifest, gathered: Mapping[str, Gathered]) -> ManifestReport:
    there = [entry for name, entry in manifest.entries.items() if gathered[name].status == "ok"]
    outcomes = Counter(item.status for item in gathered.values())
    links = [gathered[name].status for name, entry in manifest.entries.items() if entry.url is not None]
    return ManifestReport(
        num_entries=len(manifest.entries),
        outcomes={"ok": outcomes.pop("ok", 0), **dict(outcomes.most_common())},
        num_links=len(links),
        num_rotten=sum(status in LINK_ROT for status in links),
        pictures={role: count for role in ROLES if (count := sum(entry.role == role for entry in there))},
        names={role: len({entry.key for entry in there if entry.role == role}) for role in ROLES},
        num_problems=len(manifest.problems),
        terms=terms_hash(),
    )


def report_lines(report: ManifestReport) -> list[str]:
    """Return the report for people."""
    lines = [
        f"{report.outcomes['ok']:,} of {report.num_entries:,} pictures are there: {counts_text(report.outcomes)}",
        f"  pictures: {counts_text(report.pictures)}",
        f"  names: {counts_text(report.names)}",
    ]
    if report.num_links:
        lines.append(f"links that lead nowhere any more: {report.num_rotten:,} of {report.num_links:,}")
    if report.num_problems:
        lines.append(f"lines of manifests that cannot be used: {report.num_problems:,}; see {PROBLEMS}")
    return lines
