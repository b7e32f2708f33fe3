"""How MDMR-Bench makes an item's dimensions and its overall score, and what its groups are.

Source: MDMR-Bench. A dimension is the share of its questions that are answered as expected, the overall score the
weighted mean of the dimensions, a family the mean of its sub-tasks' means, and the final score the mean of the
families. The paper does not say what becomes of a dimension without questions: here it does not apply, and the weights
of the others are divided by their sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from bench.benchmarks import Benchmark, Score
from bench.mdmr.cases import FAMILIES, NAME, WEIGHTS, facts_of, problems
from bench.questions import NOT_APPLICABLE, share_of_right
from gnomon.records import Case


def groups(case: Case) -> dict[str, str]:
    """Return a case's family and sub-task, how many references it has, and what its `meta` says.

    A case without a sub-task is one of its family alone.
    """
    facts = facts_of(case)
    found = {
        "family": case.task,
        "subtask": case.subtask or case.task,
        "num_references": str(len(case.references)),
        "reference_origin": facts.reference_origin,
    }
    if facts.content_type is not None:
        found["content_type"] = facts.content_type
    if facts.text_language is not None:
        found["text_language"] = facts.text_language
    return found


def applies(case: Case, metric: str) -> bool:
    """Tell whether a case has questions in a dimension; one without any questions can only be scored as a whole."""
    if metric not in WEIGHTS or not case.questions:
        return True
    return any(question.dimension == metric for question in case.questions)


def derive_from_answers(case: Case, answers: Mapping[str, Score]) -> dict[str, Score]:
    """Return an item's dimensions and its overall score.

    A failed answer is left out of its dimension; one without any other answer fails with the status of the first. A
    dimension without questions is `not_applicable`, and one of which a question is not answered yet is left out.

    Args:
        case: whose questions were asked.
        answers: 1 for what was expected, 0 for the other, or a failure, by question.
    """
    members: dict[str, list[str]] = {dimension: [] for dimension in WEIGHTS}
    for question in case.questions:
        members.setdefault(question.dimension, []).append(question.id)
    found = {dimension: share_of_right(members[dimension], answers) for dimension in WEIGHTS}
    return _known(found | {"overall": _overall(found)})


def derive(case: Case, scores: Mapping[str, Score]) -> dict[str, Score]:
    """Return the overall score of an item whose dimensions were scored as wholes; see :class:`bench.mdmr.ScoreJudge`.

    Args:
        case: what the item is about.
        scores: of the dimensions, 0..1.
    """
    if not any(dimension in scores for dimension in WEIGHTS):
        return {}
    found = {dimension: scores.get(dimension) if applies(case, dimension) else NOT_APPLICABLE for dimension in WEIGHTS}
    return _known({"overall": _overall(found)})


def _overall(dimensions: Mapping[str, Score | None]) -> Score | None:
    """Return the weighted mean of the dimensions that apply; a failed one fails it, an open one leaves it open."""
    applying = {name: score for name, score in dimensions.items() if score != NOT_APPLICABLE}
    if not applying:
        return NOT_APPLICABLE
    if failure := next((score for score in applying.values() if score is not None and score.value is None), None):
        return failure
    values = {name: score.value for name, score in applying.items() if score is not None and score.value is not None}
    if len(values) < len(applying):
        return None
    total = math.fsum(WEIGHTS[name] for name in values)
    return Score(math.fsum(WEIGHTS[name] * value for name, value in values.items()) / total)


def _known(scores: Mapping[str, Score | None]) -> dict[str, Score]:
    return {name: score for name, score in scores.items() if score is not None}


MDMR_BENCH = Benchmark(
    NAME,
    "pictures made from one to four references in five families; scored by judges that answer each case's checklist",
    derive=derive,
    derive_from_answers=derive_from_answers,
    groups=groups,
    parts={"family": frozenset(FAMILIES)},
    source="built by `gnomon data build mdmr --config FILE`",
    derived={
        "following": "share of the questions on the instruction that are answered as expected",
        "consistency": "the same of the questions on whether references are kept",
        "composition": "the same of those on whether parts fit together",
        "minimality": "the same of those on whether nothing changed that was not asked for",
        "quality": "the same of those on faults of the picture",
        "overall": "mean of those that apply, weighted .20, .25, .25, .20, .10; its final is the mean of the families",
    },
    applies=applies,
    dimensions=tuple(WEIGHTS),
    final=("family", "subtask"),
    shown_times=100,
    check=problems,
)
