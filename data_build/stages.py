"""What builds in stages have in common: one folder, a run folder below it for each stage, a report of each.

A stage reads what the stages before it wrote. Every one has `manifest.json`, and `report.json` with `report.txt`:
counts by outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from gnomon.errors import UserError
from gnomon.files import atomic_write_text
from gnomon.records import Record
from gnomon.runs import RunFolder

REPORT_JSON, REPORT_TEXT = "report.json", "report.txt"

Folder = TypeVar("Folder")
Stage = Callable[[Folder, Any], list[str]]
"""Runs with its settings, and returns its report for people."""


class StageFolder:
    """A folder with a run folder for each stage.

    Args:
        path: the folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def stage(self, name: str) -> Path:
        """Return the run folder of a stage."""
        return self.path / name


class Stages(Generic[Folder]):
    """The stages of one build that are to run.

    Args:
        functions: of each stage, by name, in their order.
        settings: likewise; None where a stage has none.
        stage: the only one to run; all that have settings by default.

    Attributes:
        names: those that run.

    Raises:
        UserError: where there is nothing to run, or the one stage has no settings.
    """

    def __init__(
        self, functions: Mapping[str, Stage[Folder]], settings: Mapping[str, object], stage: str | None
    ) -> None:
        self._functions, self._settings = functions, settings
        self.names = [name for name, given in settings.items() if given is not None] if stage is None else [stage]
        if not self.names:
            listed = ", ".join(settings)
            raise UserError(f"expected settings of at least one stage ({listed}), got none; use --config FILE")
        for name in self.names:
            if settings[name] is None:
                raise UserError(f"expected settings of the stage {name} under '{name}' in the config, got none")

    def run(self, folder: Folder, names: Sequence[str] | None = None) -> None:
        """Run these stages, all of them by default, and print the report of each."""
        for name in self.names if names is None else names:
            print(f"== {name}", flush=True)
            print("\n".join(self._functions[name](folder, self._settings[name])), flush=True)


def require_output(path: Path, stage: str) -> Path:
    """Return `path` where a stage wrote it.

    Raises:
        UserError: names the stage that has to run first.
    """
    if not path.is_file():
        raise UserError(f"expected {path} of the stage {stage}, there is none; run it first, with --stage {stage}")
    return path


def write_report(run: RunFolder, report: Record, lines: list[str]) -> None:
    """Write what a stage counted, as JSON and as text."""
    run.write_json(REPORT_JSON, report)
    atomic_write_text(run.path / REPORT_TEXT, "".join(f"{line}\n" for line in lines))


def counts_text(counts: Mapping[str, int]) -> str:
    """Return counts in one line, such as "ok 12, parse_error 1"."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"
