"""What a puzzle is: an instance is sampled, solved, drawn and asked; an answer is read from pixels and checked."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from PIL import Image

from data_build.puzzles.changes import Change, Colour
from gnomon.records import Record, Text

Value = Literal["correct", "suboptimal", "invalid", "unreadable"]
"""`suboptimal`: keeps the rules, but there is a better answer. `unreadable`: cannot be held against the source."""

Instance = TypeVar("Instance", bound=Record)
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Outcome:
    """What an edited picture is worth, and why in one sentence."""

    value: Value
    reason: str


class InvalidEditError(ValueError):
    """An edit that can be read, and breaks a rule before there is an answer to check; the text says which."""


class Puzzle(Protocol[Instance, Answer]):
    """One kind of puzzle; its settings are the fields of its class.

    Attributes:
        task: the name in `Case.task`.
        instance_class: what `Case.meta["puzzle"]` holds.
    """

    task: str
    instance_class: type[Instance]

    def sample(self, rng: random.Random) -> Instance | None:
        """Draw an instance with exactly one best answer; None where this draw has none or several."""

    def solve(self, instance: Instance) -> Answer:
        """Return the best answer."""

    def render(
        self, instance: Instance, resolution: int, answer: Answer | None = None, *, colour: Colour | None = None
    ) -> Image.Image:
        """Draw the source, or with an answer the edited picture; square, RGB.

        Args:
            instance: what is drawn.
            resolution: pixels per side.
            answer: what is marked; None for the source.
            colour: to mark in, in place of the one that the instruction asks for.
        """

    def instruct(self, instance: Instance) -> Text:
        """Return the instruction, with rules and marking, in English and Chinese."""

    def describe(self, instance: Instance) -> str:
        """Return the expected outcome in English, for judges."""

    def markers(self, instance: Instance) -> dict[str, Colour]:
        """Return the colours that answers are drawn in, by name."""

    def read(self, instance: Instance, change: Change) -> Answer:
        """Return the answer that an edit drew.

        Raises:
            InvalidEditError: when something else was changed as well.
        """

    def check(self, instance: Instance, answer: Answer) -> Outcome:
        """Say what an answer is worth."""

    def spoil(self, instance: Instance, rng: random.Random) -> dict[str, Answer]:
        """Return wrong answers that can be drawn, by what is wrong with them; none of them is `correct`."""


AnyPuzzle = Puzzle[Any, Any]
