"""Rows of JSON, JSON-lines and parquet files, one by one, and what is taken out of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gnomon.errors import UserError
from gnomon.optional import require
from gnomon.records import Split

SUFFIXES = (".json", ".jsonl", ".parquet")

RowStatus = Literal[
    "bad_row",
    "empty_prompt",
    "unknown_cell",
    "duplicate",
    "missing_picture",
    "unreadable_picture",
    "not_comparable",
]
"""Why a row is left out: wrong fields, no instruction, a file of no known task, an id that came before, a file that is
not there or no picture, or nothing to compare in it."""

_BATCH = 16  # rows of a parquet file with three large pictures each are some 100 MB
_READ_BYTES = 2**20
_SPLITS: dict[str, Split] = {"train": "train", "valid": "validation", "test": "test"}


class RowError(ValueError):
    """One row cannot be imported; the text is for people."""

    def __init__(self, message: str, status: RowStatus = "bad_row") -> None:
        super().__init__(message)
        self.status: RowStatus = status


@dataclass(frozen=True)
class Row:
    """One row of a file.

    Attributes:
        file: relative path with forward slashes.
        number: from 1; the line of a JSON-lines file.
        data: the row's fields; anything but a mapping is refused where a field is looked up.
        problem: why there are no fields to look at, for people; None where there are.
    """

    file: str
    number: int
    data: Any
    problem: str | None = None

    @property
    def id(self) -> str:
        """A name that no other row of the data set has."""
        return f"{Path(self.file).with_suffix('').as_posix().replace('/', '-')}-{self.number:07d}"

    @property
    def split(self) -> Split | None:
        """The split that the file's name begins with; None where it names none."""
        name = Path(self.file).name.lower()
        return next((split for prefix, split in _SPLITS.items() if name.startswith(prefix)), None)

    def get(self, *names: str) -> Any:
        """Return the first of these fields that is there and not null, or None."""
        if not isinstance(self.data, dict):
            raise RowError(f"expected an object with fields, got {type(self.data).__name__}")
        return next((self.data[name] for name in names if self.data.get(name) is not None), None)

    def text(self, *names: str) -> str:
        """Return the text under the first of these fields that is there.

        Raises:
            RowError: when there is none.
        """
        value = self.get(*names)
        if not isinstance(value, str) or not value.strip():
            raise RowError(f"expected a text under {_or(names)}, got {value!r:.80}")
        return value.strip()

    def optional_text(self, *names: str) -> str | None:
        """Return a text as :meth:`text`, or None where there is no such field or an empty one."""
        value = self.get(*names)
        return None if value is None or value == "" else self.text(*names)

    def number_of(self, name: str) -> float | None:
        """Return the number under `name`; None where there is none.

        Raises:
            RowError: for anything else than a finite number.
        """
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise RowError(f"expected a number under '{name}', got {value!r:.80}")
        return float(value)

    def items(self, name: str, count: int | None = None) -> list[Any]:
        """Return the list under `name`, of `count` items where that is given.

        Raises:
            RowError: for anything else.
        """
        value = self.get(name)
        if not isinstance(value, list) or (count is not None and len(value) != count):
            expected = "a list" if count is None else f"a list of {count}"
            raise RowError(f"expected {expected} under '{name}', got {value!r:.80}")
        return value


def _or(names: tuple[str, ...]) -> str:
    return " or ".join(f"'{name}'" for name in names)


def find_files(source: Path, left_out: frozenset[str]) -> list[Path]:
    """Return the files with rows at or below `source`, sorted; hidden ones and those named in `left_out` not.

    Raises:
        UserError: when there are none.
    """
    found = [source] if source.is_file() else sorted(source.rglob("*"))
    found = [path for path in found if path.suffix in SUFFIXES and path.name not in left_out and path.is_file()]
    # Download tools keep notes of their own in hidden folders.
    found = [path for path in found if not any(part.startswith(".") for part in path.relative_to(source).parts)]
    if not found:
        raise UserError(f"expected {', '.join(SUFFIXES)} files at or below {source}, found none; check --from")
    return found


def iterate_rows(file: Path, name: str) -> Iterator[Row]:
    """Yield the rows of a file; of a parquet file some are in memory at a time, and of a JSON-lines file one.

    A JSON file holds a list of rows, or an object with one list of them, such as `{"pairs": [...]}`.

    Args:
        file: where it is.
        name: what rows call it.

    Raises:
        UserError: for a file that cannot be read as a whole, and without pyarrow for a parquet file.
    """
    try:
        if file.suffix == ".parquet":
            yield from _parquet_rows(file, name)
        elif file.suffix == ".jsonl":
            yield from _json_lines(file, name)
        else:
            for number, data in enumerate(_json_rows(file), start=1):
                yield Row(name, number, data, _problem_of(data))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"expected a readable {file.suffix} file at {file}: {error}; download it again") from error


def _json_rows(file: Path) -> list[Any]:
    content = json.loads(file.read_text(encoding="utf-8-sig"))
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        content = lists[0] if len(lists) == 1 else None
    if not isinstance(content, list):
        raise UserError(
            f"expected a list of rows in {file}, or an object with one list; "
            "name another file itself with --from to leave this one out"
        )
    return content


def _json_lines(file: Path, name: str) -> Iterator[Row]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    data = json.loads(line)
                except (ValueError, RecursionError) as error:
                    yield Row(name, number, None, f"expected JSON: {error}")
                else:
                    yield Row(name, number, data, _problem_of(data))


def _problem_of(data: Any) -> str | None:
    r"""Say that a text holds half a character, as JSON may write it ("\ud83d"): no file can hold that."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return f"expected texts of whole characters, got {error.object[error.start]!r}"
    return None


def _parquet_rows(file: Path, name: str) -> Iterator[Row]:
    parquet = require("pyarrow.parquet", feature="reading parquet files", extra="data")
    arrow = require("pyarrow", feature="reading parquet files", extra="data")
    number = 0
    try:
        # With its own pre-buffering pyarrow would read all row groups at once, which are whole sets of pictures.
        with parquet.ParquetFile(file, pre_buffer=False, buffer_size=_READ_BYTES) as table:
            for batch in table.iter_batches(batch_size=_BATCH):
                for data in batch.to_pylist():
                    number += 1
                    yield Row(name, number, data)
    except arrow.ArrowInvalid as error:
        raise UserError(f"expected a parquet file at {file}: {error}; download it again") from error
