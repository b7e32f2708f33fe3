"""Who is who: references of people against faces in a picture."""

from __future__ import annotations

from typing import Any, Literal

from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Matching = Literal["hungarian", "best"]


def match(similarity: NDArray[Any], matching: Matching = "hungarian") -> list[int | None]:
    """Return the face that each person is taken to have; None where none is left.

    Args:
        similarity: of people and faces [people, faces].
        matching: "hungarian" gives no face to two people and makes the sum of similarities largest (Kuhn 1955);
            "best" takes for each person the face that is most like them, be it somebody else's as well.
    """
    people, faces = similarity.shape
    if not faces:
        return [None] * people
    if matching == "best":
        return [int(row.argmax()) for row in similarity]
    found = dict(zip(*(places.tolist() for places in linear_sum_assignment(similarity, maximize=True)), strict=True))
    return [found.get(person) for person in range(people)]
