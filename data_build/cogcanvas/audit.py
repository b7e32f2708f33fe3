"""The audit of people: two annotators or more say age, gender and ethnicity of each identity, beside the model.

What all of them say of a picture stands in place of the model's words; where they differ, the model's stay and the
picture is counted as disputed. Source: Nguyen et al. 2026 (arXiv 2606.15867), section 3.2 and appendix C.1, whose pool
two annotators audited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field

from data_build.cogcanvas.references import DescribedReference, IdentityAttributes
from data_build.cogcanvas.vocabulary import Age, Ethnicity, Gender
from data_build.stages import counts_text
from data_build.votes import Opinion, ProblemKind, Votes, person_name, read_votes, unknown_item
from gnomon.records import Record
from gnomon.sheets import write_sheet

AUDITED = ("age", "gender", "ethnicity")
NUM_ANNOTATORS = 2
SHOWN = ("name", "file")
"""Columns of the sheet that annotators look at."""


class AuditLine(Opinion):
    """What one annotator says of one picture of a person."""

    id: str = Field(min_length=1)
    annotator: str = Field(min_length=1)
    age: Age
    gender: Gender
    ethnicity: Ethnicity

    @property
    def person(self) -> str:
        """Who said it."""
        return person_name(self.annotator)

    @property
    def subject(self) -> tuple[str, ...]:
        """What it is about."""
        return (self.id,)

    @property
    def answer(self) -> object:
        """What it says."""
        return tuple(getattr(self, name) for name in AUDITED)


class AuditReport(Record):
    """Counts of an audit.

    Attributes:
        num_audited: pictures that two annotators or more speak of.
        num_too_few: pictures that one annotator speaks of, who does not count.
        agreed: of those that are audited, how many all annotators say the same of, by field.
        num_changed: pictures of which the model, or the manifest, had said something else than all annotators.
        num_disputed: pictures of which annotators differ in some field.
        problems: lines that do not count.
    """

    num_audited: int = 0
    num_too_few: int = 0
    agreed: dict[str, int] = Field(default_factory=dict)
    num_changed: int = 0
    num_disputed: int = 0
    problems: dict[str, int] = Field(default_factory=dict)


def audited(
    references: Sequence[DescribedReference], files: Sequence[Path]
) -> tuple[list[DescribedReference], AuditReport]:
    """Return references with what annotators agree on, and counts.

    Args:
        references: all.
        files: sheets or JSON lines of annotators; none for no audit.

    Raises:
        UserError: for a file that cannot be read.
    """
    people = {one.id: one for one in references if isinstance(one.attributes, IdentityAttributes)}

    def refuse(line: AuditLine) -> tuple[ProblemKind, str] | None:
        return None if line.id in people else unknown_item(line.id, list(people))

    votes = read_votes(files, AuditLine, refuse, filled_in=["annotator", *AUDITED], shown=SHOWN)
    lines = {name: [vote.line for vote in votes.counting.get((name,), [])] for name in people}
    agreements = {name: _agreement(each) for name, each in lines.items() if len(each) >= NUM_ANNOTATORS}
    found = [_changed(one, agreements.get(one.id, {})) for one in references]
    changed = sum(one.attributes != other.attributes for one, other in zip(references, found, strict=True))
    return found, _report(lines, agreements, changed, votes)


def write_audit_sheet(path: Path, references: Sequence[DescribedReference]) -> None:
    """Write a sheet for an annotator to fill in; it does not show what the model said."""
    rows = [
        {"id": one.id, "name": one.name, "file": one.picture.shown}
        for one in references
        if isinstance(one.attributes, IdentityAttributes)
    ]
    write_sheet(path, ["id", *SHOWN, "annotator", *AUDITED], rows)


def _agreement(lines: Sequence[AuditLine]) -> dict[str, str]:
    """Return the fields that all annotators say the same of."""
    said = {name: {str(getattr(line, name)) for line in lines} for name in AUDITED}
    return {name: values.pop() for name, values in said.items() if len(values) == 1}


def _changed(reference: DescribedReference, agreed: Mapping[str, str]) -> DescribedReference:
    if not agreed:
        return reference
    attributes = IdentityAttributes.model_validate({**reference.attributes.model_dump(), **agreed})
    return reference.model_copy(update={"attributes": attributes})


def _report(
    lines: Mapping[str, Sequence[AuditLine]],
    agreements: Mapping[str, Mapping[str, str]],
    num_changed: int,
    votes: Votes[AuditLine],
) -> AuditReport:
    return AuditReport(
        num_audited=len(agreements),
        num_too_few=sum(0 < len(each) < NUM_ANNOTATORS for each in lines.values()),
        agreed={name: sum(name in each for each in agreements.values()) for name in AUDITED},
        num_changed=num_changed,
        num_disputed=sum(len(each) < len(AUDITED) for each in agreements.values()),
        problems=dict(Counter(problem.kind for problem in votes.problems).most_common()),
    )


def report_lines(report: AuditReport) -> list[str]:
    """Return the report for people."""
    if not (report.num_audited or report.num_too_few or report.problems):
        return ["people: audited by nobody"]
    lines = [
        f"people: {report.num_audited:,} pictures audited, by one annotator alone {report.num_too_few:,}",
        f"  agreed on: {counts_text(report.agreed)}; disputed {report.num_disputed:,}, changed {report.num_changed:,}",
    ]
    if report.problems:
        lines.append(f"lines of the audit that do not count: {counts_text(report.problems)}")
    return lines
