"""Pictures in the rows of parquet files, as Hugging Face datasets write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from data_build.mdmr.settings import Source
from data_build.mdmr.sources.items import Item, SourceProblem, Wanted, facts_of, stamp_of
from gnomon.datasets import resolve
from gnomon.errors import UserError
from gnomon.optional import require

_BATCH = 16  # rows in memory at a time: pictures of some MB each
_READ_BYTES = 2**20


def table_items(file: Path, name: str, source: Source, wanted: Wanted) -> Iterator[Item | SourceProblem]:
    """Yield the pictures of a parquet file that are wanted, or why it cannot be read any further.

    Row groups without a wanted row are not read.

    Args:
        file: where it is.
        name: what members call it.
        source: names the columns; without one of pictures the file cannot be read.
        wanted: says which rows are read.
    """
    parquet = require("pyarrow.parquet", feature="reading parquet files", extra="data")
    arrow = require("pyarrow", feature="reading parquet files", extra="data")
    stamp = stamp_of(file)
    try:
        # With its own pre-buffering pyarrow would read all row groups at once, which are whole sets of pictures.
        with parquet.ParquetFile(file, pre_buffer=False, buffer_size=_READ_BYTES) as table:
            columns = set(table.schema_arrow.names)
            if source.image not in columns:
                shown = ", ".join(sorted(columns))
                yield SourceProblem(name, stamp, f"expected a column {source.image!r} of pictures, got {shown}")
                return
            read = [column for column in (source.image, source.caption, source.made_from) if column in columns]
            for number, row in _rows(table, read, lambda number: wanted(f"{name}#{number}", stamp)):
                yield _item(f"{name}#{number}", stamp, row, source, file.parent)
    except (arrow.ArrowException, OSError) as error:
        yield SourceProblem(name, stamp, f"cannot be read as a parquet file (any further): {error}")


def _rows(table: Any, columns: list[str], wanted: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    first = 0
    for group in range(table.num_row_groups):
        num_rows = table.metadata.row_group(group).num_rows
        chosen = {number for number in range(first, first + num_rows) if wanted(number)}
        if chosen:
            number = first
            for batch in table.iter_batches(batch_size=_BATCH, row_groups=[group], columns=columns):
                for offset in range(batch.num_rows):
                    if number in chosen:
                        yield number, batch.slice(offset, 1).to_pylist()[0]
                    number += 1
        first += num_rows


def _item(member: str, stamp: str, row: Mapping[str, Any], source: Source, folder: Path) -> Item:
    value = row[source.image]
    if isinstance(value, dict):
        value = value.get("bytes") or value.get("path")
    data: Path | bytes | None = None
    problem = None
    if isinstance(value, bytes) and value:
        data = value
    elif isinstance(value, str) and value:
        try:
            data = resolve(folder, value)
        except UserError as error:
            problem = str(error)
    else:
        problem = f"expected a picture under {source.image!r}, got {value!r:.80}"
    return Item(member, stamp, data, **facts_of(row, source), problem=problem)
