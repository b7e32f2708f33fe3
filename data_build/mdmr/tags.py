"""What annotators say of a picture: a closed schema, for buckets to ask by.

The kinds of tags are MDMR-Bench's: content category, entities, attributes, and metadata (number of people, age, body
framing, facing direction). Its lists are open ("people, animals, objects, scenes, posters, ..."); those here are ours.
Four attributes beyond the paper's serve its visual reasoning: what a change over time, of state, of place or of layout
is a change of.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, StringConstraints

from bench.mdmr.cases import ATTRIBUTES, ENTITIES
from gnomon.records import Record

Category = Literal["people", "animals", "objects", "scenes", "posters", "logos", "lettering", "charts", "artworks"]
Attribute = Literal[
    "artistic_style",
    "filter",
    "era",
    "texture",
    "color",
    "hair",
    "expression",
    "makeup",
    "pose",
    "outfit",
    "time",
    "state",
    "position",
    "layout",
]
EntityKind = Literal["person", "animal", "object", "scene", "text", "outfit", "decoration"]
Framing = Literal["close_up", "head_and_shoulders", "upper_body", "full_body"]
Facing = Literal["front", "three_quarter", "side", "back"]
TextLanguage = Literal["en", "zh", "both", "other"]

CATEGORIES: tuple[str, ...] = get_args(Category)
TAG_ATTRIBUTES: tuple[str, ...] = get_args(Attribute)
FRAMINGS: tuple[str, ...] = get_args(Framing)
FACINGS: tuple[str, ...] = get_args(Facing)
TEXT_LANGUAGES: tuple[str, ...] = get_args(TextLanguage)
assert get_args(EntityKind) == ENTITIES
assert TAG_ATTRIBUTES[: len(ATTRIBUTES)] == ATTRIBUTES

ShortText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80)]


class Entity(Record):
    """One thing in the picture: its kind and a short name, such as "tabby cat"."""

    kind: EntityKind
    name: ShortText


class Tags(Record):
    """Everything that is said of one picture.

    Attributes:
        category: what the picture is, or mainly shows.
        entities: what could be taken from it, the most prominent first.
        attributes: in a few words each; only those that can be seen clearly.
        num_people: how many people can be seen.
        age: of the most prominent person, in years, estimated; None where nobody is to be seen.
        framing: how much of that person the picture shows.
        facing: how that person is turned to the camera.
        text_language: of the writing in the picture; None where there is none.
        caption: one sentence.
    """

    category: Category
    entities: list[Entity] = Field(max_length=16)
    attributes: dict[Attribute, ShortText] = Field(default_factory=dict)
    num_people: int = Field(default=0, ge=0, le=1000)
    age: int | None = Field(default=None, ge=0, le=120)
    framing: Framing | None = None
    facing: Facing | None = None
    text_language: TextLanguage | None = None
    caption: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=600)]
