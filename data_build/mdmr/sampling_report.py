"""What the stage sample says of its samples and buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from bench.mdmr.cases import FAMILIES
from data_build.mdmr.buckets import Bucket
from data_build.mdmr.drawing import Drawn
from data_build.mdmr.samples import Sample
from data_build.stages import counts_text
from gnomon.records import Record

PROBLEMS = "problems.jsonl"


class BucketReport(Record):
    """What came of one bucket.

    Attributes:
        name: of the bucket.
        family: of it.
        subtask: of it.
        num_asked: samples that it should have.
        num_drawn: samples that it has, without the second of a pair.
        left: for each reference, each constraint in order and how many pictures are left after it.
        failures: samples that could not be filled, by what left no picture for them.
    """

    name: str
    family: str
    subtask: str
    num_asked: int
    num_drawn: int
    left: list[list[tuple[str, int]]]
    failures: dict[str, int]


class SampleReport(Record):
    """What was drawn.

    Attributes:
        num_samples: written, the second of each pair included.
        num_asked: by all buckets.
        num_pairs: samples that have a second one of synthetic pictures.
        num_unfit_pairs: samples whose synthetic pictures do not fit the rules.
        num_missing: samples left out because a picture can no longer be read.
        families: samples by family.
        subtasks: likewise by sub-task; one without samples is there with 0.
        num_references: samples by number of references.
        origins: samples by origin of their references.
        categories: references by category of their picture.
        uses: pictures by how many samples they are in.
        buckets: what came of each.
    """

    num_samples: int
    num_asked: int
    num_pairs: int
    num_unfit_pairs: int
    num_missing: int
    families: dict[str, int]
    subtasks: dict[str, int]
    num_references: dict[str, int]
    origins: dict[str, int]
    categories: dict[str, int]
    uses: dict[str, int]
    buckets: list[BucketReport]


class MissingPicture(Record):
    """A sample that is left out, and what is wrong with a picture of it."""

    sample: str
    image: str
    message: str


def report_lines(report: SampleReport) -> list[str]:
    """Return the report for people: counts, and what is wrong with each bucket that is not full."""
    lines = [
        f"{report.num_samples:,} samples, {report.num_pairs:,} of them the second of a pair; asked for: "
        f"{report.num_asked:,}",
        f"  families: {counts_text(report.families)}",
        f"  sub-tasks: {counts_text(report.subtasks)}",
        f"  references: {counts_text(report.num_references)}",
        f"  origins: {counts_text(report.origins)}",
        f"  categories of pictures: {counts_text(report.categories)}",
        f"  pictures by number of uses: {counts_text(report.uses)}",
    ]
    if report.num_unfit_pairs:
        lines.append(f"  samples whose synthetic pictures do not fit the rules: {report.num_unfit_pairs:,}")
    if report.num_missing:
        lines.append(f"  samples left out, as a picture cannot be read: {report.num_missing:,}; see {PROBLEMS}")
    for bucket in report.buckets:
        if bucket.num_drawn < bucket.num_asked:
            lines += _shortage(bucket)
    return lines


def _shortage(bucket: BucketReport) -> Iterator[str]:
    yield f"bucket {bucket.name}: {bucket.num_drawn} of {bucket.num_asked}; no picture left after: " + counts_text(
        bucket.failures
    )
    for number, steps in enumerate(bucket.left, start=1):
        yield f"  reference {number}: " + " > ".join(f"{label} {left:,}" for label, left in steps)


def counts_of(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the counts of a report that samples alone decide."""
    subtasks = Counter(f"{sample.family}/{sample.subtask}" for sample in samples)
    every = [f"{family}/{subtask}" for family, known in FAMILIES.items() for subtask in known]
    families = Counter(sample.family for sample in samples)
    return {
        "num_samples": len(samples),
        "num_pairs": sum(sample.pair_id is not None and sample.pair_id != sample.id for sample in samples),
        "families": {family: families[family] for family in FAMILIES},
        "subtasks": {subtask: subtasks[subtask] for subtask in every},
        "num_references": dict(sorted(Counter(str(len(sample.references)) for sample in samples).items())),
        "origins": dict(sorted(Counter(sample.reference_origin for sample in samples).items())),
    }


def bucket_report(bucket: Bucket, asked: int, drawn: Drawn) -> BucketReport:
    """Return what came of a bucket."""
    return BucketReport(
        name=bucket.name,
        family=bucket.family,
        subtask=bucket.subtask,
        num_asked=asked,
        num_drawn=len(drawn.rows),
        left=[[(step.constraint, step.left) for step in steps] for steps in drawn.steps],
        failures=dict(drawn.failures),
    )
