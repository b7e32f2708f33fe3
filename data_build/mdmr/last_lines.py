"""Append-only files of which the last line about a thing counts, without their records in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gnomon.errors import UserError

Facts = TypeVar("Facts")


class Place(NamedTuple):
    """Where the last line about something begins, in bytes, and what is kept of it."""

    offset: int
    facts: Any


def last_lines(path: Path, pick: Callable[[dict[str, Any]], tuple[str, Any]]) -> dict[str, Place]:
    """Return, by key, where the last line about it is; nothing where there is no file.

    Args:
        path: the file; each line a JSON object.
        pick: returns the key of a line and what is kept of it.

    Raises:
        UserError: for a line that is none of ours, with file and line.
    """
    found: dict[str, Place] = {}
    if not path.exists():
        return found
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                key, facts = pick(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(
                    f"{path}:{number}: expected a line that this run wrote: {error!r}; remove it, or use another --out"
                ) from error
            found[key] = Place(offset, facts)
            offset += len(line)
    return found


def lines_at(path: Path, offsets: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Yield the lines that begin at these places."""
    with path.open("rb") as file:
        for offset in offsets:
            file.seek(offset)
            yield json.loads(file.readline())
