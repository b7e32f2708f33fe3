"""Galleries and tags without pictures, for what works on tables alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data_build.mdmr import index
from data_build.mdmr.annotations import COLUMNS, table_row
from data_build.mdmr.candidates import Candidates, read_candidates
from data_build.mdmr.folder import BuildFolder
from data_build.mdmr.tables import write_table


def candidates(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Candidates:
    """Return pictures with these tags, called 0, 1, 2, ...; `made_from` is the number of a real one."""
    build = BuildFolder(folder)
    for stage in ("gallery", "annotate"):
        build.stage(stage).mkdir(parents=True, exist_ok=True)
    images = [
        {
            "id": name_of(number),
            "source": "photos",
            "member": f"{number}.png",
            "width": row.get("side", 100),
            "height": 200,
            "origin": "real" if row.get("made_from") is None else "synthetic",
            "made_from": None if row.get("made_from") is None else name_of(row["made_from"]),
            "caption": None,
            "perceptual_hash": name_of(number),
        }
        for number, row in enumerate(rows)
    ]
    write_table(build.gallery, index.COLUMNS, images)
    said = [{name: value for name, value in row.items() if name not in ("side", "made_from")} for row in rows]
    write_table(build.tags, COLUMNS, [table_row(name_of(number), one) for number, one in enumerate(said)])
    return read_candidates(build)


def name_of(number: int) -> str:
    """Return the id of a picture by its number."""
    return f"{number:016x}"
