"""The stage sample: references for every bucket, and copies of their pictures for the stages that follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Literal, cast

from bench.mdmr.cases import ENTITIES, EXTRACTION, Origin
from data_build.mdmr.buckets import Bucket, read_buckets
from data_build.mdmr.candidates import NONE, Candidates, read_candidates
from data_build.mdmr.drawing import Drawer, Drawn
from data_build.mdmr.folder import ANNOTATE, GALLERY, SAMPLE, BuildFolder
from data_build.mdmr.pictures import iterate_pictures
from data_build.mdmr.samples import Sample, SampledReference
from data_build.mdmr.sampling_report import (
    PROBLEMS,
    MissingPicture,
    SampleReport,
    bucket_report,
    counts_of,
    report_lines,
)
from data_build.mdmr.settings import SampleSettings
from data_build.mdmr.tables import read_table
from data_build.mdmr.twins import Key, find_twins
from data_build.stages import require_output, write_report
from gnomon.datasets import write_records
from gnomon.errors import UserError
from gnomon.hashing import file_hash
from gnomon.images import save_png
from gnomon.progress import track
from gnomon.runs import RunFolder

COMMAND = "data build mdmr, sample"
DESIGNS, REASONING = "infographic_manipulation", "visual_reasoning"


def draw_samples(folder: BuildFolder, settings: SampleSettings) -> SampleReport:
    """Draw the samples of all buckets and copy their pictures; run again to go on after a stop.

    Raises:
        UserError: for settings out of range, files of buckets that cannot be read, stages that did not run or wrote
            something else since, and where no sample can be drawn at all.
    """
    _check(settings)
    buckets = read_buckets(settings.buckets)
    inputs = {
        "gallery": file_hash(require_output(folder.gallery, GALLERY)),
        "tags": file_hash(require_output(folder.tags, ANNOTATE)),
    }
    config = {**asdict(settings), "buckets": buckets}
    with RunFolder.open(folder.stage(SAMPLE), command=COMMAND, config=config, seed=settings.seed, inputs=inputs) as run:
        candidates = read_candidates(folder)
        samples, report = sample_all(candidates, buckets, settings)
        missing = _copy_pictures(folder, samples)
        problems = [
            MissingPicture(sample=sample.id, image=reference.image, message=missing[reference.image])
            for sample in samples
            for reference in sample.references
            if reference.image in missing
        ]
        left_out = {problem.sample for problem in problems}
        kept = _whole_pairs([sample for sample in samples if sample.id not in left_out])
        write_records(run.path / PROBLEMS, problems)
        report = report.model_copy(update={"num_missing": len(left_out), **counts_of(kept)})
        write_records(folder.samples, kept)
        write_report(run, report, report_lines(report))
    if not kept:
        raise UserError(f"no sample can be drawn; {run.path / 'report.txt'} says for each bucket what empties it")
    return report


def sample_all(
    candidates: Candidates, buckets: Sequence[Bucket], settings: SampleSettings
) -> tuple[list[Sample], SampleReport]:
    """Draw the samples of all buckets: the same for the same pictures, buckets and seed."""
    drawer = Drawer(candidates, max_uses=settings.max_uses, seed=settings.seed)
    asked = {bucket.name: settings.samples or bucket.samples for bucket in buckets}
    num_paired = -(-2 * settings.num_pairs // len(buckets))  # twice as many as needed: what was made may not fit
    drawn = {
        bucket.name: drawer.draw(bucket, asked[bucket.name], num_paired) for bucket in track(buckets, "drawing samples")
    }
    twins, num_unfit = find_twins(candidates, buckets, drawn, num=settings.num_pairs, seed=settings.seed)
    samples = [sample for bucket in buckets for sample in _samples(candidates, bucket, drawn[bucket.name], twins)]
    rows = [rows for one in drawn.values() for rows in one.rows.values()] + list(twins.values())
    categories = Counter(candidates.word("category", row) for references in rows for row in references)
    uses = Counter(Counter(row for references in rows for row in references).values())
    report = SampleReport(
        **counts_of(samples),
        num_asked=sum(asked.values()),
        num_unfit_pairs=num_unfit,
        num_missing=0,
        categories=dict(sorted(categories.items())),
        uses={str(number): count for number, count in sorted(uses.items())},
        buckets=[bucket_report(bucket, asked[bucket.name], drawn[bucket.name]) for bucket in buckets],
    )
    return samples, report


def _check(settings: SampleSettings) -> None:
    if not settings.buckets:
        raise UserError("expected files or folders of buckets under sample.buckets, got none")
    if settings.max_uses < 1 or settings.num_pairs < 0 or (settings.samples is not None and settings.samples < 1):
        raise UserError(
            "expected sample.max_uses and sample.samples >= 1 and sample.num_pairs >= 0, got "
            f"{settings.max_uses}, {settings.samples} and {settings.num_pairs}"
        )


def _samples(
    candidates: Candidates, bucket: Bucket, drawn: Drawn, twins: Mapping[Key, tuple[int, ...]]
) -> Iterator[Sample]:
    for number, rows in drawn.rows.items():
        name, second = f"{bucket.name}-{number:03d}", twins.get((bucket.name, number))
        yield _sample(candidates, bucket, name, rows, None if second is None else name)
        if second is not None:
            yield _sample(candidates, bucket, f"{name}-synthetic", second, name)


def _sample(candidates: Candidates, bucket: Bucket, name: str, rows: Sequence[int], pair_id: str | None) -> Sample:
    references = []
    for rule, row in zip(bucket.slots, rows, strict=True):
        code = candidates.name_codes(rule.role)[row]
        references.append(
            SampledReference(
                image=candidates.image(row),
                role=rule.role,
                name=None if code == NONE else candidates.names[code],
                attributes={attribute: candidates.word(attribute, row) for attribute in rule.has},
            )
        )
    return Sample(
        id=name,
        bucket=bucket.name,
        family=bucket.family,
        subtask=bucket.subtask,
        references=references,
        content_type=_content_type(candidates, bucket, rows),
        text_language=_text_language(candidates, bucket, rows),
        reference_origin=_origin(candidates, rows),
        pair_id=pair_id,
    )


def _content_type(candidates: Candidates, bucket: Bucket, rows: Sequence[int]) -> str:
    """Return the attribute or change where the sub-task is one, the roles where entities are fused, or a category."""
    if bucket.family == "attribute_transfer":
        return bucket.subtask
    if bucket.family == REASONING:
        return bucket.subtask.partition("_")[2]
    if bucket.family not in (DESIGNS, EXTRACTION):
        return "+".join(sorted({rule.role for rule in bucket.slots}, key=_rank))
    return candidates.word("category", rows[0])


def _rank(role: str) -> int:
    return ENTITIES.index(role) if role in ENTITIES else len(ENTITIES)


def _text_language(candidates: Candidates, bucket: Bucket, rows: Sequence[int]) -> Literal["en", "zh"] | None:
    column = candidates.words["text_language"]
    code = column.codes[rows[0]]
    language = column.words[code] if code != NONE else None
    return cast(Literal["en", "zh"], language) if bucket.family == DESIGNS and language in ("en", "zh") else None


def _origin(candidates: Candidates, rows: Sequence[int]) -> Origin:
    synthetic = {bool(candidates.synthetic[row]) for row in rows}
    return "mixed" if len(synthetic) == 2 else "synthetic" if True in synthetic else "real"


def _whole_pairs(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples; one whose pair lost the other one is of no pair."""
    sizes = Counter(sample.pair_id for sample in samples)
    return [
        sample.model_copy(update={"pair_id": None}) if sample.pair_id and sizes[sample.pair_id] == 1 else sample
        for sample in samples
    ]


def _copy_pictures(folder: BuildFolder, samples: Sequence[Sample]) -> dict[str, str]:
    """Write the pictures that are not there yet; return what is wrong with those that cannot be read."""
    ids = {reference.image for sample in samples for reference in sample.references}
    todo = {image for image in ids if not folder.picture(image).exists()}  # written whole or not at all
    gallery = read_table(folder.gallery, ["id", "source", "member"])
    columns = (gallery[name].to_pylist() for name in ("id", "source", "member"))
    wanted = {(source, member): image for image, source, member in zip(*columns, strict=True) if image in todo}
    missing = {}
    for image, picture in track(iterate_pictures(folder, wanted), "copying pictures", total=len(wanted)):
        if isinstance(picture, str):
            missing[image] = picture
        else:
            save_png(picture, folder.picture(image))
    return missing
