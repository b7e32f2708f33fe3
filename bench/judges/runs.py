"""The evaluations that are compared, and what a file says about the judges in them."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator

from gnomon.errors import UserError
from gnomon.records import Record
from gnomon.runs import read_manifest
from rm.scorers import PairSample, read_samples

COMMAND = "rm eval"
RESULTS = "results.json"


@dataclass(frozen=True)
class JudgeRun:
    """One finished evaluation.

    Attributes:
        label: the folder's name, or its path where two have one name.
        judge: the judge's name.
        identity: hashes of judge and data, by name.
        samples: what it said, per pair and dimension.
        missing: dimensions of the data that the judge does not have.
    """

    label: str
    judge: str
    identity: dict[str, str]
    samples: list[PairSample]
    missing: tuple[str, ...]


class About(Record):
    """A line of the file that says what the judges are; whatever is left empty is not known.

    Attributes:
        run: the run's label.
        family: models that differ in size alone share it.
        parameters: in billions.
        thinking: whether the judge thinks before it answers.
        rubrics: the texts that it was asked with.
    """

    run: str
    family: str | None = None
    parameters: float | None = Field(default=None, gt=0)
    thinking: Literal["on", "off"] | None = None
    rubrics: str | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_unknown(cls, value: object) -> object:
        return None if value == "" else value


def read_runs(paths: Sequence[str | Path]) -> list[JudgeRun]:
    """Read finished evaluations of the same pairs.

    Raises:
        UserError: for fewer than two, one that is given twice, a folder without a finished `gnomon rm eval`, and
            evaluations of different data: figures on different pairs do not stand in one table.
    """
    folders = [Path(path).resolve() for path in paths]
    if len(set(folders)) < 2 or len(set(folders)) < len(folders):
        raise UserError(f"expected at least two different run folders, got {', '.join(map(str, paths)) or 'none'}")
    names = Counter(folder.name for folder in folders)
    runs = [
        _read(Path(path), folder.name if names[folder.name] == 1 else str(path))
        for path, folder in zip(paths, folders, strict=True)
    ]
    for name, what in (("data", "pairs"), ("samples", "versions of an evaluation")):
        for path, run in zip(paths, runs, strict=True):
            if run.identity[name] != runs[0].identity[name]:
                raise UserError(
                    f"expected evaluations of the same pairs, {paths[0]} and {path} are of different {what}; run "
                    "`gnomon rm eval` on both with the same --data and --limit, and compare those"
                )
    return runs


def _read(path: Path, label: str) -> JudgeRun:
    manifest = read_manifest(path)
    if manifest is None or manifest.command != COMMAND:
        raise UserError(f"expected a run folder of `gnomon {COMMAND}` at {path}, found none; mend --runs")
    if manifest.status != "finished":
        raise UserError(f"{path} is not finished ({manifest.status}); run its `gnomon {COMMAND}` again to go on")
    results = json.loads((path / RESULTS).read_text(encoding="utf-8"))
    return JudgeRun(
        label,
        results["judge"],
        manifest.inputs,
        read_samples(path),
        (*results["not_applicable"],),
    )


def read_about(path: str | Path, labels: Sequence[str]) -> list[About]:
    """Read a CSV file with a column `run` and any of `family`, `parameters`, `thinking` and `rubrics`.

    Args:
        path: the file.
        labels: of the runs that it may speak of; it need not speak of all of them.

    Raises:
        UserError: with the line, for a run that is none of them or comes twice, an unknown column or a bad value.
    """
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            lines = [(reader.line_num, row) for row in reader]
            columns = reader.fieldnames or ()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"expected a CSV file at {path}: {error}") from error
    if "run" not in columns or not set(columns) <= set(About.model_fields):
        known = ", ".join(About.model_fields)
        raise UserError(f"expected the columns run and perhaps others of {known} in {path}, got {', '.join(columns)}")
    found: dict[str, About] = {}
    for number, row in lines:
        if None in row:
            raise UserError(
                f"{path}:{number}: expected {len(columns)} cells, got {len(columns) + len(row[None])}; put a text with "
                "commas in quotation marks"
            )
        try:
            about = About.model_validate(row)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(str(step) for step in first["loc"])
            raise UserError(f"{path}:{number}: {key}: {first['msg']}, got {first['input']!r}") from error
        if about.run not in labels or about.run in found:
            problem = "comes twice" if about.run in found else f"is none of the runs ({', '.join(labels)})"
            raise UserError(f"{path}:{number}: run {about.run!r} {problem}; mend the column run")
        found[about.run] = about
    return list(found.values())
