"""Buckets: by which rules the references of a sub-task's samples are put together, as YAML files say.

MDMR-Bench samples references by task buckets: a task and the entities and attributes that its references must have, 10
to 50 samples each, with several buckets for a sub-task by category and composition. A file holds those of one family.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import Field, ValidationError, model_validator

from bench.mdmr.cases import ENTITIES, FAMILIES, ROLES
from bench.placement import nearest
from data_build.mdmr.tags import (
    CATEGORIES,
    TAG_ATTRIBUTES,
    Attribute,
    Category,
    EntityKind,
    Facing,
    Framing,
    TextLanguage,
)
from gnomon.errors import UserError
from gnomon.jsonl import describe
from gnomon.records import Record

MOST_REFERENCES = 4
LEAST_SAMPLES, MOST_SAMPLES = 10, 50
FEATURES = ("category", "name", *TAG_ATTRIBUTES)
"""What relations compare: the picture's category, the entity that it is there for, or what an attribute says."""


class _Words(Record):
    @model_validator(mode="after")
    def _asks_for_something(self) -> _Words:
        if not any(getattr(self, name) for name in type(self).model_fields):
            raise ValueError(f"expected {' or '.join(type(self).model_fields)}, got neither")
        return self


class CategoryRule(_Words):
    """Which categories a picture may have."""

    any_of: list[Category] = Field(default_factory=list)
    none_of: list[Category] = Field(default_factory=list)


class EntityRule(_Words):
    """Which kinds of entities a picture must show: one of some, all of some, none of some."""

    any_of: list[EntityKind] = Field(default_factory=list)
    all_of: list[EntityKind] = Field(default_factory=list)
    none_of: list[EntityKind] = Field(default_factory=list)


class NameRule(_Words):
    """Which names of entities a picture must have, or may not; upper and lower case are the same."""

    any_of: list[str] = Field(default_factory=list)
    none_of: list[str] = Field(default_factory=list)


class FramingRule(_Words):
    """How much of a person may be shown."""

    any_of: list[Framing] = Field(default_factory=list)
    none_of: list[Framing] = Field(default_factory=list)


class FacingRule(_Words):
    """How a person may be turned to the camera."""

    any_of: list[Facing] = Field(default_factory=list)
    none_of: list[Facing] = Field(default_factory=list)


class LanguageRule(_Words):
    """Which language the writing may be in."""

    any_of: list[TextLanguage] = Field(default_factory=list)
    none_of: list[TextLanguage] = Field(default_factory=list)


class Range(Record):
    """A whole number within limits; a picture that has none is outside."""

    min: int | None = None
    max: int | None = None

    @model_validator(mode="after")
    def _is_a_range(self) -> Range:
        if self.min is None and self.max is None:
            raise ValueError("expected min or max, got neither")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"expected min <= max, got {self.min} and {self.max}")
        return self


class ReferenceRule(Record):
    """What a reference is for, and what its picture must be like.

    A role that is a kind of entity asks for a picture with such an entity by itself.

    Attributes:
        role: out of :data:`bench.mdmr.cases.ROLES`.
        count: so many references by this rule, one after the other.
        category: of the picture.
        entities: kinds of them.
        names: of entities.
        has: attributes that are tagged; what they say stands in the sample.
        lacks: attributes that are not.
        num_entities: how many are tagged.
        num_people: in the picture.
        age: of the most prominent person, in years.
        side: the shorter one, in pixels.
        framing: of that person.
        facing: of that person.
        text_language: of the writing.
    """

    role: str
    count: int = Field(default=1, ge=1, le=MOST_REFERENCES)
    category: CategoryRule | None = None
    entities: EntityRule | None = None
    names: NameRule | None = None
    has: list[Attribute] = Field(default_factory=list)
    lacks: list[Attribute] = Field(default_factory=list)
    num_entities: Range | None = None
    num_people: Range | None = None
    age: Range | None = None
    side: Range | None = None
    framing: FramingRule | None = None
    facing: FacingRule | None = None
    text_language: LanguageRule | None = None

    @model_validator(mode="after")
    def _role_is_known(self) -> ReferenceRule:
        if self.role not in ROLES:
            raise ValueError(f"expected a role out of {', '.join(ROLES)}, got {self.role!r}{nearest(self.role, ROLES)}")
        return self


