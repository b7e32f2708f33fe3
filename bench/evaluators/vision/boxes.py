"""Boxes in pictures: how far they overlap, which of them are left then, and what they cut out.

A box is (left, top, right, bottom) in pixels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image

Boxes = NDArray[np.float64]
"""Of shape (number of boxes, 4)."""


def intersection_over_union(first: Boxes, second: Boxes) -> NDArray[np.float64]:
    """Return how far each of the first boxes overlaps each of the second: shape (first, second), in 0..1.

    A box without area overlaps nothing.
    """
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=-1)
    union = _areas(first)[:, None] + _areas(second)[None, :] - shared
    overlaps: NDArray[np.float64] = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return overlaps


def _areas(boxes: Boxes) -> NDArray[np.float64]:
    areas: NDArray[np.float64] = np.prod(np.clip(boxes[:, 2:] - boxes[:, :2], 0, None), axis=-1)
    return areas


def suppressed(boxes: NDArray[Any], scores: NDArray[Any], threshold: float, *, of_smaller: bool = False) -> list[int]:
    """Return which boxes are left, the surest first, when each takes out those that overlap it too much.

    Args:
        boxes: left, top, right, bottom [n, 4].
        scores: [n].
        threshold: the largest share of overlap that is let stand, 0 to 1.
        of_smaller: whether the overlap is a share of the smaller box of the two, and not of their union.
    """
    areas = _areas(boxes)
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


def crop(image: Image.Image, box: Boxes, margin: float) -> Image.Image:
    """Cut a box out of a picture.

    Args:
        image: the picture.
        box: of shape (4,); may reach beyond the picture.
        margin: what is added on each side, as a share of the box's width and height.

    Returns:
        At least one pixel of the picture.
    """
    width, height = box[2] - box[0], box[3] - box[1]
    left, top = box[0] - margin * width, box[1] - margin * height
    right, bottom = box[2] + margin * width, box[3] + margin * height
    x = int(np.clip(np.floor(left), 0, image.width - 1))
    y = int(np.clip(np.floor(top), 0, image.height - 1))
    return image.crop(
        (x, y, int(np.clip(np.ceil(right), x + 1, image.width)), int(np.clip(np.ceil(bottom), y + 1, image.height)))
    )
