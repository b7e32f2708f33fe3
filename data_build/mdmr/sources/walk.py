"""All pictures below the path of a source, in the order of their names; they are read one at a time, decoded later.

Folders, parquet files and archives may lie side by side. What is said of a picture stands where such sets have it:

* beside a file: `<stem>.json` and `<stem>.txt`, or a line with its `file_name` in the folder's `metadata.jsonl`;
* in a parquet file: in further columns;
* in an archive: in the `.json` and `.txt` members with the picture's key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from data_build.mdmr.settings import Source
from data_build.mdmr.sources.archives import SUFFIXES as ARCHIVES
from data_build.mdmr.sources.archives import archive_items
from data_build.mdmr.sources.items import (
    PICTURES,
    Item,
    SourceProblem,
    Wanted,
    facts_of,
    sidecar_facts,
    stamp_of,
)
from data_build.mdmr.sources.tables import table_items
from gnomon.errors import UserError
from gnomon.hashing import stable_hash

METADATA = "metadata.jsonl"
Metadata = dict[str, dict[str, str | None]]
"""Caption and made_from, where they are said, by file name."""


def items(name: str, source: Source, wanted: Wanted) -> Iterator[Item | SourceProblem]:
    """Yield every picture of a source that is wanted, and files that cannot be read.

    Hidden files and folders belong to the system and to download tools.

    Args:
        name: of the source, for messages.
        source: where and what it is.
        wanted: says by member and stamp which pictures are read; others are passed over cheaply where that is possible.

    Raises:
        UserError: when there is nothing at the path.
    """
    if source.path.is_file():
        yield from _file_items(source.path, source.path.name, source, wanted, {})
        return
    if not source.path.is_dir():
        raise UserError(
            f"expected a folder or a file at {source.path}, there is none; check gallery.sources.{name}.path"
        )
    for parent, folders, files in os.walk(source.path):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        folder = Path(parent)
        metadata: Metadata = {}
        if METADATA in files:
            metadata, problem = _metadata(folder / METADATA, source)
            if problem is not None:
                file = folder / METADATA
                yield SourceProblem(file.relative_to(source.path).as_posix(), stamp_of(file), problem)
        for file_name in sorted(file for file in files if not file.startswith(".")):
            path = folder / file_name
            yield from _file_items(path, path.relative_to(source.path).as_posix(), source, wanted, metadata)


def _file_items(
    path: Path, member: str, source: Source, wanted: Wanted, metadata: Metadata
) -> Iterator[Item | SourceProblem]:
    lower = path.name.lower()
    if lower.endswith(".parquet"):
        yield from table_items(path, member, source, wanted)
    elif lower.endswith(ARCHIVES):
        yield from archive_items(path, member, source, wanted)
    elif lower.endswith(PICTURES):
        facts = _facts(path, source, metadata)
        try:
            # What is said of it may change later than the picture.
            stamp = stamp_of(path) + (f":{stable_hash(facts)[:8]}" if any(facts.values()) else "")
        except OSError as error:  # a link that leads nowhere
            yield SourceProblem(member, "", f"cannot be read: {error.strerror}")
            return
        if wanted(member, stamp):
            yield Item(member, stamp, path, **facts)


def _facts(path: Path, source: Source, metadata: Metadata) -> dict[str, str | None]:
    try:
        described, text = (_content(path.with_suffix(suffix)) for suffix in (".json", ".txt"))
    except OSError as error:
        return {"problem": f"what is said of it cannot be read: {error.filename}: {error.strerror}"}
    return sidecar_facts(described, text, source) | metadata.get(path.name, {})


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _metadata(file: Path, source: Source) -> tuple[Metadata, str | None]:
    """Return what is said of files by their names, and what is wrong with the first line that is broken."""
    found: Metadata = {}
    problem = None
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                data = json.loads(line)
                facts = facts_of(data, source)
                found[data["file_name"]] = {name: value for name, value in facts.items() if value is not None}
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                problem = problem or f"line {number}: expected an object with file_name: {error!r}"
    return found, problem
