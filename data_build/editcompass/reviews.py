"""Reviews and selections: what the lines of reviewers say of photographs, instructions and cases."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, StrictBool

from data_build.votes import Opinion, person_name

Aspect = Literal["safety", "quality", "suitability"]
ASPECTS: tuple[Aspect, ...] = ("safety", "quality", "suitability")


class Review(Opinion):
    """What one reviewer says of one item: whether it is safe, of good quality and suited for editing."""

    item: str = Field(min_length=1)
    reviewer: str = Field(min_length=1)
    safety: StrictBool
    quality: StrictBool
    suitability: StrictBool
    comment: str | None = None

    @property
    def person(self) -> str:
        """Who said it."""
        return person_name(self.reviewer)

    @property
    def subject(self) -> tuple[str, ...]:
        """What it is about."""
        return (self.item,)

    @property
    def answer(self) -> object:
        """What it says."""
        return (self.safety, self.quality, self.suitability)


class Selection(Opinion):
    """Which instruction one person takes for a photograph and task."""

    item: str = Field(min_length=1)
    task: str = Field(min_length=1)
    proposal: str = Field(min_length=1)
    by: str = Field(min_length=1)
    comment: str | None = None

    @property
    def person(self) -> str:
        """Who said it."""
        return person_name(self.by)

    @property
    def subject(self) -> tuple[str, ...]:
        """What it is about."""
        return (self.item, self.task)

    @property
    def answer(self) -> object:
        """What it says."""
        return self.proposal
