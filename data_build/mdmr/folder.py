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

from pathlib import Path

from data_build.stages import StageFolder

GALLERY, ANNOTATE, SAMPLE = "gallery", "annotate", "sample"
INSTRUCT, FILTER, CHECKLISTS, DATASET = "instruct", "filter", "checklists", "dataset"


class BuildFolder(StageFolder):
    """Paths of one build."""

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
