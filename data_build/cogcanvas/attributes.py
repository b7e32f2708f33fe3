"""The stage attributes: what every reference is like, as the manifest says or by a model that is held to a schema.

What a manifest says of a reference stands in place of the model's words; where it says everything, no model is asked.
Source: Nguyen et al. 2026 (arXiv 2606.15867), section 3.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import ValidationError

from bench.cogcanvas.cases import ITEMS
from data_build.answers import Answer, ask_missing
from data_build.cogcanvas.asking import ask, require_model, run_config
from data_build.cogcanvas.audit import AuditReport, audited, write_audit_sheet
from data_build.cogcanvas.audit import report_lines as audit_lines
from data_build.cogcanvas.folder import ATTRIBUTES, CURATE, BuildFolder
from data_build.cogcanvas.manifest import Picture
from data_build.cogcanvas.references import (
    Attributes,
    DescribedReference,
    IdentityAttributes,
    ItemAttributes,
    attributes_model,
)
from data_build.cogcanvas.settings import AttributesSettings
from data_build.cogcanvas.terms import PACKAGE
from data_build.cogcanvas.vocabulary import SIZES, STRENGTH_OF, STRENGTHS, Age, Ethnicity, Gender
from data_build.stages import counts_text, require_output, write_report
from data_build.texts import load_texts, texts_hash
from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.images import UnreadableImageError, load_image
from gnomon.jsonl import describe, read_records, write_records
from gnomon.records import Record
from gnomon.runs import RunFolder
from rm.protocols.templates import compose, quoted
from rm.vlm.conversation import Conversation, GenerationParameters

COMMAND = "data build cogcanvas, attributes"
TEXTS, KEY = "attributes", "attributes"
ANSWERS, REFERENCES, LEFT_OUT, AUDIT = "answers.jsonl", "references.jsonl", "left_out.jsonl", "audit.csv"


class AttributesAnswer(Answer):
    """What a model says of one reference; `attributes` is None exactly where `status` is not "ok"."""

    attributes: Attributes | None = None


class Undescribed(Record):
    """A reference without attributes, and why."""

    id: str
    status: str
    reason: str | None


class AttributesReport(Record):
    """Counts: references by where their attributes come from, statuses, and what the pool is like.

    Attributes:
        num_references: that were curated.
        num_given: that the manifest says everything of.
        statuses: of the others, by the model's answer; "contradicts_schema" are words of the manifest that it refuses.
        people: identities by gender, age and ethnicity together, by the first picture of each.
        audit: what annotators say of people.
        items: objects and fashion items by size and by closeness of what people can do with them.
    """

    num_references: int
    num_given: int
    statuses: dict[str, int]
    people: dict[str, int]
    audit: AuditReport
    items: dict[str, int]


def describe_references(folder: BuildFolder, settings: AttributesSettings) -> AttributesReport:
    """Have every curated reference described; run again to go on after a stop.

    Raises:
        UserError: where the stage before did not run, without a model where one is needed, and where nothing is
            described in the end.
    """
    pictures = {item.entry.id: item for item in read_records(require_output(folder.curated, CURATE), Picture)}
    given = {name: complete for name, item in pictures.items() if (complete := _complete(item)) is not None}
    wanted = {name: _asked(item) for name, item in pictures.items() if name not in given}
    parameters = settings.parameters or GenerationParameters()
    if wanted:
        require_model(settings.vlm, ATTRIBUTES)
    config = {} if settings.vlm is None else run_config(settings.vlm, parameters, texts_hash(PACKAGE, TEXTS))
    with RunFolder.open(folder.stage(ATTRIBUTES), command=COMMAND, config=config, seed=0) as run:

        def ask_some(names: Sequence[str]) -> list[AttributesAnswer]:
            return _ask(folder, settings, parameters, [pictures[name] for name in names])

        answers = ask_missing(
            run,
            ANSWERS,
            AttributesAnswer,
            wanted,
            ask_some,
            batch_size=settings.batch_size,
            description="describing references",
        )
        found, left_out = _joined(pictures, given, answers)
        found, audit = audited(found, settings.audits)
        write_audit_sheet(run.path / AUDIT, found)
        write_records(run.path / REFERENCES, found)
        write_records(run.path / LEFT_OUT, left_out)
        report = _report(pictures, given, found, left_out, audit)
        write_report(run, report, report_lines(report))
    if not found:
        raise UserError(f"no reference is described: {counts_text(report.statuses)}; see {run.path / LEFT_OUT}")
    return report


def read_references(folder: BuildFolder) -> dict[str, DescribedReference]:
    """Return the references with their attributes, by id.

    Raises:
        UserError: where the stage did not run.
    """
    found = read_records(require_output(folder.references, ATTRIBUTES), DescribedReference)
    return {reference.id: reference for reference in found}


def ask_for_attributes(item: Picture, image: Any) -> Conversation:
    """Return the question for the attributes of a picture."""
    texts = load_texts(PACKAGE, TEXTS)
    role = item.entry.role
    kind = "item" if role in ITEMS else role
    words = {
        "ages": get_args(Age),
        "genders": get_args(Gender),
        "ethnicities": get_args(Ethnicity),
        "sizes": SIZES,
        "actions": tuple(STRENGTH_OF),
    }
    rules = texts["rules"][kind]
    for name, allowed in words.items():
        rules = rules.replace(f"{{{name}}}", ", ".join(allowed))
    values = {
        "role": texts["roles"][role],
        "name": quoted(item.entry.name),
        "form": texts["forms"][kind],
        "rules": rules,
    }
    return compose(texts, language="en", references=[image], candidates=[], values=values, names=["Picture"])


def _asked(item: Picture) -> str:
    return stable_hash([item.pixels, item.entry.role, item.entry.name])


def _complete(item: Picture) -> Attributes | None:
    """Return the attributes of the manifest where it has all that must be there."""
    try:
        return attributes_model(item.entry.role).model_validate(item.entry.attributes or {})
    except ValidationError:
        return None


def _ask(
    folder: BuildFolder, settings: AttributesSettings, parameters: GenerationParameters, items: Sequence[Picture]
) -> list[AttributesAnswer]:
    answers: dict[str, AttributesAnswer] = {}
    conversations: dict[str, dict[str, Conversation]] = {}
    for item in items:
        try:
            image = load_image(item.path(folder))
        except UnreadableImageError as error:
            answers[item.entry.id] = AttributesAnswer(
                about=item.entry.id, asked=_asked(item), status="unreadable_image", reason=str(error)
            )
            continue
        conversations.setdefault(item.entry.role, {})[item.entry.id] = ask_for_attributes(item, image)
    by_id = {item.entry.id: item for item in items}
    vlm = require_model(settings.vlm, ATTRIBUTES)
    for role, asked in conversations.items():
        for name, said in ask(vlm, parameters, KEY, attributes_model(role), asked).items():
            answers[name] = AttributesAnswer(
                about=name,
                asked=_asked(by_id[name]),
                status=said.reading.status,
                reason=said.reading.problem,
                raw=said.raw,
                attributes=said.reading.value,
            )
    return [answers[item.entry.id] for item in items]


def _joined(
    pictures: Mapping[str, Picture], given: Mapping[str, Attributes], answers: Mapping[str, AttributesAnswer]
) -> tuple[list[DescribedReference], list[Undescribed]]:
    found, left_out = [], []
    for name, item in pictures.items():
        if name in given:
            found.append(DescribedReference(picture=item, attributes=given[name]))
            continue
        answer = answers[name]
        if answer.attributes is None:
            left_out.append(Undescribed(id=name, status=answer.status, reason=answer.reason))
            continue
        both = {**answer.attributes.model_dump(), **(item.entry.attributes or {})}
        try:
            attributes = attributes_model(item.entry.role).model_validate(both)
        except ValidationError as error:
            left_out.append(Undescribed(id=name, status="contradicts_schema", reason=describe(error)))
            continue
        found.append(DescribedReference(picture=item, attributes=attributes))
    return found, left_out


def _report(
    pictures: Mapping[str, Picture],
    given: Mapping[str, Attributes],
    found: Sequence[DescribedReference],
    left_out: Sequence[Undescribed],
    audit: AuditReport,
) -> AttributesReport:
    people = {
        item.picture.entry.key: item.attributes
        for item in reversed(found)
        if isinstance(item.attributes, IdentityAttributes)
    }
    items = [item.attributes for item in found if isinstance(item.attributes, ItemAttributes)]
    statuses = Counter(item.status for item in left_out)
    return AttributesReport(
        num_references=len(pictures),
        num_given=len(given),
        statuses={"ok": len(found) - len(given), **dict(statuses.most_common())},
        audit=audit,
        people=dict(Counter(f"{one.gender}, {one.age}, {one.ethnicity}" for one in people.values()).most_common()),
        items={
            f"{size}, {strength}": sum(
                one.size_category == size and any(STRENGTH_OF[name] == strength for name in one.afforded_interactions)
                for one in items
            )
            for size in SIZES
            for strength in STRENGTHS
        },
    )


def report_lines(report: AttributesReport) -> list[str]:
    """Return the report for people."""
    lacking = [name for name, count in report.items.items() if not count]
    lines = [
        f"{report.num_given + report.statuses['ok']:,} of {report.num_references:,} references are described, "
        f"{report.num_given:,} of them by the manifest; by the model: {counts_text(report.statuses)}",
        f"people: {counts_text(report.people)}",
        *audit_lines(report.audit),
        f"items: {counts_text({name: count for name, count in report.items.items() if count})}",
    ]
    if lacking:
        lines.append(f"no item for: {'; '.join(lacking)}")
    return lines
