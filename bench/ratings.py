"""Ratings as a CSV file in long form: `item,rater,value` and, if there are several tables in it, `group`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.statistics.ratings import Level, Ratings
from gnomon.errors import UserError
from gnomon.sheets import iterate_cells

REQUIRED = ("item", "rater", "value")
ONLY_GROUP = "all"
"""The name of the one group of a file without a column `group`."""


def read_ratings(path: Path, level: Level) -> dict[str, Ratings]:
    """Return the ratings of each group of a CSV file, groups in the order of the file.

    UTF-8 with or without a byte order mark; any line ends; columns in any order; spaces around a cell do not count. A
    row with an empty value says that there is none.

    Args:
        path: the file.
        level: labels may be any text for the nominal level and must be numbers for the others.

    Raises:
        UserError: names file and line of what is wrong: the header, a number of cells, an empty name, no number,
            a second value of one rater on one item; or the file, if it cannot be read or holds no rating.
    """
    groups: dict[str, list[tuple[str, str, str | float | None]]] = {}
    lines: dict[tuple[str, str, str], int] = {}
    for line, row in csv_rows(path, REQUIRED, ("group",)):
        group, item, rater = row.get("group", ONLY_GROUP), row["item"], row["rater"]
        for name, cell in (("group", group), ("item", item), ("rater", rater)):
            if not cell:
                raise UserError(f"{path}:{line}: expected a name in the column {name}, got an empty cell; fill it in")
        first = lines.setdefault((group, item, rater), line)
        if first != line:
            raise UserError(
                f"{path}:{line}: expected one row per item and rater, got a second one of item '{item}' by rater "
                f"'{rater}' (the first is in line {first}); delete one of them"
            )
        value = row["value"] if level == "nominal" or not row["value"] else _number(row["value"], path, line, level)
        groups.setdefault(group, []).append((item, rater, value if row["value"] else None))
    if not groups:
        raise UserError(f"expected ratings in {path}, got a header without rows; add a row per item and rater")
    return {group: Ratings.from_triples(triples, level) for group, triples in groups.items()}


def csv_rows(path: Path, required: Sequence[str], optional: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each row below the header, cells by column, with the number of its first line.

    Args:
        path: a CSV file, as :func:`gnomon.sheets.iterate_cells` takes it; columns in any order.
        required: columns that it has.
        optional: columns that it may have.

    Raises:
        UserError: names file and line of a wrong header or number of cells; or the file, if it cannot be read.
    """
    columns: list[str] | None = None
    for line, cells in iterate_cells(path):
        if columns is None:
            columns = _checked_header(cells, path, line, required, optional)
        elif len(cells) != len(columns):
            raise UserError(
                f"{path}:{line}: expected {len(columns)} cells ({','.join(columns)}), got {len(cells)}; "
                "put quotes around a cell with a comma in it"
            )
        else:
            yield line, dict(zip(columns, cells, strict=True))
    if columns is None:
        raise UserError(f"expected a header {','.join(required)} in {path}, got an empty file")


def _checked_header(
    columns: list[str], path: Path, line: int, required: Sequence[str], optional: Sequence[str]
) -> list[str]:
    missing = [name for name in required if name not in columns]
    unknown = [name for name in columns if name not in (*required, *optional)]
    if missing or unknown or len(set(columns)) != len(columns):
        several = "a column" if len(optional) == 1 else "the columns"
        raise UserError(
            f"{path}:{line}: expected the header {','.join(required)} and at most {several} {', '.join(optional)} "
            f"besides, got {','.join(columns)}; rename, add or remove columns"
        )
    return columns


def _number(text: str, path: Path, line: int, level: Level) -> float:
    try:
        number = math.nan if "_" in text else float(text)  # Python would read 1_000 as a number
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(
            f"{path}:{line}: expected a number, which the level {level} compares, got '{text}'; leave the cell empty "
            "where a rating is missing, or use --level nominal for labels"
        )
    return number
