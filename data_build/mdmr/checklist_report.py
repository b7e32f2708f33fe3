"""What the stage checklists counts: questions by what became of them, and cases that lack a dimension."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bench.mdmr.cases import WEIGHTS
from data_build.mdmr.blind import BlindAnswer
from data_build.mdmr.checking import CheckedQuestion
from data_build.mdmr.settings import BlindSettings
from data_build.stages import counts_text
from gnomon.records import Record

LEVELS = ("global", "atomic")


class Incomplete(Record):
    """A case without questions in some dimensions."""

    sample: str
    missing: list[str]


class ChecklistReport(Record):
    """Counts.

    Attributes:
        num_cases: cases for which a checklist was wanted.
        num_cases_without_questions: those that have none.
        num_incomplete: those that lack a dimension, the former included.
        statuses: replies.
        outcomes: questions that were written.
        kept: questions that are kept, by dimension and level.
        missing: cases that lack a dimension, by dimension.
        blind_statuses: answers without a picture; a question whose answer failed is kept.
        num_flagged: questions that are kept although their words alone answer them.
        blind_action: what becomes of those.
        blind_confidence: from which probability they are such.
    """

    num_cases: int
    num_cases_without_questions: int
    num_incomplete: int
    statuses: dict[str, int]
    outcomes: dict[str, int]
    kept: dict[str, dict[str, int]]
    missing: dict[str, int]
    blind_statuses: dict[str, int]
    num_flagged: int
    blind_action: str
    blind_confidence: float


def missing_dimensions(cases: Mapping[str, Sequence[CheckedQuestion]]) -> list[Incomplete]:
    """Return the cases that lack a dimension."""
    found = []
    for name, items in cases.items():
        present = {item.question.dimension for item in items if item.outcome == "kept" and item.question is not None}
        if missing := [dimension for dimension in WEIGHTS if dimension not in present]:
            found.append(Incomplete(sample=name, missing=missing))
    return found


def checklist_report(
    cases: Mapping[str, Sequence[CheckedQuestion]],
    statuses: Sequence[str],
    blind: Sequence[BlindAnswer],
    settings: BlindSettings,
) -> ChecklistReport:
    """Count.

    Args:
        cases: the questions of each case.
        statuses: of the replies.
        blind: answers without pictures.
        settings: what becomes of questions that are answered so.
    """
    items = [item for questions in cases.values() for item in questions]
    kept: Counter[tuple[str, str]] = Counter(
        (item.question.dimension, item.question.level) for item in items if item.outcome == "kept" and item.question
    )
    incomplete = missing_dimensions(cases)
    missing = Counter(dimension for case in incomplete for dimension in case.missing)
    return ChecklistReport(
        num_cases=len(cases),
        num_cases_without_questions=sum(len(case.missing) == len(WEIGHTS) for case in incomplete),
        num_incomplete=len(incomplete),
        statuses=dict(sorted(Counter(statuses).items())),
        outcomes=dict(Counter(item.outcome for item in items).most_common()),
        kept={dimension: {level: kept[dimension, level] for level in LEVELS} for dimension in WEIGHTS},
        missing={dimension: missing[dimension] for dimension in WEIGHTS if missing[dimension]},
        blind_statuses=dict(sorted(Counter(answer.status for answer in blind).items())),
        num_flagged=sum(item.is_flagged for item in items),
        blind_action=settings.action,
        blind_confidence=settings.confidence,
    )


def report_lines(report: ChecklistReport) -> list[str]:
    """Return the report for people."""
    num_kept = report.outcomes.get("kept", 0)
    filled = report.num_cases - report.num_cases_without_questions
    mean = f", {num_kept / filled:.1f} a case" if filled else ""
    lines = [
        f"{num_kept:,} questions for {filled:,} of {report.num_cases:,} cases{mean}",
        f"replies: {counts_text(report.statuses)}",
        f"questions: {counts_text(report.outcomes)}",
        *(f"  {dimension}: {counts_text(levels)}" for dimension, levels in report.kept.items()),
    ]
    if report.num_incomplete:
        lines.append(f"cases that lack a dimension: {report.num_incomplete:,} ({counts_text(report.missing)})")
    if report.blind_action == "off":
        lines.append("no question was asked without pictures")
    else:
        lines.append(f"asked without pictures: {counts_text(report.blind_statuses)}")
    if report.num_flagged:
        lines.append(f"kept although their words alone answer them: {report.num_flagged:,}")
    return lines
