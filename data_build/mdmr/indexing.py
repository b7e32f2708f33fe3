"""The gallery's index: made from what was seen of all pictures, streaming, with arrays for what decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_build.mdmr.choosing import OK, OUTCOMES, Seen, by_source, choose, counted, names_of, resolve_names
from data_build.mdmr.index import COLUMNS
from data_build.mdmr.last_lines import last_lines, lines_at
from data_build.mdmr.settings import GallerySettings, Source
from data_build.mdmr.tables import write_table
from gnomon.files import writing_lines
from gnomon.jsonl import to_line
from gnomon.records import Record

LOOKS = "looks.jsonl"
LEFT_OUT = "left_out.jsonl"


class LeftOut(Record):
    """A picture, or a file with pictures, that is not used, and why."""

    source: str
    member: str
    status: str
    message: str


class GalleryReport(Record):
    """What became of the pictures.

    Attributes:
        settings: of this start.
        outcomes: counts of pictures, and of files that cannot be read (any further).
        outcomes_of_sources: likewise, by source.
        num_pairs: synthetic pictures whose real one is used as well.
        num_made_from_unknown: synthetic pictures that name one which is not there, not used, or one of several.
        num_unclear_facts: pictures that are used although what is said of them cannot be read.
    """

    settings: dict[str, Any]
    outcomes: dict[str, int]
    outcomes_of_sources: dict[str, dict[str, int]]
    num_pairs: int
    num_made_from_unknown: int
    num_unclear_facts: int


def look_key(source: str, member: str) -> str:
    """Return what a look is known by."""
    return f"{source}\0{member}"


class Indexer:
    """Turns looks into the index."""

    def __init__(
        self, path: Path, settings: GallerySettings, order: list[str], ranges: dict[str, tuple[int, int]]
    ) -> None:
        self._path, self._settings = path, settings
        known = last_lines(path / LOOKS, lambda line: (look_key(line["source"], line["member"]), None))
        # What is missing was in a file that broke off before it; that file is among the others.
        found = [[known[key].offset for key in order[start:end] if key in known] for start, end in ranges.values()]
        self._offsets = np.array([offset for offsets in found for offset in offsets], np.int64)
        ends = np.cumsum([0, *map(len, found)]).tolist()
        self._ranges = dict(zip(ranges, pairwise(ends), strict=True))

    def write(self) -> GalleryReport:
        """Write the table and what is left out; return the counts."""
        seen, asked = self._seen()
        outcomes, instead = choose(seen, min_side=self._settings.min_side, max_distance=self._settings.max_distance)
        # A duplicate's name is as good as that of the picture that is kept.
        kept = np.where(instead >= 0, instead, np.where(outcomes == OK, np.arange(len(outcomes)), -1))
        real = {name: self._kept_real(seen, kept, place) for name, place in self._resolved(asked).items()}
        self._write_left_out(outcomes, instead)
        num_pairs = num_unknown = num_unclear = 0

        def rows() -> Iterator[dict[str, Any]]:
            nonlocal num_pairs, num_unknown, num_unclear
            for place, line in zip(np.flatnonzero(outcomes == OK), self._lines(outcomes == OK), strict=True):
                name = line["made_from"] if seen.synthetic[place] else None
                origin = real[name] if name else None
                num_pairs += origin is not None
                num_unknown += bool(name) and origin is None
                num_unclear += line["message"] is not None
                made_from = None if origin is None else f"{int(seen.ids[origin]):016x}"
                facts = {"origin": "synthetic" if seen.synthetic[place] else "real", "made_from": made_from}
                yield {column: facts.get(column, line.get(column)) for column in COLUMNS}

        write_table(self._path / "gallery.parquet", COLUMNS, rows())
        settings = self._settings
        return GalleryReport(
            settings={**asdict(settings), "sources": {name: located(one) for name, one in settings.sources.items()}},
            outcomes=counted(outcomes),
            outcomes_of_sources=by_source(outcomes, self._ranges),
            num_pairs=num_pairs,
            num_made_from_unknown=num_unknown,
            num_unclear_facts=num_unclear,
        )

    def _lines(self, chosen: NDArray[np.bool_] | None = None) -> Iterator[dict[str, Any]]:
        offsets = self._offsets if chosen is None else self._offsets[chosen]
        return lines_at(self._path / LOOKS, offsets.tolist())

    def _seen(self) -> tuple[Seen, set[str]]:
        """Return what was seen as arrays, and the names of real pictures that synthetic ones give."""
        seen, asked = Seen.empty(len(self._offsets)), set()
        for name, (start, end) in self._ranges.items():
            seen.synthetic[start:end] = self._settings.sources[name].origin == "synthetic"
        for place, line in enumerate(self._lines()):
            seen.outcomes[place] = OUTCOMES.index(line["status"])
            if line["status"] == "ok":
                seen.ids[place], seen.hashes[place] = int(line["id"], 16), int(line["perceptual_hash"], 16)
                seen.sides[place] = line["width"], line["height"]
                if seen.synthetic[place] and line["made_from"]:
                    asked.add(line["made_from"])
        return seen, asked

    def _resolved(self, asked: set[str]) -> dict[str, int | None]:
        def named() -> Iterator[tuple[int, tuple[str, ...]]]:
            for place, line in enumerate(self._lines()):
                if self._settings.sources[line["source"]].origin == "real" and line["id"] is not None:
                    yield place, names_of(line["source"], line["member"], line["id"])

        return resolve_names(asked, named)

    def _kept_real(self, seen: Seen, kept: NDArray[np.int64], place: int | None) -> int | None:
        if place is None or kept[place] < 0 or seen.synthetic[kept[place]]:
            return None
        return int(kept[place])

    def _write_left_out(self, outcomes: NDArray[np.int8], instead: NDArray[np.int64]) -> None:
        places = np.flatnonzero(outcomes != OK)
        others = lines_at(self._path / LOOKS, self._offsets[np.maximum(instead[places], 0)].tolist())
        with writing_lines(self._path / LEFT_OUT) as file:
            for place, line, other in zip(places, self._lines(outcomes != OK), others, strict=True):
                status = OUTCOMES[outcomes[place]]
                message = line["message"]
                if status == "too_small":
                    message = f"{line['width']} x {line['height']}, expected at least {self._settings.min_side} a side"
                elif instead[place] >= 0:
                    message = f"kept instead: {other['source']}/{other['member']}"
                entry = LeftOut(source=line["source"], member=line["member"], status=status, message=message)
                file.write(f"{to_line(entry)}\n")


def located(source: Source) -> dict[str, Any]:
    """Return a source as JSON can hold it, with its whole path."""
    return {**asdict(source), "path": source.path.resolve().as_posix()}
