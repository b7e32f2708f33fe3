"""Files of reviews and selections: what each line says, and which lines cannot count.

A line is told by `file:line`, which every later decision names. Reviewers are told apart by their names, whatever the
case of the letters and the blanks around them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Literal, TypeVar

from pydantic import Field, StrictBool

from bench.placement import nearest
from gnomon.errors import UserError
from gnomon.jsonl import iterate_lines
from gnomon.records import Record

Aspect = Literal["safety", "quality", "suitability"]
ASPECTS: tuple[Aspect, ...] = ("safety", "quality", "suitability")

ProblemKind = Literal["bad_line", "unknown_item", "unknown_proposal", "repeated", "contradictory"]
Line = TypeVar("Line", bound="Review | Selection")


class Review(Record):
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
        return _person(self.reviewer)

    @property
    def subject(self) -> tuple[str, ...]:
        """What it is about."""
        return (self.item,)

    @property
    def answer(self) -> object:
        """What it says."""
        return (self.safety, self.quality, self.suitability)


class Selection(Record):
    """Which instruction one person takes for a photograph and task."""

    item: str = Field(min_length=1)
    task: str = Field(min_length=1)
    proposal: str = Field(min_length=1)
    by: str = Field(min_length=1)
    comment: str | None = None

    @property
    def person(self) -> str:
        """Who said it."""
        return _person(self.by)

    @property
    def subject(self) -> tuple[str, ...]:
        """What it is about."""
        return (self.item, self.task)

    @property
    def answer(self) -> object:
        """What it says."""
        return self.proposal


class LineProblem(Record):
    """A line that does not count, or contradicts another, and why."""

    file: str
    line: int
    kind: ProblemKind
    message: str


@dataclass(frozen=True)
class Vote(Generic[Line]):
    """A line that counts, and where it stands."""

    where: str
    line: Line


@dataclass
class Votes(Generic[Line]):
    """All lines of some files, by what they are about.

    Attributes:
        counting: one line for each person who did not contradict themselves.
        contradictory: for each person who did, all of their lines.
        problems: lines that do not count.
    """

    counting: dict[tuple[str, ...], list[Vote[Line]]] = field(default_factory=dict)
    contradictory: dict[tuple[str, ...], list[Vote[Line]]] = field(default_factory=dict)
    problems: list[LineProblem] = field(default_factory=list)


def read_votes(
    files: Sequence[Path], model: type[Line], refuse: Callable[[Line], tuple[ProblemKind, str] | None]
) -> Votes[Line]:
    """Read files of reviews or selections; a line that cannot count is a problem and the rest goes on.

    Of lines in which a person says the same of the same thing again, the first counts. Where a person says two
    things, none of the lines counts.

    Args:
        files: the files.
        model: what their lines are.
        refuse: says why a line is about nothing that is known, None where it is not so.

    Raises:
        UserError: for a file that cannot be read or is given twice.
    """
    if len({file.resolve() for file in files}) < len(files):
        raise UserError(f"expected every file once, got {', '.join(map(str, files))}")
    votes: Votes[Line] = Votes()
    said: dict[tuple[str, ...], list[Vote[Line]]] = {}
    for file, number, line in _lines(files, model, votes.problems):
        if (refused := refuse(line)) is not None:
            votes.problems.append(LineProblem(file=str(file), line=number, kind=refused[0], message=refused[1]))
            continue
        vote = Vote(f"{file}:{number}", line)
        earlier = said.setdefault((*line.subject, line.person), [])
        if earlier:
            kind: ProblemKind = "repeated" if line.answer == earlier[0].line.answer else "contradictory"
            message = f"{line.person} speaks of {' / '.join(line.subject)} at {earlier[0].where} as well"
            votes.problems.append(LineProblem(file=str(file), line=number, kind=kind, message=message))
        earlier.append(vote)
    for (*subject, _), lines in said.items():
        if len({vote.line.answer for vote in lines}) == 1:
            votes.counting.setdefault(tuple(subject), []).append(lines[0])
        else:
            votes.contradictory.setdefault(tuple(subject), []).extend(lines)
    return votes


def _lines(files: Sequence[Path], model: type[Line], problems: list[LineProblem]) -> Iterator[tuple[Path, int, Line]]:
    for file in files:
        for line in iterate_lines(file, model):
            if line.record is not None:
                yield file, line.number, line.record
            else:
                message = line.problem or "broken line"
                problems.append(LineProblem(file=str(file), line=line.number, kind="bad_line", message=message))


def unknown_item(item: str, known: Sequence[str]) -> tuple[ProblemKind, str]:
    """Return the problem of a line about an item that there is not."""
    return "unknown_item", f"no item is called {item!r}{nearest(item, known)}"


def _person(name: str) -> str:
    return " ".join(name.split()).casefold()
