"""How many items of checklists are valid: people judge the questions of some cases, one row of a sheet each.

An item is valid when most people who judged it say so; where as many say yes as no, it is undecided. Nobody can say
two things: such rows of one person count for nothing. The rate has two intervals: one that resamples whole cases, for
questions of one case have one author and one set of references, and Wilson's, which takes all items as independent and
says something even where every item is valid. Sources: MDMR-Bench (2,925 of 2,962 items of 100 cases are valid);
Wilson, JASA 22 (1927) 209.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field
from scipy.stats import binomtest

from bench.report.formatting import NOTHING
from bench.statistics.majority import majority_vote
from bench.text import aligned
from data_build.votes import LineProblem, Opinion, ProblemKind, Votes, person_name, read_votes, unknown_item
from gnomon.datasets import read_cases
from gnomon.errors import UserError
from gnomon.hashing import stable_seed
from gnomon.records import Case, Question, Record
from gnomon.sheets import write_sheet
from gnomon.statistics import cluster_bootstrap

SHOWN = ("task", "subtask", "instruction", "references", "dimension", "level", "about", "expected", "en", "zh")
"""Columns of the sheet that people look at."""

Item = tuple[str, str]
"""A case's id and a question's."""


class ItemJudgement(Opinion):
    """Whether one person finds one question valid."""

    case: str = Field(min_length=1)
    question: str = Field(min_length=1)
    auditor: str = Field(min_length=1)
    valid: bool
    comment: str | None = None

    @property
    def person(self) -> str:
        """Who said it."""
        return person_name(self.auditor)

    @property
    def subject(self) -> tuple[str, ...]:
        """What it is about."""
        return (self.case, self.question)

    @property
    def answer(self) -> object:
        """What it says."""
        return self.valid


class ValidityRate(Record):
    """The share of valid items among those that were decided, in 0..1.

    `ci_low` and `ci_high` resample cases, and are None for fewer than two; those of `wilson` take items as independent.
    """

    value: float
    ci_low: float | None
    ci_high: float | None
    wilson_low: float
    wilson_high: float
    num_items: int
    num_valid: int
    num_cases: int


class InvalidItem(Record):
    """A question that most people find invalid, and what they say."""

    case: str
    question: str
    en: str
    comments: list[str]


class AuditReport(Record):
    """What an audit found.

    Attributes:
        rate: over all items; None where none was decided.
        dimensions: the same by dimension.
        levels: the same by level.
        num_items: questions of the cases that somebody judged.
        num_undecided: as many people say valid as invalid.
        num_contradictory: nobody is left who said one thing only.
        num_missing: nobody said anything.
        num_auditors: people.
        problems: lines that do not count, by kind.
        lines: the same one by one.
        invalid: the items.
    """

    rate: ValidityRate | None
    dimensions: dict[str, ValidityRate]
    levels: dict[str, ValidityRate]
    num_items: int
    num_undecided: int
    num_contradictory: int
    num_missing: int
    num_auditors: int
    problems: dict[str, int]
    lines: list[LineProblem]
    invalid: list[InvalidItem]


def write_audit_sheet(cases: str | Path, sheet: str | Path, *, num_cases: int, seed: int = 0) -> tuple[int, int]:
    """Write a sheet of all questions of some cases, drawn at random, and return how many cases and questions it has.

    Args:
        cases: a dataset folder.
        sheet: the file to write.
        num_cases: so many; all where there are fewer.
        seed: of the draw: each case has a place of its own, so that a larger sheet holds the smaller one's cases.

    Raises:
        UserError: where the dataset cannot be read, or no case has a question.
    """
    known = [case for case in read_cases(cases) if case.questions]
    if not known:
        raise UserError(
            f"expected cases with questions in {cases}, got none; their checklists have to be written first"
        )
    drawn = {case.id for case in sorted(known, key=lambda case: stable_seed(seed, case.id))[:num_cases]}
    rows = [_row(case, question) for case in known if case.id in drawn for question in case.questions]
    write_sheet(sheet, ["case", "question", *SHOWN, "auditor", "valid", "comment"], rows)
    return len(drawn), len(rows)


def _row(case: Case, question: Question) -> dict[str, str]:
    return {
        "case": case.id,
        "question": question.id,
        "task": case.task,
        "subtask": case.subtask or "",
        "instruction": case.instruction.get("en"),
        "references": " ".join(reference.path for reference in case.references),
        "dimension": question.dimension,
        "level": question.level,
        "about": " ".join(question.about),
        "expected": "yes" if question.expected else "no",
        "en": question.text.en or "",
        "zh": question.text.zh or "",
    }


def merge_audit(cases: str | Path, sheets: Sequence[Path], *, seed: int = 0) -> AuditReport:
    """Return how many items are valid by what people filled in.

    Args:
        cases: the dataset folder that the sheets were written from.
        sheets: files filled in, CSV or lines of :class:`ItemJudgement`.
        seed: of the resampling.

    Raises:
        UserError: where a file or the dataset cannot be read.
    """
    items = {(case.id, question.id): question for case in read_cases(cases) for question in case.questions}
    names = sorted({case for case, _ in items})

    def refuse(line: ItemJudgement) -> tuple[ProblemKind, str] | None:
        if (line.case, line.question) in items:
            return None
        if line.case not in names:
            return unknown_item(line.case, names)
        return unknown_item(line.question, [question for case, question in items if case == line.case])

    votes = read_votes(sheets, ItemJudgement, refuse, filled_in=["valid"], shown=SHOWN)
    return audit_report(items, votes, seed=seed)


@dataclass(frozen=True)
class _Decided:
    """Items that most people agree on, and how many are not such."""

    valid: dict[Item, bool]
    num_undecided: int
    num_contradictory: int
    num_missing: int


def audit_report(items: Mapping[Item, Question], votes: Votes[ItemJudgement], *, seed: int) -> AuditReport:
    """Return what people say of the items of the cases that they judged.

    Args:
        items: the questions of the dataset.
        votes: what was said.
        seed: of the resampling.
    """
    judged = {subject[0] for subject in (*votes.counting, *votes.contradictory)}
    audited = {item: question for item, question in items.items() if item[0] in judged}
    decided = _decide(audited, votes)
    said = [*votes.counting.values(), *votes.contradictory.values()]

    def rates(name_of: Callable[[Question], str]) -> dict[str, ValidityRate]:
        groups: dict[str, dict[Item, bool]] = {}
        for item, valid in decided.valid.items():
            groups.setdefault(name_of(audited[item]), {})[item] = valid
        return {name: validity_rate(group, seed=seed) for name, group in groups.items()}

    return AuditReport(
        rate=validity_rate(decided.valid, seed=seed) if decided.valid else None,
        dimensions=rates(lambda question: question.dimension),
        levels=rates(lambda question: question.level),
        num_items=len(audited),
        num_undecided=decided.num_undecided,
        num_contradictory=decided.num_contradictory,
        num_missing=decided.num_missing,
        num_auditors=len({vote.line.person for some in said for vote in some}),
        problems=dict(Counter(problem.kind for problem in votes.problems).most_common()),
        lines=votes.problems,
        invalid=[_invalid(item, audited[item], votes) for item, valid in decided.valid.items() if not valid],
    )


def _decide(items: Mapping[Item, Question], votes: Votes[ItemJudgement]) -> _Decided:
    valid: dict[Item, bool] = {}
    outcomes: Counter[str] = Counter()
    for item in items:
        majority = majority_vote([vote.line.valid for vote in votes.counting.get(item, [])])
        if majority.value is not None:
            valid[item] = majority.value
        else:
            contradictory = majority.outcome == "no votes" and item in votes.contradictory
            outcomes["contradictory" if contradictory else majority.outcome] += 1
    return _Decided(valid, outcomes["tie"], outcomes["contradictory"], outcomes["no votes"])


def validity_rate(valid: Mapping[Item, bool], *, seed: int = 0) -> ValidityRate:
    """Return the share of valid items with both intervals, of 95 %.

    Args:
        valid: by item, at least one.
        seed: of the resampling of cases.
    """
    found = cluster_bootstrap([float(one) for one in valid.values()], [case for case, _ in valid], seed=seed)
    num_valid = sum(valid.values())
    wilson = binomtest(num_valid, len(valid)).proportion_ci(method="wilson")
    return ValidityRate(
        value=found.value,
        ci_low=found.ci_low,
        ci_high=found.ci_high,
        wilson_low=float(wilson.low),
        wilson_high=float(wilson.high),
        num_items=found.n,
        num_valid=num_valid,
        num_cases=found.num_clusters,
    )


def _invalid(item: Item, question: Question, votes: Votes[ItemJudgement]) -> InvalidItem:
    comments = [vote.line.comment for vote in votes.counting[item] if vote.line.comment and not vote.line.valid]
    return InvalidItem(case=item[0], question=item[1], en=question.text.get("en"), comments=comments)


def audit_text(report: AuditReport) -> str:
    """Return what an audit found for a terminal."""
    decided = report.rate.num_items if report.rate else 0
    lines = [
        f"{report.num_items:,} items judged by {report.num_auditors:,} people: {decided:,} decided, "
        f"{report.num_undecided:,} undecided, {report.num_contradictory:,} contradictory, "
        f"{report.num_missing:,} missing"
    ]
    if report.rate is not None:
        rows = {"all": report.rate, **report.dimensions, **report.levels}
        table = [["", "valid", "items", "rate", "95 % by case", "Wilson"]]
        table += [[name, *_cells(rate)] for name, rate in rows.items()]
        lines.append(aligned(table))
    if report.problems:
        counts = ", ".join(f"{name} {count:,}" for name, count in report.problems.items())
        lines.append(f"lines that do not count, or contradict another: {counts}")
    return "\n".join(lines)


def _cells(rate: ValidityRate) -> list[str]:
    by_case = NOTHING if rate.ci_low is None or rate.ci_high is None else _interval(rate.ci_low, rate.ci_high)
    wilson = _interval(rate.wilson_low, rate.wilson_high)
    return [f"{rate.num_valid:,}", f"{rate.num_items:,}", f"{100 * rate.value:.2f} %", by_case, wilson]


def _interval(low: float, high: float) -> str:
    return f"{100 * low:.2f} .. {100 * high:.2f}"
