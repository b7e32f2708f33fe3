"""Which answers to yes/no questions are right, also where questions depend on others.

Whether a hat is red can only be asked of a picture with a hat in it. Source: Cho et al., Davidsonian Scene Graph (arXiv
2310.18235), section 3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from bench.benchmarks import Score
from gnomon.records import Question

YES = 0.5
"""A probability of yes from which on a picture shows what a question asks."""

NOT_APPLICABLE = Score(None, "not_applicable")


def right_answers(questions: Sequence[Question], values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return 1 for each question that is answered as it should be, 0 for the others, None where there is no answer.

    Args:
        questions: the whole checklist.
        values: what was seen, by question: 1 for yes, 0 for no, or the probability of yes; None or missing where that
            failed. A question under a denied one is 0, see :func:`with_dependencies`.
    """
    scores = {
        question.id: None if (value := values.get(question.id)) is None else float((value >= YES) == question.expected)
        for question in questions
    }
    if not any(question.depends_on for question in questions):
        return scores
    return with_dependencies(scores, {question.id: question.depends_on for question in questions})


def with_dependencies(
    scores: Mapping[str, float | None], parents: Mapping[str, Collection[str]]
) -> dict[str, float | None]:
    """Return the scores with 0 for each question of which a parent was answered no.

    A parent counts by its own answer, whatever that one's parents say. A parent without an answer denies nothing. A
    question whose own answer failed is still 0 under a parent that was denied, and stays None otherwise.

    Args:
        scores: 1 for the expected answer, 0 for the other, None for a failure, by question.
        parents: the questions that each one depends on; a question that is not listed depends on none.

    Raises:
        ValueError: for a parent that is no question of `scores`.
    """
    if not any(parents.values()):
        return dict(scores)
    unknown = sorted({parent for question in scores for parent in parents.get(question, ()) if parent not in scores})
    if unknown:
        raise ValueError(f"expected parents among the questions, got unknown ones: {', '.join(unknown)}")
    return {
        question: 0.0 if any(scores[parent] == 0 for parent in parents.get(question, ())) else score
        for question, score in scores.items()
    }


def share_of_right(questions: Sequence[str], answers: Mapping[str, Score]) -> Score | None:
    """Return the share of questions that are answered as expected, of those that were answered.

    Without any question it is not applicable; where none was answered it fails with the status of the first; None as
    long as one of them was not asked yet.

    Args:
        questions: their ids.
        answers: 1 for what was expected, 0 for the other, or a failure, by question.
    """
    if not questions:
        return NOT_APPLICABLE
    given = [score for question in questions if (score := answers.get(question)) is not None]
    if len(given) < len(questions):
        return None
    values = [score.value for score in given if score.value is not None]
    return Score(fmean(values)) if values else given[0]
