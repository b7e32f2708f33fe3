"""The cosine between vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def cosines(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    """Return the cosines of two sets of vectors of any length, pair by pair, float64 [first, second].

    A vector without a direction (all zeros, or NaN) has NaN with all others.
    """
    one, other = first.astype(np.float64), second.astype(np.float64)
    lengths = np.linalg.norm(one, axis=1)[:, None] * np.linalg.norm(other, axis=1)[None]
    found: NDArray[np.float64] = np.divide(
        one @ other.T, lengths, out=np.full(lengths.shape, np.nan), where=lengths > 0
    )
    return found
