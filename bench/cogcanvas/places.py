"""Which mask of a picture is which subject's, first in an empty scene and then from pass to pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

if TYPE_CHECKING:
    from bench.evaluators.vision.segmentation import Mask


def given_places(masks: Sequence[Mask], count: int) -> list[Mask | None]:
    """Give the surest masks of one concept to its `count` subjects, from left to right.

    Args:
        masks: the surest first.
        count: of the subjects, which are in the order in which they shall stand.

    Returns:
        The mask of each subject; None for the last ones where there are too few.
    """
    found = sorted(masks[:count], key=_middle)
    return [*found, *[None] * (count - len(found))]


def followed_places(before: Sequence[Mask | None], masks: Sequence[Mask], min_overlap: float) -> list[Mask | None]:
    """Find the subjects of one concept again in a picture that was changed in places.

    Args:
        before: the mask of each subject, None for one that had none.
        masks: what is found now, the surest first.
        min_overlap: intersection over union below which a mask is not the one from before.

    Returns:
        For each subject the mask now, or the one from before where it is not found again. One that had none gets what
        nobody else claims, the surest first.
    """
    overlaps = np.array([[overlap(one, other) if one is not None else 0.0 for other in masks] for one in before])
    overlaps = overlaps.reshape(len(before), len(masks))
    after, free = list(before), list(range(len(masks)))
    rows, columns = linear_sum_assignment(overlaps, maximize=True)
    for subject, place in zip(rows.tolist(), columns.tolist(), strict=True):
        if overlaps[subject, place] >= min_overlap:
            after[subject] = masks[place]
            free.remove(place)
    for subject, known in enumerate(after):
        if known is None and free:
            after[subject] = masks[free.pop(0)]
    return after


def is_found(mask: Mask, masks: Sequence[Mask], min_overlap: float) -> bool:
    """Tell whether one of the masks is where `mask` is."""
    return any(overlap(mask, other) >= min_overlap for other in masks)


def overlap(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """Return the intersection over the union of two masks of one shape, 0..1."""
    union = int((first | second).sum())
    return float((first & second).sum()) / union if union else 0.0


def _middle(mask: Mask) -> float:
    return float(np.flatnonzero(mask.any(0)).mean())
