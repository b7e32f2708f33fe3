"""Where the stages of a build keep their files: one folder, and below it one run folder for each stage.

    gallery/   looks.jsonl        what was seen of every picture of every source, append-only
               gallery.parquet    the pictures that are used: one row each, no pixels
               left_out.jsonl     the others, and why
               sources.json       where the pictures are
    annotate/  annotations.jsonl  tags or why there are none, append-only; of several lines the last counts
               tags.parquet       the tags
    sample/    samples.jsonl      references that fit together
               images/            their pictures, upright and without metadata, by id
    instruct/  instructions.jsonl whether a sample is a good case, and its instruction, append-only likewise
               review.csv         the good ones, for people to look through
    filter/    decisions.jsonl    which of these are kept, and why
               problems.jsonl     lines of reviews that do not count
    checklists/ checklists.jsonl  what was written for each case, append-only likewise
               blind.jsonl        what a model that sees no picture says to each question, append-only
               questions.jsonl    every question that was written, and what became of it
               incomplete.jsonl   cases that lack a dimension
    dataset/   cases.jsonl        the benchmark, with images/

Every stage also has `manifest.json`, and `report.json` with `report.txt`: counts by outcome. A stage reads what the
stages before it wrote and nothing else of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gnomon.errors import UserError
from gnomon.files import atomic_write_text
from gnomon.records import Record
from gnomon.runs import RunFolder

GALLERY, ANNOTATE, SAMPLE = "gallery", "annotate", "sample"
INSTRUCT, FILTER, CHECKLISTS, DATASET = "instruct", "filter", "checklists", "dataset"
REPORT_JSON, REPORT_TEXT = "report.json", "report.txt"


class BuildFolder:
    """Paths of one build.

    Args:
        path: the folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def stage(self, name: str) -> Path:
        """Return the run folder of a stage."""
        return self.path / name

    @property
    def gallery(self) -> Path:
        """The index of pictures."""
        return self.stage(GALLERY) / "gallery.parquet"

    @property
    def sources(self) -> Path:
        """Where the pictures of the index are."""
        return self.stage(GALLERY) / "sources.json"

    @property
    def tags(self) -> Path:
        """The tags of the pictures that have any."""
        return self.stage(ANNOTATE) / "tags.parquet"

    @property
    def samples(self) -> Path:
        """The samples."""
        return self.stage(SAMPLE) / "samples.jsonl"

    @property
    def instructions(self) -> Path:
        """What a model says of the samples."""
        return self.stage(INSTRUCT) / "instructions.jsonl"

    @property
    def decisions(self) -> Path:
        """Which samples with an instruction are kept."""
        return self.stage(FILTER) / "decisions.jsonl"

    @property
    def questions(self) -> Path:
        """Every question that was written."""
        return self.stage(CHECKLISTS) / "questions.jsonl"

    def picture(self, image: str) -> Path:
        """Return where the picture of a sample lies, by its id in the gallery."""
        return self.stage(SAMPLE) / "images" / f"{image}.png"


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
