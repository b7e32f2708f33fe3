"""Hashes and seeds that are the same in every process, on every machine and in every Python version.

Python's own `hash()` is salted per process, so nothing here uses it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import operator
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import SupportsIndex

from pydantic import BaseModel

from gnomon.errors import UserError

_PLAIN = frozenset({str, int, bool, type(None)})
"""What most values are; records are made plain by the hundred thousand."""


def to_plain(value: object, key: str = "") -> object:
    """Turn nested records, dataclasses, paths, enums and tuples into what JSON can hold without loss.

    Args:
        value: the object.
        key: the dotted name of `value`, for messages.

    Raises:
        ValueError: for anything that JSON has no word for (NaN, infinity, a key that is no string, an object
            of another class), with the dotted key where it stands.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Enum):
        return to_plain(value.value, key)
    if isinstance(value, str | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"expected a finite number at '{key}', got {value}; write null where a value is missing")
        return value
    if isinstance(value, Path):
        return value.as_posix()
    if isinstance(value, BaseModel):
        return {name: item if type(item) in _PLAIN else to_plain(item, _dotted(key, name)) for name, item in value}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, key)
    if isinstance(value, Mapping):
        return {
            _string_key(name, key): item if type(item) in _PLAIN else to_plain(item, _dotted(key, name))
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            item if type(item) in _PLAIN else to_plain(item, _dotted(key, position))
            for position, item in enumerate(value)
        ]
    raise ValueError(
        f"expected numbers, texts, lists, mappings, paths, dataclasses or records at '{key}', "
        f"got {type(value).__module__}.{type(value).__qualname__}; convert it first"
    )


def _dotted(key: str, name: object) -> str:
    return f"{key}.{name}" if key else str(name)


def _string_key(name: object, key: str) -> str:
    # JSON would write 1 and "1" as the same key, and sort them differently before and after a round trip.
    if not isinstance(name, str):
        raise ValueError(f"expected only strings as keys of the mapping at '{key}', got {name!r}")
    return name


def stable_seed(*parts: str | SupportsIndex) -> int:
    """Derive a seed in 0..2^63 - 1 from strings and integers: `stable_seed(seed, case.id, sample)`.

    The parts are told apart: ("ab", "c") differs from ("a", "bc"), and 1 from "1".
    """
    text = json.dumps([part if isinstance(part, str) else int(operator.index(part)) for part in parts])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stable_hash(obj: object) -> str:
    """Return the sha256 (hex) of `obj` as canonical JSON: sorted keys, no blanks, ASCII.

    Raises:
        ValueError: where `to_plain` does.
    """
    text = json.dumps(to_plain(obj), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def file_hash(path: str | Path) -> str:
    """Return the sha256 (hex) of a file's bytes.

    Raises:
        UserError: when the file cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"expected a readable file at {path}: {error.strerror or error}") from error
