"""Dataset folders: `cases.jsonl` or `comparisons.jsonl` beside the pictures that they name.

Readers stop at the first error with file and line; :func:`validate` goes through everything, opens every
picture and lists all errors at once.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Generic, TypeVar

from gnomon.conflicts import Conflicts
from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_hash
from gnomon.images import UnreadableImageError, content_hash
from gnomon.jsonl import iterate_lines, read_records, uncollected, write_records
from gnomon.records import Case, Comparison
from gnomon.skew import FirstSide
from gnomon.statistics import Estimate

__all__ = [
    "CASES",
    "COMPARISONS",
    "Problem",
    "ValidationReport",
    "dataset_hash",
    "picture_paths",
    "read_cases",
    "read_comparisons",
    "read_records",
    "resolve",
    "validate",
    "write_records",
]

CASES = "cases.jsonl"
COMPARISONS = "comparisons.jsonl"
_MAX_SHOWN = 200  # a report longer than this is no longer read; the counts stay complete

DatasetRecord = TypeVar("DatasetRecord", bound=Case | Comparison)


@dataclass(frozen=True)
class _CheckedLine(Generic[DatasetRecord]):
    """One line of a dataset file: the record, if it can be parsed, and all that is wrong short of the pixels."""

    number: int
    record: DatasetRecord | None
    problems: list[str]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a dataset, where it stands."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        """Return `file:line: message`."""
        return f"{self.file}:{self.line}: {self.message}"


@dataclass
class ValidationReport:
    """What :func:`validate` found: every problem, and what the folder holds.

    `labels` counts the judgements' labels per dimension. `first_is_better` says how often the earlier of two candidates
    is the better one where one is: an interval without one half means that the position gives the answer away.
    """

    root: str
    problems: list[Problem] = field(default_factory=list)
    records: dict[str, int] = field(default_factory=dict)
    num_pictures: int = 0
    tasks: dict[str, int] = field(default_factory=dict)
    splits: dict[str, int] = field(default_factory=dict)
    labels: dict[str, dict[str, int]] = field(default_factory=dict)
    first_is_better: dict[str, Estimate] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def label_shares(self) -> dict[str, dict[str, float]]:
        """Return, per dimension, the share of every label (each dimension adds up to 1)."""
        return {
            dimension: {label: count / sum(counts.values()) for label, count in counts.items()}
            for dimension, counts in self.labels.items()
        }

    def __str__(self) -> str:
        """Return the report as lines for a terminal."""
        lines = [str(problem) for problem in self.problems[:_MAX_SHOWN]]
        if len(self.problems) > _MAX_SHOWN:
            lines.append(f"... and {len(self.problems) - _MAX_SHOWN:,} more problems")
        lines += [f"{name}: {count:,} records" for name, count in self.records.items()]
        lines.append(f"pictures: {self.num_pictures:,}")
        for title, counts in (("tasks", self.tasks), ("splits", self.splits)):
            if counts:
                lines.append(f"{title}: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))
        lines.append(f"{self.root}: " + ("valid" if self.ok else f"{len(self.problems):,} problems"))
        return "\n".join(lines)


def resolve(root: str | Path, relative: str) -> Path:
    """Return the absolute path of a picture that a record names, and refuse one that leaves `root`.

    Args:
        root: the dataset folder; it may itself be reached through a link.
        relative: the path as the record holds it, below `root`, with forward slashes.

    Raises:
        UserError: for an absolute path, one with `..` or backslashes, or a link that points outside.
    """
    way_out = "use a path below the dataset folder, with forward slashes"
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if relative.startswith("/") or ".." in parts:
        raise UserError(f"the path {relative!r} leaves the dataset folder; {way_out}")
    if not parts or "\0" in relative or "\\" in relative:
        raise UserError(f"expected a relative path of a picture, got {relative!r}; {way_out}")
    try:
        # Most paths hold no link, and to follow the whole path to the dataset costs more than all else about a picture.
        steps = list(accumulate(parts, "{}/{}".format, initial=str(Path(root).absolute()).rstrip("/")))
        if not any(map(_is_link, steps[1:])):
            return Path(steps[-1])
        base = Path(root).resolve()
        target = (base / relative).resolve()
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError before Python 3.13
        raise UserError(f"the path {relative!r} cannot be followed: {error}; {way_out}") from error
    if not target.is_relative_to(base):
        raise UserError(f"the path {relative!r} leaves the dataset folder by a link to {target}; {way_out}")
    return target


def _is_link(path: str) -> bool:
    """Do as `Path.is_symlink` does, without the path, which takes longer to make."""
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def picture_paths(record: Case | Comparison) -> list[str]:
    """Return the relative paths of all pictures that `record` names, in order, repeats included."""
    paths = [reference.path for reference in record.references]
    if isinstance(record, Comparison):
        paths += [candidate.path for candidate in record.candidates]
    return paths


def read_cases(root: str | Path) -> list[Case]:
    """Read `cases.jsonl` of a dataset folder.

    Raises:
        UserError: with file and line, for a broken line, a duplicate id, a path that leaves the folder or a
            missing picture.
    """
    return _read(root, CASES, Case)


def read_comparisons(root: str | Path) -> list[Comparison]:
    """Read `comparisons.jsonl` of a dataset folder; raises like :func:`read_cases`."""
    return _read(root, COMPARISONS, Comparison)


def _read(root: str | Path, name: str, model: type[DatasetRecord]) -> list[DatasetRecord]:
    file = Path(root) / name
    if not _is_file(file):
        raise UserError(f"expected a dataset folder with {name}, got {root}; check the path")
    records = []
    with uncollected():
        lines = list(_check_lines(Path(root), file, model))
    for line in lines:
        if line.problems:
            raise UserError(
                f"{file}:{line.number}: {line.problems[0]}; "
                f"`gnomon data validate {root}` lists everything that is wrong"
            )
        if line.record is not None:
            records.append(line.record)
    return records


def _check_lines(root: Path, file: Path, model: type[DatasetRecord]) -> Iterator[_CheckedLine[DatasetRecord]]:
    first_line_of: dict[str, int] = {}
    existing: set[str] = set()
    for line in iterate_lines(file, model):
        record = line.record
        if record is None:
            yield _CheckedLine(line.number, None, [line.problem or "broken line"])
            continue
        problems = []
        first = first_line_of.setdefault(record.id, line.number)
        if first != line.number:
            problems.append(f"duplicate id {record.id!r}, first used on line {first}; give every record its own id")
        for path in picture_paths(record):
            problem = None if path in existing else _path_problem(root, path)
            if problem is None:
                existing.add(path)
            else:
                problems.append(problem)
        yield _CheckedLine(line.number, record, problems)


def _path_problem(root: Path, path: str) -> str | None:
    try:
        exists = _is_file(resolve(root, path))
    except UserError as error:
        return str(error)
    return None if exists else f"missing picture {path!r}; add the file or remove the record"


def _is_file(path: Path) -> bool:
    """Say whether there is a file.

    Raises:
        UserError: where the system cannot tell: a name that is too long, a folder that may not be entered.
    """
    try:
        return path.is_file()
    except OSError as error:
        raise UserError(
            f"cannot look for the file {path}: {error.strerror or error}; rename it or mend access"
        ) from error


@dataclass(frozen=True)
class _Picture:
    """What a picture's pixels said: their hash, or why they cannot be read."""

    hash: str | None
    problem: str | None


