"""What the sample stage writes: which pictures of the gallery make up a case, and what each of them is for."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from bench.mdmr.cases import FAMILIES, ROLES, Origin
from gnomon.jsonl import read_records
from gnomon.records import Record


class SampledReference(Record):
    """One picture of a sample.

    Attributes:
        image: id of the picture in the gallery; the picture itself is `sample/images/<id>.png`.
        role: what it is for, out of :data:`bench.mdmr.cases.ROLES`.
        name: the entity by which it fits its role, in the annotator's words, such as "tabby cat".
        attributes: what the role asks of it, by attribute: for a reference that hair is taken from
            `{"hair": "short red curls"}`.
    """

    image: str = Field(min_length=1)
    role: str
    name: str | None = None
    attributes: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _role_is_known(self) -> SampledReference:
        if self.role not in ROLES:
            raise ValueError(f"expected a role out of {', '.join(ROLES)}, got {self.role!r}")
        return self


class Sample(Record):
    """References that fit a bucket together: a case without its instruction.

    Attributes:
        id: `<bucket>-<number>`, with `-synthetic` for the second of a pair; unique.
        bucket: name of the rules that it was drawn by.
        family: out of :data:`bench.mdmr.cases.FAMILIES`; a case's `task`.
        subtask: of the family.
        references: in the order in which the instruction speaks of them.
        content_type: what tables are cut by, see :class:`bench.mdmr.cases.CaseFacts`.
        text_language: of the writing in a design that is changed.
        reference_origin: photographs, generated pictures, or some of each.
        pair_id: equal for two samples whose references are real in one and made from those in the other.
    """

    id: str = Field(min_length=1)
    bucket: str
    family: str
    subtask: str
    references: list[SampledReference] = Field(min_length=1)
    content_type: str | None = None
    text_language: Literal["en", "zh"] | None = None
    reference_origin: Origin = "real"
    pair_id: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _subtask_is_known(self) -> Sample:
        if self.subtask not in FAMILIES.get(self.family, ()):
            raise ValueError(f"expected a sub-task of {self.family!r}, got {self.subtask!r}")
        return self


def read_samples(path: str | Path) -> list[Sample]:
    """Read a `samples.jsonl`.

    Raises:
        UserError: for a broken line, with file and line, and where there is no such file.
    """
    return read_records(path, Sample)
