"""What MDMR-Bench's cases are: families and their sub-tasks, dimensions of questions, and what `meta` says of a case.

Source: MDMR-Bench (families, attribute kinds, operations, changes, entity tags, dimensions and weights). The paper does
not print its sub-tasks of entity fusion; those here follow the entity tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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

INSTRUCTION = "instruction"
"""What a question is about that tests no reference; others name `reference-<number>`, from 1, or an attribute of it."""

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


_LINK = re.compile(r"reference-([1-9][0-9]*)(\..+)?")


def problems(case: Case) -> Iterator[str]:
    """Yield what is wrong with a case of MDMR-Bench: its family, sub-task, roles and checklist."""
    where = f"case {case.id!r}"
    if case.task not in FAMILIES:
        yield f"{where}: expected one of the families {', '.join(FAMILIES)} as task, got {case.task!r}"
    elif case.subtask not in FAMILIES[case.task]:
        yield f"{where}: expected one of {', '.join(FAMILIES[case.task])} as sub-task, got {case.subtask!r}"
    for role in sorted({reference.role for reference in case.references} - set(ROLES)):
        yield f"{where}: expected references with roles out of {', '.join(ROLES)}, got {role!r}"
    if not case.questions:
        yield f"{where}: expected a checklist, got no questions"
    for question in case.questions:
        about = f"{where}, question {question.id!r}"
        if question.dimension not in WEIGHTS:
            yield f"{about}: expected one of the dimensions {', '.join(WEIGHTS)}, got {question.dimension!r}"
        if not question.about:
            yield f"{about}: expected links to what it tests, got none"
        for link in question.about:
            place = _LINK.fullmatch(link)
            if link != INSTRUCTION and (place is None or int(place[1]) > len(case.references)):
                yield (
                    f"{about}: expected links such as {INSTRUCTION!r} or 'reference-1.color' to one of the case's "
                    f"{len(case.references)} references, got {link!r}"
                )
