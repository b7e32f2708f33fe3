"""The stage annotate: tags of every picture of the gallery, by a model or out of a file that people have.

`annotations.jsonl` is append-only; of several lines about a picture the last counts. Run again, a model is asked about
what is new and what failed in a way that may pass (:data:`bench.folder.TRIED_AGAIN`); a file is read again as a whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

from bench.folder import TRIED_AGAIN
from data_build.mdmr.annotations import COLUMNS, Annotation, table_row
from data_build.mdmr.annotators import ask_for_tags, read_tags, reply_schema, texts_hash
from data_build.mdmr.folder import ANNOTATE, GALLERY, BuildFolder
from data_build.mdmr.last_lines import last_lines, lines_at
from data_build.mdmr.pictures import iterate_pictures
from data_build.mdmr.settings import AnnotateSettings
from data_build.mdmr.tables import read_table, write_table
from data_build.mdmr.tags_file import LineProblem, annotations_of_file
from data_build.stages import counts_text, require_output, write_report
from gnomon.datasets import write_records
from gnomon.errors import UserError
from gnomon.progress import track
from gnomon.records import Record
from gnomon.runs import RunFolder
from rm.protocols.asking import raw_text, read_reply
from rm.vlm.conversation import GenerationParameters

COMMAND = "data build mdmr, annotate"
ANNOTATIONS = "annotations.jsonl"
PROBLEMS = "problems.jsonl"
MAX_TOKENS = 2048


class AnnotateReport(Record):
    """What became of the pictures.

    Attributes:
        annotator: name of the model, or of the file.
        num_pictures: in the gallery.
        outcomes: pictures by status; "untagged" are those that nobody has said anything of yet.
        num_problems: lines of the file of tags that are about no picture, or cannot be read.
        categories: pictures that have tags, by category.
        entities: likewise, by kind of entity; a picture may have several.
        attributes: likewise, by attribute.
    """

    annotator: str
    num_pictures: int
    outcomes: dict[str, int]
    num_problems: int
    categories: dict[str, int]
    entities: dict[str, int]
    attributes: dict[str, int]


def annotate_gallery(folder: BuildFolder, settings: AnnotateSettings) -> AnnotateReport:
    """Annotate what is missing, and write the table of tags; run again to go on after a stop.

    Raises:
        UserError: when the gallery was not built, for settings out of range, a file that cannot be read, another model
            than before in the same folder, and where no picture has tags in the end.
    """
    name, config = _annotator(settings)
    gallery = read_table(require_output(folder.gallery, GALLERY), ["id", "source", "member"])
    with RunFolder.open(folder.stage(ANNOTATE), command=COMMAND, config=config, seed=0) as run:
        known = {image: place.facts for image, place in last_lines(run.path / ANNOTATIONS, _pick).items()}
        problems: list[LineProblem] = []
        ids = set(gallery["id"].to_pylist())
        if settings.file is not None:
            found, ids = annotations_of_file(settings.file, gallery, problems), set()
        else:
            found = _by_model(folder, settings, gallery, known)
        for annotation in found:
            ids.add(annotation.image)  # what a file no longer speaks of has no tags
            content = _pick(annotation.model_dump())[1]
            if known.get(annotation.image) != content:
                run.append(annotation, ANNOTATIONS)
                known[annotation.image] = content
        if settings.file is not None:
            write_records(run.path / PROBLEMS, problems)
        report = _write_table(run, gallery, ids, name, len(problems))
        write_report(run, report, report_lines(report))
    if not report.outcomes.get("ok"):
        raise UserError(f"no picture has tags: {counts_text(report.outcomes)}; see {run.path / ANNOTATIONS}")
    return report


def report_lines(report: AnnotateReport) -> list[str]:
    """Return the report for people."""
    lines = [f"{report.outcomes.get('ok', 0):,} of {report.num_pictures:,} pictures have tags by {report.annotator}"]
    lines.append(f"  outcomes: {counts_text(report.outcomes)}")
    if report.num_problems:
        lines.append(f"  lines about no picture, or that cannot be read: {report.num_problems:,}; see {PROBLEMS}")
    counts = {"categories": report.categories, "entities": report.entities, "attributes": report.attributes}
    return lines + [f"  {name}: {counts_text(numbers)}" for name, numbers in counts.items()]


def _annotator(settings: AnnotateSettings) -> tuple[str, dict[str, Any]]:
    """Return the annotator's name, and what makes the annotations those of another run."""
    if (settings.vlm is None) == (settings.file is None):
        raise UserError("expected exactly one of annotate.vlm and annotate.file")
    if settings.batch_size < 1 or (settings.limit is not None and settings.limit < 0):
        raise UserError(
            f"expected annotate.batch_size >= 1 and annotate.limit >= 0, got {settings.batch_size} and {settings.limit}"
        )
    if settings.vlm is None:
        assert settings.file is not None
        return settings.file.name, {"model": None}
    parameters = _parameters(settings)
    config = {"model": {settings.vlm.name: settings.vlm.fingerprint}, "texts": texts_hash()}
    return settings.vlm.name, {**config, "parameters": {**asdict(parameters), "schema": None}}


