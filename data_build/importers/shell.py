"""What all importers share: from the files of a public set to a folder of comparisons or cases, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO

from data_build.importers.pictures import Pictures, store
from data_build.importers.rows import Row, RowError, RowStatus, find_files, iterate_rows
from data_build.importers.scored import Scored, comparisons_of
from gnomon.datasets import COMPARISONS
from gnomon.errors import UserError
from gnomon.files import writing_lines
from gnomon.hashing import stable_hash
from gnomon.jsonl import to_line
from gnomon.progress import track
from gnomon.records import Case, Comparison, Record, Split
from gnomon.runs import RunFolder

PROBLEMS = "problems.jsonl"
SUMMARY = "summary.json"


@dataclass(frozen=True)
class Importer:
    """How one public set is read.

    Attributes:
        hub: its name on the Hugging Face hub, or what else it is known by.
        convert: from a row to its comparisons, whose pictures it notes; or to single scored images, which are compared
            with each other when all rows are read; or, for a benchmark, to its cases.
        split: of all comparisons; None where the files' names say it.
        licence: noted in every comparison, where known.
        left_out: names of files that are not read, and why.
        file: what is written, `comparisons.jsonl` or `cases.jsonl`.
    """

    hub: str
    convert: Callable[[Row, Pictures], list[Comparison] | list[Scored] | list[Case]]
    split: Split | None = None
    licence: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    file: str = COMPARISONS


class RowProblem(Record):
    """A row that was left out, and why."""

    file: str
    row: int
    status: RowStatus
    message: str


class ImportSummary(Record):
    """What became of the rows of a public set."""

    name: str
    num_rows: int
    num_comparisons: int = 0
    num_cases: int = 0
    num_left_out: dict[str, int]


def import_dataset(
    name: str, importer: Importer, source: str | Path, out: str | Path, *, limit: int | None = None
) -> ImportSummary:
    """Write a comparison or case folder; run again to go on after a stop.

    A row that cannot be used is left out, counted by its status and listed with file and row in `problems.jsonl`.

    Args:
        name: of the importer; ids begin with it.
        importer: reads the rows.
        source: a folder with the set's files and pictures, or one of its files.
        out: the folder to write.
        limit: read only so many rows.

    Raises:
        UserError: without a file or a usable row, for a file that cannot be read, and where `out` holds something else.
    """
    source = Path(source)
    root = source if source.is_dir() else source.parent
    files = find_files(source, frozenset(importer.left_out))
    config = {"dataset": name, "source": source.name, "limit": limit}
    sizes = [[file.relative_to(root).as_posix(), file.stat().st_size] for file in files]  # hashing takes hours
    with RunFolder.open(out, command="data import", config=config, seed=0, inputs={"files": stable_hash(sizes)}) as run:
        shell = _Shell(name, importer, root, run.path)
        with writing_lines(run.path / importer.file) as records, writing_lines(run.path / PROBLEMS) as problems:
            for row in track(islice(_rows(files, root), limit), f"importing {name}"):
                shell.take(row, records, problems)
            shell.finish(records)
            if shell.num_comparisons + shell.num_cases == 0:
                shown = "; ".join(f"{status}: {count}" for status, count in shell.left_out.items())
                raise UserError(
                    f"expected rows of {importer.hub} at {source}, none of {shell.num_rows} can be used "
                    f"({shown}; the first: {shell.first_problem}); check the name of the data set and --from"
                )
        summary = ImportSummary(
            name=name,
            num_rows=shell.num_rows,
            num_comparisons=shell.num_comparisons,
            num_cases=shell.num_cases,
            num_left_out=shell.left_out,
        )
        run.write_json(SUMMARY, summary)
    return summary


def _rows(files: list[Path], root: Path) -> Iterator[Row]:
    for file in files:
        yield from iterate_rows(file, file.relative_to(root).as_posix())


class _Shell:
    """Takes rows and counts what became of them."""

    def __init__(self, name: str, importer: Importer, root: Path, out: Path) -> None:
        self._name, self._importer, self._root, self._out = name, importer, root, out
        self._scored: list[Scored] = []
        self._place_of: dict[str, str] = {}
        self.num_rows = self.num_comparisons = self.num_cases = 0
        self.left_out: dict[str, int] = {}
        self.first_problem = ""

    def take(self, row: Row, records: IO[str], problems: IO[str]) -> None:
        """Write the comparisons or cases of a row, or why there are none."""
        self.num_rows += 1
        pictures = Pictures(self._root)
        try:
            if row.problem is not None:
                raise RowError(row.problem)
            found = self._importer.convert(row, pictures)
            self._refuse_repeated([item for item in found if isinstance(item, Case)])
            store(pictures.sources, [self._root, (self._root / row.file).parent], self._out)
        except RowError as error:
            self.left_out[error.status] = self.left_out.get(error.status, 0) + 1
            self.first_problem = self.first_problem or f"{row.file}, row {row.number}: {error}"
            problem = RowProblem(file=row.file, row=row.number, status=error.status, message=str(error))
            problems.write(f"{to_line(problem)}\n")
            return
        for item in found:
            if isinstance(item, Scored):
                self._scored.append(item)
            elif isinstance(item, Case):
                self._place_of[item.id] = f"{row.file}, row {row.number}"
                records.write(f"{to_line(item)}\n")
                self.num_cases += 1
            else:
                self._write(item, records, row.split)

    def finish(self, records: IO[str]) -> None:
        """Write the comparisons of what was scored image by image."""
        for comparison in comparisons_of(self._scored):
            self._write(comparison, records, None)

    def _refuse_repeated(self, cases: list[Case]) -> None:
        """Refuse a case whose id the benchmark gave away before: its results could not be told apart."""
        for case in cases:
            if case.id in self._place_of:
                raise RowError(f"the id {case.id!r} is already that of {self._place_of[case.id]}", "duplicate")

    def _write(self, comparison: Comparison, records: IO[str], split: Split | None) -> None:
        added = {
            "id": f"{self._name}-{comparison.id}",
            "split": self._importer.split or comparison.split or split,
            "source": self._importer.hub,
            "licence": self._importer.licence,
        }
        records.write(f"{to_line(comparison.model_copy(update=added))}\n")
        self.num_comparisons += 1
