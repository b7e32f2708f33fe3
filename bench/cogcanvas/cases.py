"""What CogCanvas's cases are: who is in a scene with what and before which place, and what holds between them.

Source: Nguyen et al. 2026 (arXiv 2606.15867), sections 3 and 4. A case's references are identities, objects and fashion
items, and at most one background; `meta` holds the rest. A subject is known by the `name` of its identity reference.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from gnomon.errors import UserError
from gnomon.records import Candidate, Case, Record

NAME = "cogcanvas"

IDENTITY, OBJECT, FASHION, BACKGROUND = "identity", "object", "fashion", "background"
ITEMS = (OBJECT, FASHION)
"""Roles of references that are bound to a person each."""

FAILED_REFERENCES = "failed_references"
"""Where in `Candidate.sampling` a generator names the references (by path) that it gave up on; they are judged 0."""

GROUP_SIZES = {2: 558, 3: 382, 4: 225, 5: 196}
"""Prompts of the paper by number of people."""

REFERENCE_GENERATION, TEXT_TO_IMAGE = "reference_generation", "text_to_image"
TASKS = (REFERENCE_GENERATION, TEXT_TO_IMAGE)

QUESTION_DIMENSIONS = ("attribute", "binding", "interaction", "position")
"""What a question is about: how a subject looks, whose an item is, what people do, where they are."""

Relation = Literal["left_of", "right_of", "in_front_of", "behind"]
INVERSE: dict[str, Relation] = {
    "left_of": "right_of",
    "right_of": "left_of",
    "in_front_of": "behind",
    "behind": "in_front_of",
}


class Binding(Record):
    """An item that belongs to one person; both are names of references."""

    item: str
    person: str
    interaction: str = Field(min_length=1)


class Interaction(Record):
    """What two people do together; `is_mutual` where it can be said of either."""

    first: str
    second: str
    action: str = Field(min_length=1)
    is_mutual: bool = True


class Position(Record):
    """Where one person is, seen from the other, as the picture shows it."""

    first: str
    relation: Relation
    second: str


class SceneFacts(Record):
    """`Case.meta` of a case.

    Attributes:
        bindings: of items to people.
        interactions: the interaction graph between people.
        positions: the position graph.
        object_size: of the largest item, from small handheld to large wearable.
        interaction_strength: from close contact to loose.
        override: who let a scene pass that a check had turned down, and why.
    """

    bindings: list[Binding] = Field(default_factory=list)
    interactions: list[Interaction] = Field(default_factory=list)
    positions: list[Position] = Field(default_factory=list)
    object_size: str | None = None
    interaction_strength: str | None = None
    override: str | None = None

    @model_validator(mode="after")
    def _nobody_meets_themselves(self) -> SceneFacts:
        edges = [(edge.first, edge.second) for edge in self.interactions]
        edges += [(edge.first, edge.second) for edge in self.positions]
        if alone := sorted({first for first, second in edges if first == second}):
            raise ValueError(f"expected two different people, got {', '.join(alone)} twice")
        return self


def facts_of(case: Case) -> SceneFacts:
    """Return what a case's `meta` says.

    Raises:
        UserError: names the case and what is wrong with it.
    """
    try:
        return SceneFacts.model_validate(case.meta)
    except ValueError as error:
        raise UserError(f"case {case.id!r}: expected meta as CogCanvas has it: {error}") from error


def given_up(candidate: Candidate) -> frozenset[str]:
    """Return the paths of the references that a picture's generator gave up on."""
    return frozenset(candidate.sampling.get(FAILED_REFERENCES, ()))


def people(case: Case) -> list[str]:
    """Return the names of a case's identities, in their order."""
    return [reference.name or "" for reference in case.references if reference.role == IDENTITY]
