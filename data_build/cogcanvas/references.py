"""What is known of a reference: closed fields by role, and the description by which its picture is found.

Source: Nguyen et al. 2026 (arXiv 2606.15867), section 3.4: age, gender and ethnicity of identities; size category and
afforded interactions of objects and fashion items; scene type and landmark name of backgrounds; and a description of
every picture. What can be seen of a person or an item (hair, outfit, colour, ...) is ours; questions ask for it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from bench.cogcanvas.cases import BACKGROUND, IDENTITY
from bench.cogcanvas.retrieval import DESCRIPTION
from data_build.cogcanvas.manifest import Picture
from data_build.cogcanvas.vocabulary import Action, Age, Ethnicity, Gender, Size
from gnomon.records import Record

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80)]
Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=400)]


class IdentityAttributes(Record):
    """What a picture shows of a person; None for what there is not."""

    age: Age
    gender: Gender
    ethnicity: Ethnicity
    hair: Words | None = None
    facial_hair: Words | None = None
    eyewear: Words | None = None
    headwear: Words | None = None
    outfit: Words | None = None
    description: Sentence


class ItemAttributes(Record):
    """What a picture shows of an object or fashion item; `afforded_interactions` are what people can do with it."""

    size_category: Size
    afforded_interactions: Annotated[list[Action], Field(min_length=1, max_length=15)]
    color: Words | None = None
    material: Words | None = None
    pattern: Words | None = None
    description: Sentence

    @model_validator(mode="after")
    def _each_once(self) -> ItemAttributes:
        if len(set(self.afforded_interactions)) < len(self.afforded_interactions):
            raise ValueError("expected each interaction once")
        return self


class BackgroundAttributes(Record):
    """What a picture shows of a place."""

    scene_type: Words
    landmark_name: Words | None = None
    description: Sentence


Attributes = IdentityAttributes | ItemAttributes | BackgroundAttributes

VISIBLE = {
    IDENTITY: ("hair", "facial_hair", "eyewear", "headwear", "outfit"),
    "object": ("color", "material", "pattern"),
    "fashion": ("color", "material", "pattern"),
    BACKGROUND: (),
}
"""Attributes that questions ask for, by role."""


def attributes_model(role: str) -> type[IdentityAttributes] | type[ItemAttributes] | type[BackgroundAttributes]:
    """Return what the attributes of a role are."""
    if role == IDENTITY:
        return IdentityAttributes
    return BackgroundAttributes if role == BACKGROUND else ItemAttributes


class DescribedReference(Record):
    """A picture with its attributes."""

    picture: Picture
    attributes: Attributes

    @property
    def id(self) -> str:
        """Of its entry."""
        return self.picture.entry.id

    @property
    def name(self) -> str:
        """Of the person, thing or place."""
        return self.picture.entry.name

    @property
    def role(self) -> str:
        """What it shows."""
        return self.picture.entry.role

    @property
    def plain(self) -> dict[str, str]:
        """The attributes as texts; those that do not apply are left out."""
        given = self.attributes.model_dump(exclude_none=True)
        return {name: ", ".join(value) if isinstance(value, list) else value for name, value in given.items()}


assert all(DESCRIPTION in attributes_model(role).model_fields for role in VISIBLE)
