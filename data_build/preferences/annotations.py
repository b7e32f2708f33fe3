"""What annotators write about proposed pairs, read line by line; what cannot be used is named, and the rest counts.

Three kinds of lines, told apart by their keys, in any files and any order:

    {"pair", "dimension", "annotator", "label": "first" | "second" | "tie" | "unclear"}     stage 1: a proposal
    {"pair", "dimension", "by", "label": "first" | "second" | "tie"}, or "remove": true     the end of a discussion
    {"pair", "dimension", "annotator", "valid_task": bool, "agrees": bool}                  stage 2: a verification

Each may have a `comment`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    RootModel,
    StrictBool,
    StringConstraints,
    Tag,
    model_validator,
)

from data_build.preferences.pairs import ProposedPair
from gnomon.errors import UserError
from gnomon.jsonl import iterate_lines
from gnomon.records import Record

Key = tuple[str, str]
"""A pair's id and a dimension: what is decided at once."""

Person = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
ProblemKind = Literal[
    "broken_line", "unknown_pair", "unknown_dimension", "repeated", "contradictory", "both_stages", "nothing_to_verify"
]


class Proposal(Record):
    """Stage 1: which candidate one annotator prefers."""

    pair: str
    dimension: str
    annotator: Person
    label: Literal["first", "second", "tie", "unclear"]
    comment: str | None = None


class Discussion(Record):
    """What the annotators of a pair agreed on when they talked about it: a label, or that it goes."""

    pair: str
    dimension: str
    by: Annotated[list[Person], BeforeValidator(lambda by: [by] if isinstance(by, str) else by)] = Field(min_length=1)
    label: Literal["first", "second", "tie"] | None = None
    remove: StrictBool = False
    comment: str | None = None

    @model_validator(mode="after")
    def _one_end(self) -> Discussion:
        if (self.label is None) != self.remove:
            raise ValueError("expected either a label or remove: true")
        return self


class Verification(Record):
    """Stage 2: whether one verifier finds the task valid and agrees with the label of stage 1."""

    pair: str
    dimension: str
    annotator: Person
    valid_task: StrictBool
    agrees: StrictBool
    comment: str | None = None


Said = TypeVar("Said", Proposal, Discussion, Verification)


def _kind(value: Any) -> str:
    if isinstance(value, dict) and ("valid_task" in value or "agrees" in value):
        return "verification"
    return "discussion" if isinstance(value, dict) and "by" in value else "proposal"


class AnnotationLine(
    RootModel[
        Annotated[
            Annotated[Proposal, Tag("proposal")]
            | Annotated[Discussion, Tag("discussion")]
            | Annotated[Verification, Tag("verification")],
            Discriminator(_kind),
        ]
    ]
):
    """One line of an annotation file."""


class AnnotationProblem(Record):
    """A line that did not count, or not as it stands; a line of `problems.jsonl`."""

    file: str
    line: int
    kind: ProblemKind
    problem: str


@dataclass(frozen=True)
class Located(Generic[Said]):
    """A record and where it stands."""

    record: Said
    file: str
    line: int

    @property
    def place(self) -> str:
        """Return `file:line`."""
        return f"{self.file}:{self.line}"


@dataclass
class Item:
    """All that counts about one pair in one dimension.

    Attributes:
        proposals: of stage 1, by annotator.
        discussion: its end, if there was one.
        verifications: of stage 2, by annotator.
        contradictions: in words, each with the records that contradict each other.
    """

    proposals: dict[str, Located[Proposal]] = field(default_factory=dict)
    discussion: dict[str, Located[Discussion]] = field(default_factory=dict)
    verifications: dict[str, Located[Verification]] = field(default_factory=dict)
    contradictions: list[tuple[str, list[str]]] = field(default_factory=list)


@dataclass
class Annotations:
    """What was read: an item per pair and dimension, in the order of the pairs, and what did not count."""

    items: dict[Key, Item]
    problems: list[AnnotationProblem] = field(default_factory=list)

    def report(self, located: Located[Any], kind: ProblemKind, problem: str) -> None:
        """Note that a record does not count."""
        self.problems.append(AnnotationProblem(file=located.file, line=located.line, kind=kind, problem=problem))


