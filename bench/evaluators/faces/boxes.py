"""Boxes that overlap: of those that show the same thing, the surest is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def suppressed(boxes: NDArray[Any], scores: NDArray[Any], threshold: float, *, of_smaller: bool = False) -> list[int]:
    """Return which boxes are left, the surest first, when each takes out those that overlap it too much.

    Args:
        boxes: left, top, right, bottom [n, 4].
        scores: [n].
        threshold: the largest share of overlap that is let stand, 0 to 1.
        of_smaller: whether the overlap is a share of the smaller box of the two, and not of their union.
    """
    areas = np.prod(np.maximum(0, boxes[:, 2:] - boxes[:, :2]), axis=1)
    waiting = np.argsort(-scores, kind="stable")
    kept = []
    while len(waiting):
        first, waiting = int(waiting[0]), waiting[1:]
        kept.append(first)
        corners = np.maximum(boxes[first, :2], boxes[waiting, :2]), np.minimum(boxes[first, 2:], boxes[waiting, 2:])
        shared = np.prod(np.maximum(0, corners[1] - corners[0]), axis=1)
        both = np.minimum(areas[first], areas[waiting]) if of_smaller else areas[first] + areas[waiting] - shared
        waiting = waiting[shared <= threshold * both]
    return kept