def _parameters(settings: AnnotateSettings) -> GenerationParameters:
    return replace(settings.parameters or GenerationParameters(max_tokens=MAX_TOKENS), schema=reply_schema())


def _pick(line: dict[str, Any]) -> tuple[str, tuple[str, int]]:
    """Return what an annotation is about, its status, and a hash of all it says for this process."""
    return line["image"], (line["status"], hash(json.dumps([line["tags"], line["reason"]], sort_keys=True)))


def _by_model(
    folder: BuildFolder, settings: AnnotateSettings, gallery: Any, known: dict[str, tuple[str, int]]
) -> Iterator[Annotation]:
    assert settings.vlm is not None
    columns = (gallery[name].to_pylist() for name in ("id", "source", "member"))
    todo = (row for row in zip(*columns, strict=True) if row[0] not in known or known[row[0]][0] in TRIED_AGAIN)
    wanted = {(source, member): image for image, source, member in islice(todo, settings.limit)}
    pictures = track(iterate_pictures(folder, wanted), f"asking {settings.vlm.name}", total=len(wanted))
    while batch := list(islice(pictures, settings.batch_size)):
        asked = [(image, picture) for image, picture in batch if not isinstance(picture, str)]
        replies = settings.vlm.generate([ask_for_tags(picture) for _, picture in asked], _parameters(settings))
        for (image, _), reply in zip(asked, replies, strict=True):
            reading = read_reply(reply, read_tags)
            yield Annotation(
                image=image,
                annotator=settings.vlm.name,
                tags=reading.value,
                status=reading.status,
                reason=reading.problem,
                raw=raw_text(reply),
            )
        for image, reason in batch:
            if isinstance(reason, str):
                status, name = "unreadable_image", settings.vlm.name
                yield Annotation.model_validate(
                    {"image": image, "annotator": name, "tags": None, "status": status, "reason": reason}
                )


def _write_table(run: RunFolder, gallery: Any, counting: set[str], annotator: str, num_problems: int) -> AnnotateReport:
    """Write the tags of the pictures that count, in the gallery's order, and count."""
    places = last_lines(run.path / ANNOTATIONS, lambda line: (line["image"], line["status"]))
    places = {image: place for image, place in places.items() if image in counting}
    ids = gallery["id"].to_pylist()
    outcomes = Counter(places[image].facts if image in places else "untagged" for image in ids)
    offsets = [places[image].offset for image in ids if image in places and places[image].facts == "ok"]
    counts: dict[str, Counter[str]] = {"categories": Counter(), "entities": Counter(), "attributes": Counter()}

    def rows() -> Iterator[dict[str, Any]]:
        for line in lines_at(run.path / ANNOTATIONS, offsets):
            tags = line["tags"]
            counts["categories"][tags["category"]] += 1
            counts["entities"].update({entity["kind"] for entity in tags["entities"]})
            counts["attributes"].update(list(tags["attributes"]))
            yield table_row(line["image"], tags)

    write_table(run.path / "tags.parquet", COLUMNS, rows())
    ordered = {name: dict(sorted(counter.items())) for name, counter in counts.items()}
    return AnnotateReport(
        annotator=annotator,
        num_pictures=len(ids),
        outcomes=dict(sorted(outcomes.items())),
        num_problems=num_problems,
        **ordered,
    )