_MODELS: dict[str, type[Case] | type[Comparison]] = {CASES: Case, COMPARISONS: Comparison}


def validate(root: str | Path, *, against: str | Path | None = None) -> ValidationReport:
    """Check everything about a dataset folder, every picture's pixels included, and count what it holds.

    Pictures with the same pixels are one picture, whatever they are called.

    Args:
        root: the folder.
        against: another dataset folder, with which it may share no picture: what is tested on must be unknown to
            training.

    Raises:
        UserError: when a folder holds neither `cases.jsonl` nor `comparisons.jsonl`.
    """
    root = Path(root)
    files = _dataset_files(root)
    others = {} if against is None else _pixel_hashes(Path(against))
    report = ValidationReport(str(root))
    pictures: dict[str, _Picture] = {}
    sides = FirstSide()
    for name in files:
        _validate_file(root, name, pictures, report, others, sides)
    report.num_pictures = len(pictures)
    report.first_is_better = sides.estimates()
    return report


def _dataset_files(root: Path) -> list[str]:
    found = [name for name in _MODELS if _is_file(root / name)]
    if not found:
        raise UserError(f"expected a dataset folder with {CASES} or {COMPARISONS}, got {root}; check the path")
    return found


def _pixel_hashes(root: Path) -> dict[str, str]:
    """Return, by hash, the path of every readable picture that the records of a folder name."""
    pictures: dict[str, _Picture] = {}
    for name in _dataset_files(root):
        for line in _check_lines(root, root / name, _MODELS[name]):
            if line.record is not None:
                _unreadable_pictures(root, line.record, pictures)
    return {picture.hash: str(root / path) for path, picture in pictures.items() if picture.hash is not None}


