"""What the sample stage writes: who is in a scene, with what, before which place; all by ids of references."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator

from bench.cogcanvas.cases import GROUP_SIZES
from data_build.cogcanvas.vocabulary import Action, Size, Strength
from gnomon.jsonl import read_records
from gnomon.records import Record


class SampledBinding(Record):
    """An item that belongs to one person, and what the person does with it."""

    item: str
    person: str
    action: Action


class Scene(Record):
    """The tuple (B, {H}, {O}, {R}) of one scene, with at most as many items as people.

    Attributes:
        id: unique.
        background: B, the place.
        people: H; pictures of different people.
        bindings: O and R; no person has two items.
        object_size: of the largest item.
        interaction_strength: how close all people and items are.
    """

    id: str = Field(min_length=1)
    background: str
    people: list[str]
    bindings: list[SampledBinding] = Field(min_length=1)
    object_size: Size
    interaction_strength: Strength

    @model_validator(mode="after")
    def _one_item_each(self) -> Scene:
        if len(self.people) not in GROUP_SIZES or len(set(self.people)) < len(self.people):
            raise ValueError(f"expected {min(GROUP_SIZES)} to {max(GROUP_SIZES)} different people, got {self.people}")
        holders = [binding.person for binding in self.bindings]
        items = [binding.item for binding in self.bindings]
        if len(set(holders)) < len(holders) or len(set(items)) < len(items) or not set(holders) <= set(self.people):
            raise ValueError("expected each item with a person of the scene, and no person with two")
        return self

    @property
    def references(self) -> list[str]:
        """All ids: people, items, the place."""
        return [*self.people, *(binding.item for binding in self.bindings), self.background]


def read_scenes(path: str | Path) -> list[Scene]:
    """Read a `scenes.jsonl`.

    Raises:
        UserError: for a broken line, with file and line, and where there is no such file.
    """
    return read_records(path, Scene)
