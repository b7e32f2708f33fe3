"""Lines of JSON: one record a line, UTF-8, errors with file and line."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from gnomon.errors import UserError
from gnomon.files import atomic_write_text
from gnomon.hashing import to_plain

Model = TypeVar("Model", bound=BaseModel)
Part = TypeVar("Part")


@dataclass(frozen=True)
class Line(Generic[Model]):
    """One line of a file: its number (from 1) and either the record or what is wrong with it."""

    number: int
    record: Model | None
    problem: str | None


def to_line(record: BaseModel | Mapping[str, Any]) -> str:
    """Return `record` as one line of JSON, without the newline.

    Raises:
        ValueError: for NaN, infinity or objects that JSON cannot hold, with the dotted key.
    """
    return json.dumps(to_plain(record), ensure_ascii=False, allow_nan=False, separators=(", ", ": "))


def iterate_lines(path: str | Path, model: type[Model]) -> Iterator[Line[Model]]:
    """Yield every line of `path` that is not blank, parsed or with its problem.

    Raises:
        UserError: when the file cannot be read at all.
    """
    try:
        with Path(path).open("rb") as file:
            # Binary, because text mode would also end lines at a lone carriage return.
            for number, raw in enumerate(file, start=1):
                if raw.strip():
                    yield _parse(number, raw, model)
    except OSError as error:
        raise UserError(f"expected a readable file at {path}: {error.strerror or error}") from error


def _parse(number: int, raw: bytes, model: type[Model]) -> Line[Model]:
    try:
        text = raw.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
        # First with json: pydantic's parser keeps the last of two equal keys in silence and lets NaN into free fields.
        _STRICT.decode(text)
        return Line(number, model.model_validate_json(text), None)
    except UnicodeDecodeError as error:
        return Line(number, None, f"expected UTF-8, got the byte {raw[error.start]:#04x} at column {error.start + 1}")
    except json.JSONDecodeError as error:
        return Line(number, None, f"expected one JSON object on this line: {error.msg} at column {error.colno}")
    except ValidationError as error:
        return Line(number, None, describe(error))
    except (ValueError, RecursionError) as error:
        return Line(number, None, str(error))


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dictionary: an `object_pairs_hook`.

    Raises:
        ValueError: for a key that stands there twice.
    """
    result = dict(pairs)
    if len(result) < len(pairs):
        twice = next(key for position, (key, _) in enumerate(pairs) if key in dict(pairs[:position]))
        raise ValueError(f"expected every key once, got {twice!r} twice")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"expected finite numbers, got {name}")


_STRICT = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_refuse_constant)
"""Made once: a run has a hundred thousand lines."""


def describe(error: ValidationError) -> str:
    """Say all that a record's validation found, in our words where pydantic's are terse."""
    parts = []
    for item in error.errors(include_url=False):
        key = ".".join(str(step) for step in item["loc"])
        if item["type"] == "extra_forbidden":
            parts.append(f"unknown key '{key}'")
        elif item["type"] == "missing":
            parts.append(f"missing key '{key}'")
        else:
            got = "" if isinstance(item["input"], dict | list) else f", got {item['input']!r}"
            parts.append(f"{key or 'record'}: {item['msg']}{got}")
    return "; ".join(parts)


def read_records(
    path: str | Path, model: type[Model], *, drop_torn_tail: bool = False, ours: bool = False
) -> list[Model]:
    """Read all records of a JSON-lines file.

    Args:
        path: the file.
        model: the class of every line.
        drop_torn_tail: leave out a last line without a newline that is no record: what a killed writer left.
        ours: whether :func:`to_line` wrote every line, so that no key stands there twice; a third of the time.

    Raises:
        UserError: at the first broken line, with `file:line`, or when there is no such file.
    """
    return read_parts(path, model, _itself, drop_torn_tail=drop_torn_tail, ours=ours)


def _itself(record: Model) -> Model:
    return record


def read_parts(
    path: str | Path,
    model: type[Model],
    part: Callable[[Model], Part],
    *,
    drop_torn_tail: bool = False,
    ours: bool = False,
) -> list[Part]:
    """Read all records of a JSON-lines file as :func:`read_records` does, and keep of each only a part.

    A hundred thousand whole records are a few hundred MB, and letting go of them takes as long as a look at each.

    Args:
        path: the file.
        model: the class of every line.
        part: what is kept of a record; it is asked anew about all of them where a line is broken.
        drop_torn_tail: as for :func:`read_records`.
        ours: as for :func:`read_records`.
    """
    if ours and (found := _read_ours(path, model, part)) is not None:
        return found
    parts = []
    torn_tail = drop_torn_tail and not _ends_with_newline(path)
    with uncollected():
        lines = list(iterate_lines(path, model))
    for position, line in enumerate(lines):
        if line.record is not None:
            parts.append(part(line.record))
        elif not (torn_tail and position == len(lines) - 1):
            raise UserError(f"{path}:{line.number}: {line.problem}")
    return parts


def _read_ours(path: str | Path, model: type[Model], part: Callable[[Model], Part]) -> list[Part] | None:
    """Return a part of all records; None where something is wrong, which is then found line by line."""
    try:
        with uncollected(), Path(path).open("rb") as file:
            return [part(model.model_validate_json(raw)) for raw in file if not raw.isspace()]
    except (OSError, ValidationError):
        return None


@contextmanager
def uncollected() -> Iterator[None]:
    """Hold Python's collector back: records have no cycles, and it would go through all of them again and again.

    Whoever reads a hundred thousand records and lets go of them soon holds it back until then.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _ends_with_newline(path: str | Path) -> bool:
    try:
        with Path(path).open("rb") as file:
            if file.seek(0, 2) == 0:
                return True
            file.seek(-1, 2)
            return file.read(1) == b"\n"
    except OSError as error:
        raise UserError(f"expected a readable file at {path}: {error.strerror or error}") from error


def write_records(path: str | Path, records: Iterable[BaseModel | Mapping[str, Any]]) -> None:
    """Write one record a line, atomically: the old file stays until the new one is complete.

    Raises:
        UserError: when the system refuses to write.
        ValueError: for values that JSON cannot hold, with the dotted key.
    """
    atomic_write_text(path, "".join(f"{to_line(record)}\n" for record in records))
