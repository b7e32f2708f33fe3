"""Where the stages of a build keep their files: one folder, and below it one run folder for each stage.

    manifest/    fetched.jsonl       what came of every entry, append-only; of several lines the last counts
                 files/              what was fetched, by hash; files that one has stay where they are
                 pictures.jsonl      the entries whose picture is there
                 problems.jsonl      lines of manifests that cannot be used
                 TERMS.md            the terms of use
    curate/      measured.jsonl      what backends say of every picture, append-only
                 vectors/            of embedders, by picture; may be deleted
                 curated.jsonl       the entries that are used
                 left_out.jsonl      the others, and why
                 review.csv          those that are used, for people to look through
    attributes/  answers.jsonl       what a model says of them, append-only
                 references.jsonl    the references with their attributes
                 left_out.jsonl      the others, and why
                 audit.csv           people, for annotators to say age, gender and ethnicity
    sample/      scenes.jsonl        who, with what, before which place
    write/       drafts.jsonl        prompts with graphs, append-only
    verify/      checks.jsonl        what a model says of each draft, append-only
                 decisions.jsonl     what became of every scene
                 review.csv          the latest drafts, for people to overrule the model
                 problems.jsonl      lines of reviews that do not count
    graphs/      graphs.jsonl        the complete graphs of the scenes that are kept
                 left_out.jsonl      scenes whose graphs cannot hold, and why
    questions/   questions.jsonl     the questions of each scene
    dataset/     cases.jsonl         the benchmark, with images/; not to be passed on
    release/     manifest.jsonl, prompts.jsonl, TERMS.md   what may be passed on; no picture

A stage reads what the stages before it wrote and nothing else of them.
"""

from __future__ import annotations

from pathlib import Path

from data_build.stages import StageFolder

MANIFEST, CURATE, ATTRIBUTES, SAMPLE = "manifest", "curate", "attributes", "sample"
WRITE, VERIFY, GRAPHS, QUESTIONS, DATASET, RELEASE = "write", "verify", "graphs", "questions", "dataset", "release"


class BuildFolder(StageFolder):
    """Paths of one build."""

    @property
    def pictures(self) -> Path:
        """The entries whose picture is there."""
        return self.stage(MANIFEST) / "pictures.jsonl"

    @property
    def curated(self) -> Path:
        """The entries that are used."""
        return self.stage(CURATE) / "curated.jsonl"

    @property
    def references(self) -> Path:
        """The references with their attributes."""
        return self.stage(ATTRIBUTES) / "references.jsonl"

    @property
    def scenes(self) -> Path:
        """Who, with what, before which place."""
        return self.stage(SAMPLE) / "scenes.jsonl"

    @property
    def drafts(self) -> Path:
        """Prompts with graphs."""
        return self.stage(WRITE) / "drafts.jsonl"

    @property
    def checks(self) -> Path:
        """What a model says of each draft."""
        return self.stage(VERIFY) / "checks.jsonl"

    @property
    def decisions(self) -> Path:
        """What became of every scene."""
        return self.stage(VERIFY) / "decisions.jsonl"

    @property
    def graphs(self) -> Path:
        """The complete graphs of the scenes that are kept."""
        return self.stage(GRAPHS) / "graphs.jsonl"

    @property
    def questions(self) -> Path:
        """The questions of each scene."""
        return self.stage(QUESTIONS) / "questions.jsonl"
