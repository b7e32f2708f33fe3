"""Yes/no questions that depend on others: whether a hat is red can only be asked of a picture with a hat in it.

Source: Cho et al., Davidsonian Scene Graph (arXiv 2310.18235), section 3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


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
    unknown = sorted({parent for question in scores for parent in parents.get(question, ()) if parent not in scores})
    if unknown:
        raise ValueError(f"expected parents among the questions, got unknown ones: {', '.join(unknown)}")
    return {
        question: 0.0 if any(scores[parent] == 0 for parent in parents.get(question, ())) else score
        for question, score in scores.items()
    }
