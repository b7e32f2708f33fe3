"""What people say about items, line by line: which lines count, and what several people together decide.

Files are JSON lines, or sheets (CSV) with a header. A line is told by `file:line`, which every later decision names.
People are told apart by their names, whatever the case of the letters and the blanks around them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Literal, TypeVar

from pydantic import Field

from bench.placement import nearest
from gnomon.errors import UserError
from gnomon.jsonl import iterate_lines
from gnomon.records import Record
from gnomon.sheets import iterate_sheet

ProblemKind = Literal["bad_line", "unknown_item", "unknown_proposal", "repeated", "contradictory"]
Ruling = Literal["approved", "rejected", "contradictory_reviews", "too_few_reviews"]


class Opinion(Record):
    """One line: what one person says about one thing."""

    @property
    @abstractmethod
    def person(self) -> str:
        """Who said it, as :func:`person_name` writes it."""

    @property
    @abstractmethod
    def subject(self) -> tuple[str, ...]:
        """What it is about."""

    @property
    @abstractmethod
    def answer(self) -> object:
        """What it says."""


class KeepReview(Opinion):
    """Whether one person keeps one thing."""

    reviewer: str = Field(min_length=1)
    keep: bool
    reason: str | None = None

    @property
    def person(self) -> str:
        """Who said it."""
        return person_name(self.reviewer)

    @property
    def answer(self) -> object:
        """What it says."""
        return self.keep


Line = TypeVar("Line", bound=Opinion)


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
    files: Sequence[Path],
    model: type[Line],
    refuse: Callable[[Line], tuple[ProblemKind, str] | None],
    *,
    filled_in: Sequence[str] = (),
    shown: Sequence[str] = (),
) -> Votes[Line]:
    """Read files of what people say; a line that cannot count is a problem and the rest goes on.

    Of lines in which a person says the same of the same thing again, the first counts. Where a person says two
    things, none of the lines counts.

    Args:
        files: the files; one that ends in .csv is a sheet, see :func:`gnomon.sheets.iterate_sheet`.
        model: what their lines are.
        refuse: says why a line is about nothing that is known, None where it is not so.
        filled_in: columns of sheets that people fill in.
        shown: columns of sheets that are there for people to look at and are not read.

    Raises:
        UserError: for a file that cannot be read or is given twice.
    """
    if len({file.resolve() for file in files}) < len(files):
        raise UserError(f"expected every file once, got {', '.join(map(str, files))}")
    votes: Votes[Line] = Votes()
    said: dict[tuple[str, ...], list[Vote[Line]]] = {}
    for file, number, line in _lines(files, model, filled_in, shown, votes.problems):
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


def _lines(
    files: Sequence[Path],
    model: type[Line],
    filled_in: Sequence[str],
    shown: Sequence[str],
    problems: list[LineProblem],
) -> Iterator[tuple[Path, int, Line]]:
    for file in files:
        is_sheet = file.suffix.lower() == ".csv"
        sheet = iterate_sheet(file, model, filled_in=filled_in, shown=shown)
        for line in sheet if is_sheet else iterate_lines(file, model):
            if line.record is not None:
                yield file, line.number, line.record
            else:
                message = line.problem or "broken line"
                problems.append(LineProblem(file=str(file), line=line.number, kind="bad_line", message=message))


def unknown_item(item: str, known: Sequence[str]) -> tuple[ProblemKind, str]:
    """Return the problem of a line about an item that there is not."""
    return "unknown_item", f"no item is called {item!r}{nearest(item, known)}"


def person_name(name: str) -> str:
    """Return a person's name as it is compared."""
    return " ".join(name.split()).casefold()


def rule(
    votes: Votes[Line], subject: tuple[str, ...], *, is_rejected: bool, num_reviewers: int
) -> tuple[Ruling, str | None]:
    """Decide about one thing by unanimity, and say more for people where the ruling alone is not enough.

    A rejection counts whatever else is missing; a person who says two things approves of nothing.

    Args:
        votes: all that was said.
        subject: what is decided about.
        is_rejected: whether a line that counts says no.
        num_reviewers: people who must have approved at least.
    """
    counting, contradictory = votes.counting.get(subject, []), votes.contradictory.get(subject, [])
    if is_rejected:
        return "rejected", None
    if contradictory:
        return (
            "contradictory_reviews",
            f"{', '.join(sorted({vote.line.person for vote in contradictory}))} says two things",
        )
    if len(counting) < num_reviewers:
        return "too_few_reviews", f"{len(counting)} of {num_reviewers} reviewers"
    return "approved", None