def annotation_files(given: Path | Sequence[Path]) -> list[Path]:
    """Return the files in folders (those ending in .jsonl, also further down) and the files that are given, each once.

    Raises:
        UserError: for a path that is not there, and where there is no file.
    """
    found: dict[Path, Path] = {}
    for path in [given] if isinstance(given, Path) else given:
        if not path.exists():
            raise UserError(f"expected a folder or a file of annotations at {path}, there is none; check the path")
        for file in sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]:
            found.setdefault(file.resolve(), file)
    if not found:
        raise UserError(f"expected annotation files (*.jsonl) in {given}, found none; check the path")
    return list(found.values())


def read_annotations(files: Iterable[Path], pairs: Sequence[ProposedPair]) -> Annotations:
    """Read annotations of proposed pairs.

    A record that one person repeats counts once; one that says something else makes the item contradictory; a
    verification by somebody who took part in stage 1 of the same pair does not count. All of it is in `problems`.

    Args:
        files: to read.
        pairs: all that may be annotated.

    Raises:
        UserError: when a file cannot be read at all.
    """
    result = Annotations({(pair.id, dimension): Item() for pair in pairs for dimension in pair.dimensions})
    known = {pair.id: pair for pair in pairs}
    for located in _located(files, result):
        record = located.record
        pair = known.get(record.pair)
        if pair is None:
            result.report(located, "unknown_pair", f"no pair has the id {record.pair!r}")
        elif record.dimension not in pair.dimensions:
            asked = ", ".join(pair.dimensions)
            result.report(
                located, "unknown_dimension", f"pair {pair.id!r} is not compared in {record.dimension!r} but in {asked}"
            )
        else:
            _add(result, located)
    _drop_verifiers_of_stage_1(result)
    return result


def _located(files: Iterable[Path], result: Annotations) -> Iterator[Located[Any]]:
    """Yield all records; broken lines become problems."""
    for file in files:
        for line in iterate_lines(file, AnnotationLine):
            if line.record is not None:
                yield Located(line.record.root, file.as_posix(), line.number)
            else:
                problem = line.problem or "broken line"
                result.problems.append(
                    AnnotationProblem(file=file.as_posix(), line=line.number, kind="broken_line", problem=problem)
                )


def _add(result: Annotations, located: Located[Any]) -> None:
    """Put a record into its item, unless its author said the same or something else before."""
    record = located.record
    item = result.items[record.pair, record.dimension]
    if isinstance(record, Discussion):
        store: dict[str, Located[Any]] = item.discussion
        author = "the discussion"
    else:
        store = item.proposals if isinstance(record, Proposal) else item.verifications
        author = record.annotator
    earlier = store.setdefault(author, located)
    if earlier is located:
        return
    if _content(earlier.record) == _content(record):
        result.report(located, "repeated", f"{author} said the same at {earlier.place}; it counts once")
        return
    text = f"{author} said something else at {earlier.place} than at {located.place}"
    item.contradictions.append((text, [earlier.place, located.place]))
    result.report(located, "contradictory", f"{text}; correct one of the two")


def _content(record: Any) -> dict[str, Any]:
    """Return what a record says, without the words around it."""
    return dict(record.model_dump(exclude={"comment", "by"}))


def _drop_verifiers_of_stage_1(result: Annotations) -> None:
    """Let nobody verify a pair that he or she had a part in proposing, in whichever dimension."""
    proposers: dict[tuple[str, str], str] = {}
    for (pair, _), item in result.items.items():
        for proposal in item.proposals.values():
            proposers.setdefault((pair, proposal.record.annotator), proposal.place)
        for discussion in item.discussion.values():
            for person in discussion.record.by:
                proposers.setdefault((pair, person), discussion.place)
    for (pair, _), item in result.items.items():
        for person, verification in list(item.verifications.items()):
            place = proposers.get((pair, person))
            if place is not None:
                del item.verifications[person]
                text = f"{person} had a part in stage 1 of this pair ({place}) and cannot verify it; it does not count"
                result.report(verification, "both_stages", text)
