"""Which region of a picture is which slot's: one region serves one slot, and what is found nowhere is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from bench.evaluators.vision.boxes import Boxes, intersection_over_union

Scores = NDArray[np.float64]

SAME_REGION = 0.8
"""Intersection over union from which boxes that were found for different names are one region."""


@dataclass(frozen=True)
class Regions:
    """Where slots may be.

    Attributes:
        boxes: of shape (region, 4), in pixels.
        scores: of shape (slot, region): how sure it is that the slot is there; 0 where it is not.
    """

    boxes: Boxes
    scores: Scores


def pooled(found: Sequence[tuple[Boxes, Scores]]) -> Regions:
    """Pool what was found for each slot: boxes that overlap by `SAME_REGION` become one region, the surest of them.

    Args:
        found: boxes of shape (found, 4) and their scores (above 0), for each slot. Boxes of one slot do not overlap.
    """
    entries = [
        (float(score), slot, box)
        for slot, (boxes, scores) in enumerate(found)
        for box, score in zip(boxes, scores, strict=True)
    ]
    regions: list[NDArray[np.float64]] = []
    columns: list[Scores] = []
    for score, slot, box in sorted(entries, key=lambda entry: -entry[0]):
        place = _same_region(box, regions)
        if place is None:
            place = len(regions)
            regions.append(box)
            columns.append(np.zeros(len(found)))
        columns[place][slot] = max(columns[place][slot], score)
    return Regions(np.array(regions).reshape(-1, 4), np.array(columns).reshape(-1, len(found)).T)


def _same_region(box: NDArray[np.float64], regions: Sequence[NDArray[np.float64]]) -> int | None:
    if not regions:
        return None
    overlaps = intersection_over_union(box[None], np.array(regions))[0]
    best = int(overlaps.argmax())
    return best if overlaps[best] >= SAME_REGION else None


def assign(scores: Scores) -> list[int | None]:
    """Give each slot a region of its own so that the sum of scores is largest (Kuhn 1955).

    Args:
        scores: of shape (slot, region), 0 where a slot cannot be.

    Returns:
        The region of each slot; None where it is missing.
    """
    given: list[int | None] = [None] * len(scores)
    for slot, region in zip(*linear_sum_assignment(scores, maximize=True), strict=True):
        if scores[slot, region] > 0:
            given[int(slot)] = int(region)
    return given


def exchange(given: Sequence[int | None], names: Sequence[str], similarity: Scores) -> list[int | None]:
    """Let slots of one name, which a detector cannot tell apart, share out their regions by similarity.

    Args:
        given: the region of each slot, as :func:`assign` returns it.
        names: of the slots.
        similarity: of shape (slot, region): how alike a slot's reference and the region are.

    Returns:
        The region of each slot; as many of each name are missing as before.
    """
    settled = list(given)
    for name in dict.fromkeys(names):
        slots = [slot for slot, other in enumerate(names) if other == name]
        regions = [region for slot in slots if (region := given[slot]) is not None]
        for slot in slots:
            settled[slot] = None
        rows, columns = linear_sum_assignment(similarity[np.ix_(slots, regions)], maximize=True)
        for row, column in zip(rows, columns, strict=True):
            settled[slots[row]] = regions[column]
    return settled
