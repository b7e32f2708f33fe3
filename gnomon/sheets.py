"""Sheets (CSV): read cell by cell with line numbers, and written for people to fill in and read back as records."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from gnomon.errors import UserError
from gnomon.files import atomic_write_text
from gnomon.jsonl import Line, Model, describe

_FORMULA = re.compile(r"'*[=+@\t\r-]")


def iterate_cells(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row that is not blank, without the spaces around them, and the number of its first line.

    UTF-8 with or without a byte order mark; any line ends.

    Raises:
        UserError: for a file that cannot be read or is no CSV, with the line where it is known.
    """
    end = 0
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for cells in reader:
                line, end = end + 1, reader.line_num
                stripped = [cell.strip() for cell in cells]
                if any(stripped):
                    yield line, stripped
    except csv.Error as error:
        raise UserError(f"{path}:{end + 1}: expected a row of comma-separated cells: {error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"expected UTF-8 text in {path}, got byte {error.start} wrong; save it as UTF-8") from error
    except OSError as error:
        raise UserError(f"expected a readable CSV file at {path}: {error.strerror or error}") from error


def write_sheet(path: str | Path, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    """Write a sheet with a header, atomically, in UTF-8 with a byte order mark, which spreadsheet programs look for.

    A cell that such a program would take for a formula gets an apostrophe in front.

    Args:
        path: the file.
        columns: the header.
        rows: a text for each column; one that a row lacks is left empty.

    Raises:
        UserError: when the system refuses to write.
    """
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="", lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: f"'{cell}" if _FORMULA.match(cell) else cell for name, cell in row.items()})
    atomic_write_text(path, f"\ufeff{buffer.getvalue()}")


def iterate_sheet(
    path: str | Path, model: type[Model], *, filled_in: Sequence[str] = (), shown: Sequence[str] = ()
) -> Iterator[Line[Model]]:
    """Yield the rows of a sheet that somebody filled in, as records or with their problem.

    An empty cell is a missing key. The apostrophe that :func:`write_sheet` puts in front of a cell is taken away.

    Args:
        path: the file, with a header.
        model: what a row is; its fields are columns, in any order.
        filled_in: columns for people to fill in; a row in which all of them are empty is passed over.
        shown: columns for people to look at, which are no fields.

    Raises:
        UserError: for a file that cannot be read, and a header with a column too many or one missing.
    """
    columns: list[str] | None = None
    for number, cells in iterate_cells(path):
        if columns is None:
            columns = _checked_header(path, number, cells, model, shown)
        elif len(cells) != len(columns):
            yield Line(number, None, f"expected {len(columns)} cells, got {len(cells)}; put quotes around commas")
        else:
            row = {name: _plain(cell) for name, cell in zip(columns, cells, strict=True) if cell and name not in shown}
            if not filled_in or any(name in row for name in filled_in):
                yield _line(number, row, model)
    if columns is None:
        raise UserError(f"expected a header {','.join(_required(model))} in {path}, got an empty file")


def _plain(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _line(number: int, row: Mapping[str, str], model: type[Model]) -> Line[Model]:
    try:
        return Line(number, model.model_validate(row), None)
    except ValidationError as error:
        return Line(number, None, describe(error))


def _required(model: type[Model]) -> list[str]:
    return [name for name, field in model.model_fields.items() if field.is_required()]


def _checked_header(
    path: str | Path, number: int, columns: list[str], model: type[Model], shown: Sequence[str]
) -> list[str]:
    missing = [name for name in _required(model) if name not in columns]
    unknown = [name for name in columns if name not in model.model_fields and name not in shown]
    if missing or unknown or len(set(columns)) < len(columns):
        others = [name for name in model.model_fields if name not in _required(model)] + list(shown)
        raise UserError(
            f"{path}:{number}: expected a header {','.join(_required(model))}, each once, and at most "
            f"{','.join(others) or 'nothing'} besides, got {','.join(columns)}; rename, add or remove columns"
        )
    return columns
