"""A mapping file, which says what picture in a folder belongs to which case: JSON, JSON lines or CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from bench.placement import inside, is_file, nearest
from gnomon.errors import UserError
from gnomon.jsonl import describe, iterate_lines, unique_keys
from gnomon.records import Case, Record

_NUM_SHOWN = 3


class _Row(Record):
    """One line of a mapping file."""

    case_id: str = Field(min_length=1)
    path: str
    seed: int | None = None


class ByMapping:
    """A file that says which picture belongs to which case: JSON, JSON lines or CSV.

    Rows have `case_id` and `path` (below the folder), and `seed` in all of them or in none; JSON may also be one
    object from id to path.
    """

    def __init__(self, file: Path) -> None:
        """Read the file.

        Raises:
            UserError: names the rows that are wrong.
        """
        self.file = Path(file)
        self._paths: dict[tuple[str, int | None], str] = {}
        self._places: dict[str, str] = {}
        problems: list[str] = []
        for place, row in _rows(self.file):
            problem = row if isinstance(row, str) else self._add(place, row)
            if problem:
                problems.append(f"{place}: {problem}")
        if len({seed is None for _, seed in self._paths}) > 1:
            problems.append(f"{self.file}: expected a seed in every row or in none")
        _refuse(problems)
        self.has_seeds = any(seed is not None for _, seed in self._paths)

    def _add(self, place: str, row: _Row) -> str | None:
        """Keep a row; return what is wrong with it."""
        try:
            path = inside(row.path, "path")
        except UserError as error:
            return str(error)
        key = (row.case_id, row.seed)
        if key in self._paths:
            return f"case {row.case_id!r}{_seed_text(row.seed)} has a path already, {self._paths[key]!r}"
        self._paths[key] = path
        self._places.setdefault(row.case_id, place)
        return None

    @property
    def label(self) -> str:
        """The file's absolute path."""
        return f"mapping {self.file.resolve()}"

    def check(self, cases: Sequence[Case]) -> None:
        """Make sure that it names no case that does not exist.

        Raises:
            UserError: names the rows and the case ids nearest to theirs.
        """
        ids = {case.id for case in cases}
        unknown = [case_id for case_id in self._places if case_id not in ids]
        # Looking for the nearest takes a while among thousands, so only what is shown gets one.
        near = [nearest(case_id, ids) for case_id in unknown[:_NUM_SHOWN]] + [""] * len(unknown)
        _refuse(
            [
                f"{self._places[case_id]}: no case has the id {case_id!r}{hint}"
                for case_id, hint in zip(unknown, near, strict=False)
            ]
        )

    def name(self, case: Case, seed: int) -> str:
        """Return the path below the folder, or in words that there is none."""
        path = self._path(case, seed)
        if path is not None:
            return path
        return f"for case {case.id!r}{_seed_text(seed if self.has_seeds else None)} in {self.file.name}"

    def find(self, folder: str, case: Case, seed: int) -> list[str]:
        """Return the file that the mapping names, if it is there."""
        path = self._path(case, seed)
        return [file] if path is not None and is_file(file := f"{folder}/{path}") else []

    def _path(self, case: Case, seed: int) -> str | None:
        return self._paths.get((case.id, seed if self.has_seeds else None))


def _seed_text(seed: int | None) -> str:
    return "" if seed is None else f" with seed {seed}"


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        more = len(problems) - _NUM_SHOWN
        shown = "; ".join(problems[:_NUM_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        raise UserError(f"{shown}. Mend the rows of the mapping file")


def _rows(file: Path) -> Iterator[tuple[str, _Row | str]]:
    """Yield every row of a mapping file, or what is wrong with it, and where it stands."""
    readers = {".json": _json_rows, ".jsonl": _json_line_rows, ".csv": _csv_rows}
    if file.suffix.lower() not in readers:
        raise UserError(f"expected a mapping file that ends in {', '.join(readers)}, got {file}")
    try:
        yield from readers[file.suffix.lower()](file)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"expected a readable mapping file at {file}: {reason}") from error


def _json_line_rows(file: Path) -> Iterator[tuple[str, _Row | str]]:
    for line in iterate_lines(file, _Row):
        yield f"{file}:{line.number}", line.record if line.record is not None else line.problem or "broken line"


def _json_rows(file: Path) -> Iterator[tuple[str, _Row | str]]:
    try:
        content = json.loads(file.read_text(encoding="utf-8-sig"), object_pairs_hook=unique_keys)
    except ValueError as error:
        raise UserError(f"expected JSON in {file}: {error}") from error
    if isinstance(content, dict):
        content = [{"case_id": case_id, "path": path} for case_id, path in content.items()]
    if not isinstance(content, list):
        raise UserError(f"expected a list of rows, or an object from case id to path, in {file}")
    for number, row in enumerate(content, start=1):
        yield f"{file}, row {number}", _parsed(row)


def _csv_rows(file: Path) -> Iterator[tuple[str, _Row | str]]:
    with file.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream, restkey="(more)", strict=True)
        columns = reader.fieldnames or []
        if not {"case_id", "path"} <= set(columns) <= {"case_id", "path", "seed"}:
            raise UserError(
                f"{file}:1: expected the columns case_id,path or case_id,path,seed, got {','.join(columns)}"
            )
        for row in reader:
            yield f"{file}:{reader.line_num}", _parsed({name: text for name, text in row.items() if text})


def _parsed(row: Any) -> _Row | str:
    try:
        return _Row.model_validate(row)
    except ValidationError as error:
        return describe(error)
