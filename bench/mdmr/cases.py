"""What MDMR-Bench's cases are: families and their sub-tasks, dimensions of questions, and what `meta` says of a case.

Source: MDMR-Bench (families, attribute kinds, operations, changes, entity tags, dimensions and weights). The paper does
not print its sub-tasks of entity fusion; those here follow the entity tags.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gnomon.errors import UserError
from gnomon.records import Case, Record

NAME = "mdmr-bench"

ENTITIES = ("person", "animal", "object", "scene", "text", "outfit", "decoration")
ATTRIBUTES = ("artistic_style", "filter", "era", "texture", "color", "hair", "expression", "makeup", "pose", "outfit")
OPERATIONS = ("addition", "replacement", "color_modification", "font_change", "texture_editing", "style_transfer")
CHANGES = ("temporal", "stylistic", "state", "spatial", "layout")
REASONING = ("analogical", "logical")
EXTRACTION = "multi_element_extraction"

FAMILIES: dict[str, tuple[str, ...]] = {
    "entity_fusion": (
        "people",
        "animals",
        "objects",
        "person_with_animal",
        "person_with_object",
        "person_with_outfit",
        "subject_in_scene",
        "text_on_object",
        "decorated_subject",
    ),
    "attribute_transfer": ATTRIBUTES,
    EXTRACTION: (EXTRACTION,),
    "infographic_manipulation": OPERATIONS,
    "visual_reasoning": tuple(f"{kind}_{change}" for kind in REASONING for change in CHANGES),
}
"""Sub-tasks by family; a case's `task` is the family, its `subtask` one of these."""

ROLES = (*ENTITIES, "attribute", "target", "elements", "source", "before", "after", "query")
"""What a reference is for: an entity to show, where an attribute is taken from and what gets it, one picture of several
elements, a design to be changed, a change shown by two pictures and the picture to be changed likewise."""

WEIGHTS = {"following": 0.20, "consistency": 0.25, "composition": 0.25, "minimality": 0.20, "quality": 0.10}
"""The dimensions of questions, and what each weighs in an item's overall score."""

Origin = Literal["real", "synthetic", "mixed"]


class CaseFacts(Record):
    """`Case.meta` of a case: what tables are cut by.

    Attributes:
        bucket: which rules the references were sampled by.
        content_type: entity categories, or the kind of attribute.
        text_language: of the text within the pictures of an infographic.
        reference_origin: photographs, generated pictures, or some of each.
        pair_id: equal for two cases of one instruction whose references are real in one and synthetic in the other.
    """

    bucket: str | None = None
    content_type: str | None = None
    text_language: Literal["en", "zh"] | None = None
    reference_origin: Origin = "real"
    pair_id: str | None = Field(default=None, min_length=1)


def facts_of(case: Case) -> CaseFacts:
    """Return what a case's `meta` says.

    Raises:
        UserError: names the case and what is wrong with it.
    """
    try:
        return CaseFacts.model_validate(case.meta)
    except ValueError as error:
        raise UserError(f"case {case.id!r}: expected meta as MDMR-Bench has it: {error}") from error
