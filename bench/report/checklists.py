"""A checklist with a judge's answers as a table: what was seen of each question, whether that is right, and why."""

from __future__ import annotations

from collections.abc import Mapping

from bench.questions import YES, right_answers
from bench.report.blocks import Cell, Noted, Table
from gnomon.records import Case, Question, Verdict

LONGEST_RATIONALE = 2000  # characters; the whole one is in samples.jsonl
DENIED = "counts as wrong, since a question that it depends on was denied"


def checklist_table(case: Case, answers: Mapping[str, Verdict], about: str) -> Table:
    """Return a row for each question of a case, with the answer and its reason, or the status of a failure.

    Args:
        case: whose questions were asked.
        answers: those that there are, by question.
        about: whose picture and which judge, for the caption.
    """
    right = right_answers(case.questions, {name: verdict.value for name, verdict in answers.items()})
    known = [value for value in right.values() if value is not None]
    rows: list[list[Cell]] = [
        [
            question_text(question),
            _answer(question, answers.get(question.id), right[question.id]),
            "yes" if question.expected else "no",
            question.dimension,
            question.level,
        ]
        for question in case.questions
    ]
    lost = len(right) - len(known)
    counts = f"{sum(map(int, known))} of {len(known)} right" + (f", {lost} without an answer" if lost else "")
    return Table(f"{about}: {counts}", ["question", "answer", "expected", "dimension", "level"], rows)


def question_text(question: Question) -> str:
    """Return a question in every language that it has."""
    return " / ".join(text for text in (question.text.en, question.text.zh) if text)


def cut(text: str) -> str:
    """Return a text of a bounded length, which says so where it was longer."""
    return text if len(text) <= LONGEST_RATIONALE else text[:LONGEST_RATIONALE] + " … (cut)"


def _answer(question: Question, verdict: Verdict | None, right: float | None) -> Noted:
    if verdict is None:
        return Noted("not asked yet")
    notes = [cut(verdict.rationale)] if verdict.rationale else []
    if verdict.value is None:
        return Noted(verdict.status, notes if right is None else [*notes, DENIED])
    is_yes = verdict.value >= YES
    if not right and is_yes == question.expected:
        notes = [*notes, DENIED]
    return Noted(f"{'yes' if is_yes else 'no'}: {'right' if right else 'wrong'}", notes)