def _validate_file(
    root: Path,
    name: str,
    pictures: dict[str, _Picture],
    report: ValidationReport,
    others: dict[str, str],
    sides: FirstSide,
) -> None:
    """Add one file's problems and counts to `report`; `pictures` remembers what each picture's pixels said."""
    file = root / name
    by_normal_path: dict[str, str] = {}
    conflicts = Conflicts(lambda path: by_normal_path.get(path, path))
    count = 0
    for line in _check_lines(root, file, _MODELS[name]):
        problems = list(line.problems)
        if line.record is not None:
            count += 1
            problems += _unreadable_pictures(root, line.record, pictures)
            problems += _shared_pictures(line.record, pictures, others)
            _count(line.record, report)
            if isinstance(line.record, Comparison):
                by_normal_path |= _hashes_by_normal_path(line.record, pictures)
                problems += conflicts.find(line.record, line.number)
                sides.add(line.record)
        report.problems += [Problem(str(file), line.number, problem) for problem in problems]
    report.records[name] = count
    if count == 0 and report.ok:
        report.problems.append(Problem(str(file), 1, "expected at least one record, the file is empty"))


def _unreadable_pictures(root: Path, record: Case | Comparison, pictures: dict[str, _Picture]) -> list[str]:
    problems = []
    for path in dict.fromkeys(picture_paths(record)):
        if path not in pictures:
            if _path_problem(root, path) is not None:
                continue  # reported with the line already
            pictures[path] = _look(resolve(root, path))
        problem = pictures[path].problem
        if problem is not None:
            problems.append(problem)
    return problems


def _look(path: Path) -> _Picture:
    try:
        return _Picture(content_hash(path), None)
    except UnreadableImageError as error:
        return _Picture(None, f"unreadable picture: {error}")


def _shared_pictures(record: Case | Comparison, pictures: dict[str, _Picture], others: dict[str, str]) -> Iterator[str]:
    """Name the pictures of a record that the other folder has as well."""
    for path in dict.fromkeys(picture_paths(record)) if others else ():
        other = others.get((pictures[path].hash if path in pictures else None) or "")
        if other is not None:
            yield f"the picture {path!r} has the same pixels as {other}; remove the records with it from one of the two"


def _hashes_by_normal_path(record: Comparison, pictures: dict[str, _Picture]) -> dict[str, str]:
    known = {path: pictures[path].hash for path in picture_paths(record) if path in pictures}
    return {str(PurePosixPath(path)): pixels for path, pixels in known.items() if pixels is not None}


def _count(record: Case | Comparison, report: ValidationReport) -> None:
    task = record.task or "(none)"
    split = record.split or "(none)"
    report.tasks[task] = report.tasks.get(task, 0) + 1
    report.splits[split] = report.splits.get(split, 0) + 1
    if isinstance(record, Comparison):
        for judgement in record.judgements:
            counts = report.labels.setdefault(judgement.dimension, {})
            counts[judgement.label] = counts.get(judgement.label, 0) + 1


_READERS: tuple[tuple[str, Callable[[Path], Sequence[Case | Comparison]]], ...] = (
    (CASES, read_cases),
    (COMPARISONS, read_comparisons),
)


def dataset_hash(root: str | Path) -> str:
    """Return the sha256 (hex) of a dataset: its JSON-lines files and the pixels of every picture they name.

    Picture files may be recompressed without loss and keep the hash; the JSON-lines files count byte by byte.

    Raises:
        UserError: where reading the dataset does.
    """
    root = Path(root)
    parts: dict[str, str] = {}
    for name, read in _READERS:
        if _is_file(root / name):
            parts[name] = file_hash(root / name)
            records = read(root)
            for path in sorted({path for record in records for path in picture_paths(record)}):
                parts[f"picture:{path}"] = content_hash(resolve(root, path))
    if not parts:
        raise UserError(f"expected a dataset folder with {CASES} or {COMPARISONS}, got {root}; check the path")
    return stable_hash(parts)


def dataset_stamp(root: str | Path, *, cases: Sequence[Case] | None = None) -> str:
    """Return a hash of the sizes and times of a dataset's files: far cheaper than :func:`dataset_hash`.

    An equal stamp means that nothing was written since; a different one says nothing, for files may be copied.

    Args:
        root: the dataset folder.
        cases: those that it holds, where they have been read already.

    Raises:
        UserError: where reading the dataset does.
    """
    root = Path(root)
    files = {name: root / name for name in (CASES, COMPARISONS) if _is_file(root / name)}
    records: list[Case | Comparison] = []
    for name, read in _READERS:
        if name in files:
            records += cases if name == CASES and cases is not None else read(root)
    paths = {path for record in records for path in picture_paths(record)}
    files |= {f"picture:{path}": resolve(root, path) for path in paths}
    return stable_hash({name: _stamp(path) for name, path in files.items()})


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]
