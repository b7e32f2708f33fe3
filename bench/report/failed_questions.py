"""Which questions of checklists pictures fail most often: kinds of questions, and single ones over several pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.folder import JudgeFile
from bench.questions import right_answers
from bench.report.blocks import Cell, Table
from bench.report.checklists import question_text
from bench.report.examples import JudgedRun
from gnomon.records import Case, Question
from gnomon.statistics import cluster_bootstrap

MIN_ANSWERS = 5
"""Fewer answers say little of a kind of questions."""

MAX_KINDS, MAX_QUESTIONS = 15, 20


@dataclass(frozen=True)
class _Asked:
    """A question about one picture: whether the answer is right, None where there is none."""

    case: Case
    question: Question
    right: float | None


def failed_question_tables(runs: Sequence[JudgedRun], judge: JudgeFile, times: int = 1) -> list[Table]:
    """Return the kinds of questions with the largest shares of wrong answers, and single questions likewise.

    Args:
        runs: whose pictures were judged.
        judge: of questions, of all of them.
        times: what shares are multiplied by, see :class:`bench.report.display.Display`.
    """
    asked = [one for run in runs for one in _asked(run, judge)]
    tables = []
    kinds: dict[tuple[str, str, str], list[_Asked]] = {}
    questions: dict[tuple[str, str], list[_Asked]] = {}
    for one in asked:
        kinds.setdefault((one.case.task, one.question.dimension, _tests(one.question)), []).append(one)
        questions.setdefault((one.case.id, one.question.id), []).append(one)
    if rows := _kind_rows(kinds, times):
        note = (
            f"The {len(rows)} with the largest share of wrong answers, of those with {MIN_ANSWERS} or more; 95 % "
            "intervals resample cases. What is without an answer is in no share."
        )
        columns = ["questions on", "family", "dimension", "share wrong", "answers", "without", "cases"]
        tables.append(Table(f"Kinds of questions most often failed, by {judge.name}", columns, rows, note))
    if rows := _question_rows(questions):
        note = "Of questions with answers about two pictures at least, over all models and seeds."
        columns = ["question", "case", "dimension", "wrong", "answers", "without"]
        tables.append(Table(f"Questions most often failed, by {judge.name}", columns, rows, note))
    return tables


def _asked(run: JudgedRun, judge: JudgeFile) -> list[_Asked]:
    found = []
    for item in run.run.items:
        case = run.run.cases[item[0]]
        verdicts = {question.id: run.answer(judge, item, question.id) for question in case.questions}
        known = {name: verdict.value for name, verdict in verdicts.items() if verdict is not None}
        right = right_answers(case.questions, known)
        found += [_Asked(case, question, right[question.id]) for question in case.questions if question.id in known]
    return found


def _tests(question: Question) -> str:
    """Return what a question is about, whatever the number of the reference: `reference-2.color` is about color."""
    attributes = [link.partition(".")[2] for link in question.about if "." in link]
    if attributes:
        return ", ".join(dict.fromkeys(attributes))
    return "references" if any(link.startswith("reference-") for link in question.about) else "the whole"


def _kind_rows(kinds: Mapping[tuple[str, str, str], Sequence[_Asked]], times: int) -> list[list[Cell]]:
    known = {kind: [one for one in members if one.right is not None] for kind, members in kinds.items()}
    shares = {
        kind: fmean(1 - (one.right or 0.0) for one in answered)
        for kind, answered in known.items()
        if len(answered) >= MIN_ANSWERS
    }
    worst = sorted((kind for kind, share in shares.items() if share > 0), key=lambda kind: -shares[kind])
    rows: list[list[Cell]] = []
    for kind in worst[:MAX_KINDS]:
        wrong = [times * (1 - (one.right or 0.0)) for one in known[kind]]
        share = cluster_bootstrap(wrong, [one.case.id for one in known[kind]])
        task, dimension, about = kind
        counts = [len(wrong), len(kinds[kind]) - len(wrong), share.num_clusters]
        rows.append([about, task, dimension, share, *counts])
    return rows


def _question_rows(questions: Mapping[tuple[str, str], Sequence[_Asked]]) -> list[list[Cell]]:
    rows: list[tuple[float, int, list[Cell]]] = []
    for (case_id, _), members in questions.items():
        known = [1 - one.right for one in members if one.right is not None]
        if len(known) < 2 or not any(known):
            continue
        question, wrong = members[0].question, int(sum(known))
        cells: list[Cell] = [question_text(question), case_id, question.dimension, wrong, len(known)]
        rows.append((wrong / len(known), len(known), [*cells, len(members) - len(known)]))
    return [row for *_, row in sorted(rows, key=lambda row: (-row[0], -row[1]))[:MAX_QUESTIONS]]
