"""Which pictures are nearly the same as an earlier one, by the cosine of their vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK = 512


def near_duplicates(vectors: NDArray[np.floating], cosine: float) -> dict[int, tuple[int, float]]:
    """Return the pictures that are left out, with the one that stays and the cosine of both.

    A picture is compared with those that stay alone, so that a chain of similar ones does not lose both ends.

    Args:
        vectors: one for each picture [pictures, dimensions], the best pictures first; those with NaN or without length
            are like nothing.
        cosine: from which two are nearly the same.
    """
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = (vectors / lengths).astype(np.float32)
    unit[~np.isfinite(unit).all(axis=1)] = 0
    kept: list[int] = []
    found: dict[int, tuple[int, float]] = {}
    for start in range(0, len(unit), BLOCK):
        block = unit[start : start + BLOCK]
        earlier = block @ unit[kept].T if kept else np.zeros((len(block), 0), np.float32)
        inside = block @ block.T
        own: list[int] = []  # of this block, by place in it
        for place in range(len(block)):
            likeness = np.concatenate([earlier[place], inside[place, own]])
            best = int(likeness.argmax()) if likeness.size else -1
            if best >= 0 and likeness[best] >= cosine:
                found[start + place] = ([*kept, *(start + one for one in own)][best], float(likeness[best]))
            else:
                own.append(place)
        kept += [start + place for place in own]
    return found
