"""The manifest: what references there are and where they come from; never the pictures themselves.

Each line of a manifest is one picture. All pictures of a person have one `name`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import StringConstraints, model_validator

from data_build.cogcanvas.vocabulary import Role
from gnomon.jsonl import iterate_lines
from gnomon.records import Record

Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class ManifestEntry(Record):
    """One picture of a reference.

    Attributes:
        id: its own, for file names.
        role: what it shows.
        name: of the person, thing or place; what prompts say and searches asked for.
        url: where the file is; http or https.
        path: the same for a file that one has, below the folder of pictures.
        sha256: of the file's bytes; None where nobody fetched it yet.
        source: where it comes from, such as "CelebA-HQ" or a page.
        licence: its terms, as far as known.
        attributes: what is known of it already, in place of what a model would say; see
            :mod:`data_build.cogcanvas.attributes`.
    """

    id: Id
    role: Role
    name: Name
    url: str | None = None
    path: str | None = None
    sha256: Sha256 | None = None
    source: str | None = None
    licence: str | None = None
    attributes: dict[str, str | list[str]] | None = None

    @model_validator(mode="after")
    def _one_place(self) -> ManifestEntry:
        if (self.url is None) == (self.path is None):
            raise ValueError("expected exactly one of url and path")
        if self.path is not None and (PurePosixPath(self.path).is_absolute() or ".." in PurePosixPath(self.path).parts):
            raise ValueError(f"expected a path below the folder of pictures, got {self.path!r}")
        return self

    @property
    def key(self) -> str:
        """The name as it is compared."""
        return name_key(self.name)


class EntryProblem(Record):
    """A line of a manifest that cannot be used, and why."""

    file: str
    line: int
    message: str


def name_key(name: str) -> str:
    """Return a name as it is compared: without regard to case and blanks."""
    return re.sub(r"\s+", " ", name).strip().casefold()


@dataclass(frozen=True)
class Manifest:
    """All lines of some manifests.

    Attributes:
        entries: those that can be used, by id.
        roots: folder below which the path of an entry is, by its id.
        problems: the other lines.
    """

    entries: dict[str, ManifestEntry]
    roots: dict[str, Path]
    problems: list[EntryProblem]


def read_manifests(files: Sequence[Path], folder: Path | None = None) -> Manifest:
    """Read manifests; a line that cannot be used, and an id that was there before, is a problem, and the rest goes on.

    Args:
        files: JSON lines.
        folder: below which paths are; a manifest's own by default.

    Raises:
        UserError: for a file that cannot be read at all.
    """
    found = Manifest({}, {}, [])
    seen: set[str] = set()  # ids are file names, and two that differ in case alone are one file on some systems
    for file in files:
        for line in iterate_lines(file, ManifestEntry):
            entry, message = line.record, line.problem
            if entry is not None and entry.id.casefold() in seen:
                message = f"the id {entry.id!r} is there twice"
            if entry is None or message is not None:
                found.problems.append(EntryProblem(file=str(file), line=line.number, message=message or "broken line"))
                continue
            seen.add(entry.id.casefold())
            found.entries[entry.id] = entry
            found.roots[entry.id] = folder or file.parent
    return found
