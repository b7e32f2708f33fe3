"""Judges that know nothing, as yardsticks: what they reach on a set is what a judge's accuracy must be held against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from gnomon.hashing import stable_seed
from rm.pairs import Pair

CONTROLS = ("always-first", "random", "majority")


def control_differences(
    name: str, pairs: Sequence[Pair], dimensions: Sequence[str], *, seed: int = 0
) -> list[dict[str, float]]:
    """Return the score differences (first minus second) that a control judge gives [pairs], by dimension.

    - always-first prefers the first candidate: its accuracy above one half is the set's skew.
    - random prefers either by a stable hash of seed, pair and dimension.
    - majority gives every pair of a dimension the dimension's commonest label in `pairs` (ties included; at a draw
      the first of first, second, tie): the best that a judge can do without looking.

    Raises:
        ValueError: for an unknown name.
    """
    if name == "always-first":
        return [dict.fromkeys(dimensions, 1.0) for _ in pairs]
    if name == "random":
        return [
            {dimension: 1.0 - 2.0 * (stable_seed(name, seed, pair.id, dimension) & 1) for dimension in dimensions}
            for pair in pairs
        ]
    if name == "majority":
        labels = {dimension: float(_commonest(pairs, dimension)) for dimension in dimensions}
        return [labels.copy() for _ in pairs]
    raise ValueError(f"expected a control judge out of {', '.join(CONTROLS)}, got {name!r}")


def _commonest(pairs: Sequence[Pair], dimension: str) -> int:
    counts: Mapping[int, int] = Counter(pair.labels[dimension] for pair in pairs if dimension in pair.labels)
    return max((1, -1, 0), key=lambda label: counts.get(label, 0))
