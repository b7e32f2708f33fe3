"""Drafts of a scene's prompt, what is wrong with each, and what has to be done next: write, check, or nothing.

A scene's drafts follow each other: each is written after what was wrong with those before was told. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from bench.cogcanvas.cases import Interaction, Position
from data_build.answers import Answer
from data_build.cogcanvas.graphs import graph_problems
from data_build.cogcanvas.material import Material
from gnomon.hashing import stable_hash
from gnomon.records import Record, Status

CHECKS = ("plausibility", "layout", "compatibility")
"""What a model is asked about a draft: can people do that with their items, is there room, does it fit the place."""

TRIED_AGAIN: frozenset[Status] = frozenset({"api_error", "unreadable_image"})
"""Failures that say nothing about the draft."""

State = Literal["to_write", "to_check", "passed", "given_up"]


class WrittenScene(Record):
    """A prompt, and what it says people do together and where they are."""

    prompt: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=3000)]
    interactions: Annotated[list[Interaction], Field(max_length=40)]
    positions: Annotated[list[Position], Field(max_length=40)]


class Draft(Answer):
    """What was written, or why nothing was; `about` is `<scene>/<attempt>`."""

    written: WrittenScene | None = None


class CheckAnswer(Answer):
    """What a model says of one draft in one respect; `about` is `<scene>/<attempt>/<check>`."""

    passes: bool | None = None
    explanation: str | None = None


@dataclass(frozen=True)
class Problem:
    """What is wrong with a draft: by one of `CHECKS`, "unwritten", or a rule of ours ("not_mentioned" or a graph's)."""

    kind: str
    message: str


@dataclass(frozen=True)
class Course:
    """How far a scene has come.

    Attributes:
        state: what is to be done next.
        about: id of the draft that it is about.
        asked: hash of what this draft is, or will be, asked from.
        draft: the draft, where there is one.
        problems: of all drafts, in their order; those of the last one make it "given_up".
        unchecked: checks of this draft that got no answer.
    """

    state: State
    about: str
    asked: str
    draft: Draft | None
    problems: tuple[tuple[Problem, ...], ...]
    unchecked: tuple[CheckAnswer, ...] = ()

    @property
    def num_attempts(self) -> int:
        """Drafts so far."""
        return int(self.about.rpartition("/")[2]) - (self.draft is None)


def follow(
    material: Material,
    drafts: Mapping[tuple[str, str], Draft],
    checks: Mapping[tuple[str, str], CheckAnswer],
    max_attempts: int,
) -> Course:
    """Return how far a scene has come.

    Args:
        material: of the scene.
        drafts: all, by what they are about and asked from.
        checks: likewise.
        max_attempts: drafts that a scene may have.
    """
    problems: list[tuple[Problem, ...]] = []
    for attempt in range(1, max_attempts + 1):
        about = f"{material.scene.id}/{attempt}"
        asked = stable_hash([material.hash, [[one.message for one in each] for each in problems]])
        draft = drafts.get((about, asked))
        if draft is None or draft.status in TRIED_AGAIN:
            return Course("to_write", about, asked, None, tuple(problems))
        found = own_problems(material, draft)
        if not found:
            answers = {name: checks.get((f"{about}/{name}", check_asked(draft))) for name in CHECKS}
            missing = [one for one in answers.values() if one is None or one.passes is None]
            if missing:  # also where another check turned the draft down: the next one is told everything
                unchecked = tuple(one for one in missing if one is not None)
                return Course("to_check", about, asked, draft, tuple(problems), unchecked)
            found = _rejections(answers)
        if not found:
            return Course("passed", about, asked, draft, tuple(problems))
        problems.append(found)
    return Course("given_up", about, asked, draft, tuple(problems))


def check_asked(draft: Draft) -> str:
    """Return the hash of what checks of a draft are asked from."""
    return stable_hash([draft.asked, draft.written])


def own_problems(material: Material, draft: Draft) -> tuple[Problem, ...]:
    """Return what is wrong with a draft by our own rules: it was not written, names are missing, graphs contradict."""
    written = draft.written
    if written is None:
        return (Problem("unwritten", f"the reply could not be used ({draft.status}): {draft.reason or 'no reason'}"),)
    names = [*material.names, *(item.name for item in material.items), material.background.name]
    found = [
        Problem("not_mentioned", f"the prompt does not mention {name!r}")
        for name in names
        if not mentions(written.prompt, name)
    ]
    graphs = graph_problems(material.names, written.interactions, written.positions)
    return (*found, *(Problem(one.kind, one.message) for one in graphs))


def mentions(text: str, name: str) -> bool:
    """Tell whether a text has a name as whole words, whatever the case of the letters and the blanks."""
    words = r"\s+".join(map(re.escape, name.split()))
    return re.search(rf"(?<!\w){words}(?!\w)", text, re.IGNORECASE) is not None


def _rejections(answers: Mapping[str, CheckAnswer | None]) -> tuple[Problem, ...]:
    return tuple(
        Problem(name, answer.explanation or "no reason was given")
        for name, answer in answers.items()
        if answer is not None and answer.passes is False
    )


def by_key(answers: Sequence[Draft]) -> dict[tuple[str, str], Draft]:
    """Return drafts by what they are about and asked from; of several the last counts."""
    return {(answer.about, answer.asked): answer for answer in answers}
