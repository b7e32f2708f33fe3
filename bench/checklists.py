"""From the answers of a judge of questions to scores: what counts as right, and how often, question by question."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from bench.aggregation import counted
from bench.benchmarks import Score, benchmark_of
from bench.questions import YES, right_answers
from bench.results import Cell, Item, QuestionRate, QuestionResults
from gnomon.records import Case, Status
from gnomon.statistics import Estimate, resample_columns

_WORTH = {0.0: Score(0.0), 1.0: Score(1.0)}  # made once: a benchmark has a hundred thousand answers
_STATUSES: tuple[Status, ...] = get_args(Status)
_Group = tuple[str, str, NDArray[np.bool_]]
"""Kind and name of a group, and which rows belong to it."""


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
        question.id: answers[question.id] if (value := right[question.id]) is None else _WORTH[value]
        for question in case.questions
        if question.id in answers and not (question.depends_on and set(question.depends_on) - answers.keys())
    }


def question_results(answers: Mapping[Item, Mapping[str, Score]], cases: Mapping[str, Case]) -> QuestionResults:
    """Return the shares of yes and of right answers over all questions of all items, and of each group of questions.

    Args:
        answers: what was seen, by item and question id; every item that was to be judged.
        cases: the cases by id.
    """
    lists = [cases[case_id].questions for case_id, _ in answers]
    asked = list(chain.from_iterable(lists))
    said = [
        given.get(question.id) for given, of_item in zip(answers.values(), lists, strict=True) for question in of_item
    ]
    values, statuses = _numbers(said), _codes(said)
    expected = np.array([question.expected for question in asked], bool)
    yes = np.where(np.isnan(values), np.nan, values >= YES)
    right = np.where(np.isnan(values), np.nan, yes == expected)
    right_statuses = statuses.copy()
    lengths = np.array([len(of_item) for of_item in lists], np.int64)
    for (item, given), of_item, end in zip(answers.items(), lists, lengths.cumsum().tolist(), strict=True):
        if any(question.depends_on for question in of_item):
            tied = right_scores(cases[item[0]], given)
            scored, rows = [tied.get(question.id) for question in of_item], slice(end - len(of_item), end)
            right[rows], right_statuses[rows] = _numbers(scored), _codes(scored)
    codes = {case_id: code for code, case_id in enumerate(sorted({item[0] for item in answers}))}
    clusters = np.repeat(np.array([codes[case_id] for case_id, _ in answers], np.int64), lengths)
    of_case = {case_id: _belongings(cases[case_id]) for case_id in {case_id for case_id, _ in answers}}
    belongs = list(chain.from_iterable(of_case[case_id] for case_id, _ in answers))
    groups = [
        ("", "", np.ones(len(asked), bool)),
        *_groups(belongs),
    ]
    columns = [np.where(here, found, np.nan) for found in (yes, right) for _, _, here in groups]
    # One table, since columns that have cases in common share their draws.
    estimates = resample_columns(np.stack(columns, axis=1), clusters).estimates()
    return QuestionResults(
        yes=_rate(statuses, groups, estimates[: len(groups)]),
        right=_rate(right_statuses, groups, estimates[len(groups) :]),
    )


def _numbers(scores: Sequence[Score | None]) -> NDArray[np.float64]:
    return np.array([np.nan if score is None or score.value is None else score.value for score in scores], np.float64)


def _codes(scores: Sequence[Score | None]) -> NDArray[np.int64]:
    """Return the place of each status in `_STATUSES`; behind the last one is what is pending."""
    places = {status: place for place, status in enumerate(_STATUSES)}
    return np.array([len(places) if score is None else places[score.status] for score in scores], np.int64)


def _belongings(case: Case) -> list[Mapping[str, Collection[str]]]:
    """Return what each question of a case belongs to."""
    benchmark = benchmark_of(case)
    return [benchmark.question_groups(case, question) for question in case.questions]


def _groups(belongs: Sequence[Mapping[str, Collection[str]]]) -> list[_Group]:
    """Return every group by kind and name, both sorted, with the rows that belong to it."""
    rows: dict[tuple[str, str], list[int]] = {}
    for row, kinds in enumerate(belongs):
        for kind, names in kinds.items():
            for name in names:
                rows.setdefault((kind, name), []).append(row)
    found = []
    for kind, name in sorted(rows):
        here = np.zeros(len(belongs), bool)
        here[rows[kind, name]] = True
        found.append((kind, name, here))
    return found


def _rate(statuses: NDArray[np.int64], groups: Sequence[_Group], estimates: Sequence[Estimate | None]) -> QuestionRate:
    """Return the cell of all questions, which come first, with those of the groups."""
    cells = [_cell(statuses[rows], estimate) for (_, _, rows), estimate in zip(groups, estimates, strict=True)]
    by_kind: dict[str, dict[str, Cell]] = {}
    for (kind, name, _), cell in list(zip(groups, cells, strict=True))[1:]:
        by_kind.setdefault(kind, {})[name] = cell
    return QuestionRate(**dict(cells[0]), groups=by_kind)


def _cell(statuses: NDArray[np.int64], estimate: Estimate | None) -> Cell:
    *counts, n_pending = np.bincount(statuses, minlength=len(_STATUSES) + 1).tolist()
    known: dict[str, int] = {status: count for status, count in zip(_STATUSES, counts, strict=True) if count}
    return counted(known, estimate, n_pending=n_pending)
