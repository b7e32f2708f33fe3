"""Pictures in tar archives, as WebDataset lays them out: members of one key are neighbours."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path, PurePosixPath

from data_build.mdmr.settings import Source
from data_build.mdmr.sources.items import PICTURES, Item, SourceProblem, Wanted, sidecar_facts, stamp_of

SUFFIXES = (".tar", ".tar.gz", ".tgz")


def archive_items(file: Path, name: str, source: Source, wanted: Wanted) -> Iterator[Item | SourceProblem]:
    """Yield the pictures of an archive that are wanted, or why it cannot be read any further.

    Args:
        file: where it is.
        name: what members call it.
        source: see :class:`data_build.mdmr.settings.Source`.
        wanted: says which are read; others are passed over.
    """
    stamp = stamp_of(file)
    try:
        with tarfile.open(file) as archive:
            for _, group in groupby((info for info in archive if info.isfile()), key=_key):
                members = list(group)
                yield from _group_items(archive, members, name, stamp, source, wanted)
    except (tarfile.TarError, OSError, EOFError) as error:
        yield SourceProblem(name, stamp, f"cannot be read as an archive (any further): {error}")


def _key(info: tarfile.TarInfo) -> str:
    path = PurePosixPath(info.name)
    return (path.parent / path.name.partition(".")[0]).as_posix()


def _group_items(
    archive: tarfile.TarFile,
    members: list[tarfile.TarInfo],
    name: str,
    stamp: str,
    source: Source,
    wanted: Wanted,
) -> Iterator[Item]:
    by_suffix = {PurePosixPath(info.name).suffix.lower(): info for info in members}
    pictures = [info for info in members if PurePosixPath(info.name).suffix.lower() in PICTURES]
    chosen = [(info, f"{name}#{info.name}") for info in pictures if wanted(f"{name}#{info.name}", stamp)]
    if not chosen:
        return
    described, text = (
        _content(archive, by_suffix[suffix]) if suffix in by_suffix else None for suffix in (".json", ".txt")
    )
    facts = sidecar_facts(described, text, source)
    for info, member in chosen:
        yield Item(member, stamp, _content(archive, info), **facts)


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(info)
    assert file is not None  # only regular files come here
    content = file.read()
    if len(content) < info.size:
        raise tarfile.ReadError(f"{info.name} is cut short")
    return content
