"""From K-way comparisons to pairs: which two candidates, and who is better in which dimension."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gnomon.errors import UserError
from gnomon.hashing import stable_seed
from gnomon.records import Comparison, Judgement

DIMENSIONS = ("instruction_awareness", "visual_consistency", "visual_quality", "overall")


@dataclass(frozen=True)
class Pair:
    """Two candidates of one comparison with everything that was said about them.

    Attributes:
        id: comparison and the two positions; independent of which side comes first.
        group_id: what is resampled together.
        first: position of the first candidate in `Comparison.candidates`.
        second: position of the second candidate.
        labels: per dimension 1 (first better), -1 (second better) or 0 (tie); dimensions that nobody judged are absent.
        margins: per dimension how far apart they are (>= 0), None where nobody said.
    """

    id: str
    group_id: str
    first: int
    second: int
    labels: dict[str, int]
    margins: dict[str, float | None]

    def swapped(self) -> Pair:
        """Return the same pair with its sides exchanged."""
        labels = {dimension: -label for dimension, label in self.labels.items()}
        return Pair(self.id, self.group_id, self.second, self.first, labels, self.margins)


def expand_pairs(comparison: Comparison) -> list[Pair]:
    """Return the judged pairs of a comparison, the lower position first, in order of their first judgement.

    All kinds of ties become 0: whether both are good or both are bad is not a matter of preference.

    Raises:
        UserError: when one pair has two judgements in one dimension.
    """
    judgements: dict[tuple[int, int], list[Judgement]] = {}
    for judgement in comparison.judgements:
        sides = (min(judgement.i, judgement.j), max(judgement.i, judgement.j))
        judgements.setdefault(sides, []).append(judgement)
    return [_pair(comparison, sides, members) for sides, members in judgements.items()]


def _pair(comparison: Comparison, sides: tuple[int, int], judgements: list[Judgement]) -> Pair:
    labels: dict[str, int] = {}
    margins: dict[str, float | None] = {}
    for judgement in judgements:
        if judgement.dimension in labels:
            raise UserError(
                f"comparison {comparison.id!r}: candidates {sides[0]} and {sides[1]} are judged twice in "
                f"{judgement.dimension!r}; keep one judgement per pair and dimension"
            )
        towards_first = {"i": 1, "j": -1}.get(judgement.label, 0)
        labels[judgement.dimension] = towards_first if judgement.i == sides[0] else -towards_first
        margins[judgement.dimension] = judgement.margin
    return Pair(f"{comparison.id}:{sides[0]}-{sides[1]}", comparison.group_id, *sides, labels, margins)


def swap_by_hash(pair: Pair, seed: int) -> Pair:
    """Return `pair` with sides exchanged for about half of all ids: no side may hint at the label."""
    return pair.swapped() if stable_seed("side", seed, pair.id) & 1 else pair


def unknown_dimensions(pairs: Iterable[Pair], dimensions: Iterable[str]) -> dict[str, int]:
    """Return how many judgements each dimension outside `dimensions` has."""
    known = set(dimensions)
    counts: dict[str, int] = {}
    for pair in pairs:
        for dimension in pair.labels:
            if dimension not in known:
                counts[dimension] = counts.get(dimension, 0) + 1
    return counts
