"""The stage filter: people take out low-quality and ambiguous cases; without their files, everything stays.

A file is `instruct/review.csv` filled in, or lines of JSON: {sample, reviewer, keep, reason}. A sample stays when
enough people keep it and nobody takes it out; see :func:`data_build.votes.rule`. The files may be changed and more of
them given: decisions are made anew each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from data_build.mdmr.folder import FILTER, BuildFolder
from data_build.mdmr.instructions import SHOWN, valid_cases
from data_build.mdmr.settings import FilterSettings
from data_build.stages import counts_text, require_output, write_report
from data_build.votes import (
    KeepReview,
    LineProblem,
    ProblemKind,
    Ruling,
    Votes,
    read_votes,
    rule,
    unknown_item,
)
from gnomon.errors import UserError
from gnomon.hashing import file_hash
from gnomon.jsonl import read_records, write_records
from gnomon.records import Record
from gnomon.runs import RunFolder

COMMAND = "data build mdmr, filter"
DECISIONS = "decisions.jsonl"
PROBLEMS = "problems.jsonl"

Outcome = Ruling | Literal["not_filtered"]


class SampleReview(KeepReview):
    """Whether one person keeps one sample."""

    sample: str = Field(min_length=1)

    @property
    def subject(self) -> tuple[str, ...]:
        """What it is about."""
        return (self.sample,)


class FilterDecision(Record):
    """What becomes of one sample.

    Attributes:
        sample: its id.
        kept: whether it is a case.
        outcome: why.
        reasons: of those who take it out.
        records: `file:line` of every line that counted or contradicts another.
        detail: more, for people.
    """

    sample: str
    kept: bool
    outcome: Outcome
    reasons: list[str] = Field(default_factory=list)
    records: list[str] = Field(default_factory=list)
    detail: str | None = None


class FilterReport(Record):
    """Counts: samples with an instruction, decisions, why people took samples out, and lines that do not count.

    `files` holds the hashes of the files of reviews.
    """

    num_samples: int
    num_kept: int
    outcomes: dict[str, int]
    reasons: dict[str, int]
    problems: dict[str, int]
    files: dict[str, str]
    num_reviewers: int


def filter_samples(folder: BuildFolder, settings: FilterSettings) -> FilterReport:
    """Decide which samples with an instruction are kept.

    Raises:
        UserError: where the stage before did not run, for a file that cannot be read, and where nothing is left.
    """
    if settings.num_reviewers < 1:
        raise UserError(f"expected filter.num_reviewers >= 1, got {settings.num_reviewers}")
    names = list(valid_cases(folder))
    known = set(names)

    def refuse(line: SampleReview) -> tuple[ProblemKind, str] | None:
        return None if line.sample in known else unknown_item(line.sample, names)

    votes = read_votes(settings.reviews, SampleReview, refuse, filled_in=["keep"], shown=SHOWN)
    decisions = [_decision(name, votes, settings) for name in names]
    with RunFolder.open(folder.stage(FILTER), command=COMMAND, config={}, seed=0) as run:
        write_records(run.path / PROBLEMS, votes.problems)
        write_records(run.path / DECISIONS, decisions)
        report = _report(decisions, votes.problems, settings)
        write_report(run, report, report_lines(report))
    if not report.num_kept:
        raise UserError(f"no sample is kept: {counts_text(report.outcomes)}; see {folder.decisions}")
    return report


def _decision(sample: str, votes: Votes[SampleReview], settings: FilterSettings) -> FilterDecision:
    if not settings.reviews:
        return FilterDecision(sample=sample, kept=True, outcome="not_filtered")
    counting, contradictory = votes.counting.get((sample,), []), votes.contradictory.get((sample,), [])
    against = [vote.line for vote in counting if not vote.line.keep]
    outcome, detail = rule(votes, (sample,), is_rejected=bool(against), num_reviewers=settings.num_reviewers)
    return FilterDecision(
        sample=sample,
        kept=outcome == "approved",
        outcome=outcome,
        reasons=[line.reason for line in against if line.reason],
        records=[vote.where for vote in (*counting, *contradictory)],
        detail=detail,
    )


def kept_samples(folder: BuildFolder) -> set[str]:
    """Return the ids of the samples that are kept.

    Raises:
        UserError: where the stage did not run.
    """
    decisions = read_records(require_output(folder.decisions, FILTER), FilterDecision)
    return {decision.sample for decision in decisions if decision.kept}


def _report(
    decisions: Sequence[FilterDecision], problems: Sequence[LineProblem], settings: FilterSettings
) -> FilterReport:
    reasons = Counter(" ".join(reason.split()).casefold() for decision in decisions for reason in decision.reasons)
    return FilterReport(
        num_samples=len(decisions),
        num_kept=sum(decision.kept for decision in decisions),
        outcomes=dict(Counter(decision.outcome for decision in decisions).most_common()),
        reasons=dict(reasons.most_common()),
        problems=dict(Counter(problem.kind for problem in problems).most_common()),
        files={str(file): file_hash(file) for file in settings.reviews},
        num_reviewers=settings.num_reviewers,
    )


def report_lines(report: FilterReport) -> list[str]:
    """Return the report for people."""
    lines = [f"{report.num_kept:,} of {report.num_samples:,} samples are kept: {counts_text(report.outcomes)}"]
    if not report.files:
        lines.append("nobody looked through them: no file of reviews was given, so everything is kept")
    if report.reasons:
        lines.append(f"taken out for: {counts_text(report.reasons)}")
    if report.problems:
        lines.append(f"lines that do not count: {counts_text(report.problems)}; see {PROBLEMS}")
    return lines
