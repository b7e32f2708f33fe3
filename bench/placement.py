"""Where in a folder the picture of a case lies: under its id, or where a pattern says.

Mapping files are in :mod:`bench.mapping`.
"""

from __future__ import annotations

import difflib
import glob
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from string import Formatter
from typing import Protocol
from urllib.parse import quote

from gnomon.errors import UserError
from gnomon.records import Case

ENDINGS = (".png", ".jpg", ".jpeg", ".webp")
PATTERNS = {"edit-compass": "*/{meta[cell]}/{meta[save_id]}"}
"""Layouts with a name, as patterns."""

MAX_STEM_BYTES = 200  # file systems take 255, and names add a seed and an ending
_UNSAFE = re.compile(r'[\x00-\x1f%/\\:*?"<>|]')
_FIELD = re.compile(r"case_id|seed|task|subtask|meta\[[^\[\]]+\]")
_NUM_SHOWN = 3


class Placement(Protocol):
    """Says where pictures lie below a folder."""

    @property
    def label(self) -> str:
        """What tells it from other placements."""
        ...

    @property
    def has_seeds(self) -> bool:
        """Whether a case may have a picture for each seed."""
        ...

    def check(self, cases: Sequence[Case]) -> None:
        """Make sure that it fits the cases of a dataset; raises UserError."""
        ...

    def name(self, case: Case, seed: int) -> str:
        """Return the path below the folder that is looked for, with the first of several endings, for people."""
        ...

    def find(self, folder: str, case: Case, seed: int) -> list[str]:
        """Return the files that are there: one, or none, or too many.

        Plain text goes in and out: to make paths takes longer than to look for the files.
        """
        ...


def file_stem(case_id: str) -> str:
    """Return the case id as a file name without ending: characters that file systems refuse as %XX, the rest as is.

    Of one that is longer than 200 bytes, the beginning and a hash. Different ids have different names.
    """
    stem = _UNSAFE.sub(lambda match: quote(match[0], safe=""), case_id)
    if len(stem.encode()) <= MAX_STEM_BYTES:
        return stem
    # "%~" is in no name as it is, so none is taken for a shortened one.
    ending = f"%~{hashlib.sha256(stem.encode()).hexdigest()[:32]}"
    return stem.encode()[: MAX_STEM_BYTES - len(ending)].decode(errors="ignore") + ending


def nearest(name: str, names: Iterable[str]) -> str:
    """Return ` (did you mean ...?)` with the name most like `name`, or nothing where none is."""
    near = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


@dataclass(frozen=True)
class ById:
    """`<case id>` with one of the usual endings, see :func:`file_stem`."""

    label = ""
    has_seeds = False

    def check(self, cases: Sequence[Case]) -> None:
        """Fit any cases."""

    def name(self, case: Case, seed: int) -> str:
        """Return the name of the file."""
        return file_stem(case.id) + ENDINGS[0]

    def find(self, folder: str, case: Case, seed: int) -> list[str]:
        """Return the files of that name."""
        return _with_endings(f"{folder}/{file_stem(case.id)}")


def _with_endings(path: str) -> list[str]:
    return [file for ending in ENDINGS if is_file(file := path + ending)]


