"""From the answers of a judge of questions to scores: what counts as right, and how often, question by question."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.aggregation import counted
from bench.benchmarks import Score
from bench.questions import YES, right_answers
from bench.results import Cell, Item, QuestionRate, QuestionResults
from gnomon.records import Case
from gnomon.statistics import Estimate, resample_columns


def right_scores(case: Case, answers: Mapping[str, Score], *, as_no: bool = False) -> dict[str, Score]:
    """Return what the answers to a case's questions are worth: 1 where it is the expected one, 0 where it is not.

    A failure keeps its status. A question that is not answered yet has no score yet, and neither has one that depends
    on such a question.

    Args:
        case: whose questions were asked.
        answers: what was seen, 1 for yes and 0 for no or the probability of yes, or the status of a failure.
        as_no: takes failures for wrong answers, apart from what is not applicable.
    """
    values = {name: score.value for name, score in answers.items()}
    if as_no:
        wrong = {question.id: 0.0 if question.expected else 1.0 for question in case.questions}
        lost = [name for name, score in answers.items() if score.status not in ("ok", "not_applicable")]
        values |= {name: wrong[name] for name in lost}
    right = right_answers(case.questions, values)
    return {
        question.id: answers[question.id] if (value := right[question.id]) is None else Score(value)
        for question in case.questions
        if question.id in answers and all(parent in answers for parent in question.depends_on)
    }


def question_results(answers: Mapping[Item, Mapping[str, Score]], cases: Mapping[str, Case]) -> QuestionResults:
    """Return the shares of yes and of right answers over all questions of all items, by dimension and level.

    Args:
        answers: what was seen, by item and question id; every item that was to be judged.
        cases: the cases by id.
    """
    asked = [(item, question) for item in answers for question in cases[item[0]].questions]
    said = [answers[item].get(question.id) for item, question in asked]
    right = {item: right_scores(cases[item[0]], found) for item, found in answers.items()}
    scored = [right[item].get(question.id) for item, question in asked]
    codes = {case_id: code for code, case_id in enumerate(sorted({item[0] for item in answers}))}
    clusters = np.array([codes[item[0]] for item, _ in asked], np.int64)
    labels: dict[str, list[str]] = {
        "dimension": [question.dimension for _, question in asked],
        "level": [question.level for _, question in asked],
    }
    groups = [(kind, name, np.array(found) == name) for kind, found in labels.items() for name in sorted(set(found))]
    groups.insert(0, ("", "", np.ones(len(asked), bool)))
    yes, as_expected = np.array([_number(score) for score in said]), np.array([_number(score) for score in scored])
    columns = [np.where(rows, values, np.nan) for values in (_as_yes(yes), as_expected) for _, _, rows in groups]
    # One table, since columns that have cases in common share their draws.
    estimates = resample_columns(np.stack(columns, axis=1), clusters).estimates()
    return QuestionResults(
        yes=_rate(said, groups, estimates[: len(groups)]), right=_rate(scored, groups, estimates[len(groups) :])
    )


def _number(score: Score | None) -> float:
    return math.nan if score is None or score.value is None else score.value


def _as_yes(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isnan(values), np.nan, values >= YES)


def _rate(
    scores: Sequence[Score | None],
    groups: Sequence[tuple[str, str, NDArray[np.bool_]]],
    estimates: Sequence[Estimate | None],
) -> QuestionRate:
    """Return the cell of all questions, which come first, with those of the groups."""
    statuses = np.array(["pending" if score is None else score.status for score in scores], np.str_)
    cells = [_cell(statuses[rows], estimate) for (_, _, rows), estimate in zip(groups, estimates, strict=True)]
    by_kind: dict[str, dict[str, Cell]] = {}
    for (kind, name, _), cell in list(zip(groups, cells, strict=True))[1:]:
        by_kind.setdefault(kind, {})[name] = cell
    return QuestionRate(**dict(cells[0]), groups=by_kind)


def _cell(statuses: NDArray[np.str_], estimate: Estimate | None) -> Cell:
    names, numbers = np.unique(statuses, return_counts=True)
    found = Counter(dict(zip(names.tolist(), numbers.tolist(), strict=True)))
    return counted(found, estimate, n_pending=found.pop("pending", 0))
