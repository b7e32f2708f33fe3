"""Parquet tables: written some rows at a time, so that half a million rows never stand in memory as objects."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from gnomon.errors import UserError
from gnomon.files import TEMPORARY_SUFFIX, writing
from gnomon.optional import require

ROWS_PER_GROUP = 10_000
_FEATURE = "the gallery's index"


def write_table(path: Path, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows, group by group; the file appears under its name only when all is well.

    Args:
        path: the file.
        columns: pyarrow's name of each column's type; with `[]` behind it, lists of that.
        rows: a value, or None, for every column.

    Raises:
        UserError: when the system refuses to write, or pyarrow is missing.
    """
    arrow = require("pyarrow", feature=_FEATURE, extra="data")
    parquet = require("pyarrow.parquet", feature=_FEATURE, extra="data")
    schema = arrow.schema([(name, _type(arrow, alias)) for name, alias in columns.items()])
    temporary = path.parent / f".{path.name}{TEMPORARY_SUFFIX}"
    remaining = iter(rows)
    with writing(path):
        try:
            with parquet.ParquetWriter(temporary, schema) as writer:
                while group := list(islice(remaining, ROWS_PER_GROUP)):
                    writer.write_table(arrow.Table.from_pylist(group, schema=schema))
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def _type(arrow: Any, alias: str) -> Any:
    if alias.endswith("[]"):
        return arrow.list_(arrow.type_for_alias(alias.removesuffix("[]")))
    return arrow.type_for_alias(alias)


def read_table(path: Path, columns: Sequence[str] | None = None) -> Any:
    """Read some columns, or all, as a pyarrow table.

    Raises:
        UserError: for a file that is no such table, or lacks a column.
    """
    arrow = require("pyarrow", feature=_FEATURE, extra="data")
    parquet = require("pyarrow.parquet", feature=_FEATURE, extra="data")
    try:
        table = parquet.read_table(path, columns=None if columns is None else list(columns))
    except (arrow.ArrowException, OSError) as error:
        raise UserError(f"expected a table of an earlier stage at {path}: {error}; run that stage again") from error
    missing = [name for name in columns or () if name not in table.column_names]
    if missing:
        raise UserError(f"expected the columns {', '.join(missing)} in {path}; run the stage again that writes it")
    return table