def is_file(path: str) -> bool:
    """Do as `Path.is_file` does, without the path, which takes longer to make."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return False


class ByPattern:
    """A path with places that are filled from the case and its seed, such as `{task}/{case_id}_{seed}.png`.

    Places are `{case_id}`, `{seed}`, `{task}`, `{subtask}` and `{meta[KEY]}`, with a format where wanted (`{seed:03}`).
    A `*` stands for any name of a folder or part of one. Without one of the usual endings any of them will do.
    """

    def __init__(self, pattern: str) -> None:
        """Take the pattern, or the name of one (:data:`PATTERNS`) apart.

        Raises:
            UserError: names the place that is none.
        """
        self.pattern = PATTERNS.get(pattern, pattern)
        try:
            parts = list(Formatter().parse(self.pattern))
        except ValueError as error:
            raise UserError(f"expected a pattern of file names, got {pattern!r}: {error}") from error
        for _, field, _, conversion in parts:
            if field is not None and (conversion or not _FIELD.fullmatch(field)):
                raise UserError(
                    "expected the places {case_id}, {seed}, {task}, {subtask} and {meta[KEY]} in the pattern "
                    f"{pattern!r}, got {{{field}}}; or give the name of a pattern: {', '.join(PATTERNS)}"
                )
        self._parts = [(literal, field, spec or "") for literal, field, spec, _ in parts]
        fields = [field for _, field, _ in self._parts]
        self.has_seeds = "seed" in fields

    @property
    def label(self) -> str:
        """The pattern."""
        return f"pattern {self.pattern}"

    def check(self, cases: Sequence[Case]) -> None:
        """Make sure that it has a path of its own for every case.

        Raises:
            UserError: names the cases, or what one lacks.
        """
        owners: dict[str, str] = {}
        for case in cases:
            name = self.name(case, 0)
            owner = owners.setdefault(name, case.id)
            if owner != case.id:
                raise UserError(
                    f"expected a path of its own for every case, got {name!r} for {owner!r} and {case.id!r} by the "
                    f"pattern {self.pattern!r}; add a place to it that tells them apart, such as {{case_id}}"
                )

    def name(self, case: Case, seed: int) -> str:
        """Return the path below the folder.

        Raises:
            UserError: when the case lacks what a place asks for, or when the path leaves the folder.
        """
        name = self._filled(case, seed)
        return name if _has_ending(name) else name + ENDINGS[0]

    def find(self, folder: str, case: Case, seed: int) -> list[str]:
        """Return the files at that path."""
        name = self._filled(case, seed)
        if not any("*" in literal for literal, _, _ in self._parts):
            path = f"{folder}/{name}"
            return [path] * is_file(path) if _has_ending(name) else _with_endings(path)
        asked = "".join(
            "*".join(map(glob.escape, literal.split("*"))) + glob.escape(self._value(case, seed, field, spec))
            for literal, field, spec in self._parts
        )
        endings = ("",) if _has_ending(name) else ENDINGS
        found = (path for ending in endings for path in Path(folder).glob(asked + ending))
        return sorted(str(path) for path in found if path.is_file())

    def _filled(self, case: Case, seed: int) -> str:
        name = "".join(literal + self._value(case, seed, field, spec) for literal, field, spec in self._parts)
        return inside(name, f"the path of case {case.id!r}")

    def _value(self, case: Case, seed: int, field: str | None, spec: str) -> str:
        if field is None:
            return ""
        own: dict[str, object] = {"case_id": case.id, "seed": seed, "task": case.task, "subtask": case.subtask}
        value = own[field] if field in own else case.meta.get(field[len("meta[") : -1])
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise UserError(
                f"expected a text or a whole number for {{{field}}} of the pattern {self.pattern!r} in every case, got "
                f"{value!r} in {case.id!r}; its meta has {', '.join(case.meta) or 'nothing'}"
            )
        try:
            return format(value, spec)
        except ValueError as error:
            raise UserError(f"{{{field}:{spec}}} does not fit {value!r} of case {case.id!r}: {error}") from error


def _has_ending(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in ENDINGS


def inside(name: str, what: str) -> str:
    """Return a path that stays below its folder.

    Raises:
        UserError: for an absolute one and one with `..` or backslashes.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not path.parts:
        raise UserError(f"expected a path below the folder, with forward slashes, as {what}, got {name!r}")
    return str(path)


def unused_text(folder: Path, unused: Sequence[Path], waiting: Mapping[str, str]) -> str:
    """Return a sentence about pictures that no case asks for.

    Args:
        folder: where they are.
        unused: the pictures, at least one.
        waiting: by path below the folder, the ids of cases that lack theirs.
    """
    shown = []
    for path in unused[:_NUM_SHOWN]:
        name = path.relative_to(folder).as_posix()
        near = difflib.get_close_matches(name, list(waiting), n=1)
        shown.append(f"{name}{f' (nearest case without a picture: {waiting[near[0]]!r})' if near else ''}")
    more = ", ..." if len(unused) > _NUM_SHOWN else ""
    count = "1 picture in {} belongs" if len(unused) == 1 else f"{len(unused):,} pictures in {{}} belong"
    missing = f", and {len(waiting):,} that cases need are missing" if waiting else ""
    return f"{count.format(folder)} to no case: {', '.join(shown)}{more}{missing}; check the names"