class Relation(Record):
    """References that agree or differ, each two of them, in one feature; a picture without the feature does neither.

    Attributes:
        same: the feature that is the same in all.
        different: or the one that is different in all.
        references: which ones, from 1; all by default.
    """

    same: Literal["category", "name"] | Attribute | None = None
    different: Literal["category", "name"] | Attribute | None = None
    references: list[int] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Relation:
        if (self.same is None) == (self.different is None):
            raise ValueError("expected exactly one of same and different")
        return self

    @property
    def feature(self) -> str:
        """What is compared."""
        return str(self.same or self.different)

    @property
    def label(self) -> str:
        """The relation in words."""
        which = "" if self.references is None else f" in references {', '.join(map(str, self.references))}"
        return f"{'same' if self.same else 'different'} {self.feature}{which}"


class Bucket(Record):
    """Rules for the references of some samples of one sub-task.

    Attributes:
        name: unique among all buckets.
        family: of the file.
        subtask: of the family.
        samples: how many to draw.
        references: rules, in the order of a case's references.
        relations: between them.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    family: str
    subtask: str
    samples: int = Field(ge=LEAST_SAMPLES, le=MOST_SAMPLES)
    references: list[ReferenceRule] = Field(min_length=1)
    relations: list[Relation] = Field(default_factory=list)

    @model_validator(mode="after")
    def _fits_together(self) -> Bucket:
        known = FAMILIES[self.family]
        if self.subtask not in known:
            hint = nearest(self.subtask, known)
            raise ValueError(f"expected a subtask out of {', '.join(known)}, got {self.subtask!r}{hint}")
        num = len(self.slots)
        if num > MOST_REFERENCES:
            raise ValueError(f"expected at most {MOST_REFERENCES} references, got {num}")
        for relation in self.relations:
            places = self.places(relation)
            if len(places) < 2 or len(set(places)) < len(places) or not all(0 <= place < num for place in places):
                raise ValueError(f"expected different references out of 1..{num} in '{relation.label}', at least two")
        return self

    @property
    def slots(self) -> list[ReferenceRule]:
        """One rule for each reference."""
        return [rule for rule in self.references for _ in range(rule.count)]

    def places(self, relation: Relation) -> list[int]:
        """Return which references a relation is between, from 0."""
        if relation.references is None:
            return list(range(len(self.slots)))
        return [number - 1 for number in relation.references]


def read_buckets(paths: Sequence[Path]) -> list[Bucket]:
    """Read files of buckets, or all `*.yaml` of folders, in order.

    Raises:
        UserError: for a file that cannot be read or holds none, an unknown key, a value that is none of those that may
            be, and a name that two buckets have; names file and key.
    """
    files = [file for path in paths for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])]
    found: dict[str, tuple[Path, Bucket]] = {}
    for file in files:
        for bucket in _read(file):
            if bucket.name in found:
                raise UserError(f"{file}: the bucket {bucket.name!r} is already in {found[bucket.name][0]}; rename one")
            found[bucket.name] = (file, bucket)
    if not found:
        raise UserError(f"expected YAML files of buckets at {', '.join(map(str, paths)) or 'no path'}, found none")
    return [bucket for _, bucket in found.values()]


def _read(file: Path) -> list[Bucket]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"expected a YAML file of buckets at {file}: {error}") from error
    if not isinstance(content, dict) or set(content) != {"family", "buckets"}:
        got = ", ".join(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise UserError(f"{file}: expected the keys family and buckets, got {got}")
    family, raw = content["family"], content["buckets"]
    if family not in FAMILIES:
        raise UserError(f"{file}: family: expected one of {', '.join(FAMILIES)}, got {family!r}")
    if not isinstance(raw, list) or not all(isinstance(item, dict) and "family" not in item for item in raw):
        raise UserError(f"{file}: buckets: expected a list of buckets, without a family of their own")
    return [_bucket(file, number, {**item, "family": family}) for number, item in enumerate(raw)]


def _bucket(file: Path, number: int, raw: dict[str, Any]) -> Bucket:
    try:
        return Bucket.model_validate(raw)
    except ValidationError as error:
        unknown = [str(item["loc"][-1]) for item in error.errors() if item["type"] == "extra_forbidden"]
        hints = "".join(nearest(name, _KEYS) for name in unknown)
        where = f"{file}: buckets.{number} ({raw.get('name')!r})"
        raise UserError(f"{where}: {describe(error)}{hints}") from error


_KEYS = sorted({name for model in (Bucket, ReferenceRule, Relation, EntityRule, Range) for name in model.model_fields})
assert set(get_args(EntityKind)) == set(ENTITIES)
assert "category" not in CATEGORIES
