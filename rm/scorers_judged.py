"""What judges that compare two pictures directly say about pairs.

A judge of single pictures, such as :class:`rm.protocols.rubric.RubricJudge`, is scored by
:class:`rm.scorers.PointwiseScorer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gnomon.datasets import resolve
from gnomon.records import Comparison
from rm.pairs import Pair
from rm.protocols.pairwise import PairwiseJudge, PairwiseOutcome, PairwiseRequest
from rm.scorers import JudgedComparison, PairSample, pair_sample

_DIFFERENCES = {"i": 1.0, "j": -1.0}


class PairwiseScorer:
    """Asks a pairwise judge about every pair: 1 where it prefers the first, -1 the second, 0 for any tie.

    A tie because the judge's two orders disagree says so in its sample's `reason`.
    """

    def __init__(self, judge: PairwiseJudge, root: Path) -> None:
        self.judge, self.root = judge, root
        self.name, self.fingerprint, self.dimensions = judge.name, judge.fingerprint, judge.metrics

    def samples(self, items: Sequence[JudgedComparison]) -> Iterator[PairSample]:
        """Yield the samples of `items`; one call of the judge for all of them."""
        asked = [
            (item.comparison, pair, dimension)
            for item in items
            for pair in item.pairs
            for dimension in pair.labels
            if dimension in self.dimensions
        ]
        outcomes = self.judge.compare([self._request(*question) for question in asked])
        for (comparison, pair, dimension), outcome in zip(asked, outcomes, strict=True):
            yield pair_sample(
                comparison,
                pair,
                dimension,
                _difference(outcome),
                status=outcome.status,
                reason=_reason(outcome),
                consistent=None if outcome.label is None else not outcome.inconsistent,
                served_by=outcome.served_by,
            )

    def _request(self, comparison: Comparison, pair: Pair, dimension: str) -> PairwiseRequest:
        first, second = (
            resolve(self.root, comparison.candidates[position].path) for position in (pair.first, pair.second)
        )
        references = tuple(comparison.references)
        return PairwiseRequest(comparison.instruction, self.root, references, first, second, dimension)


def _difference(outcome: PairwiseOutcome) -> float | None:
    return None if outcome.label is None else _DIFFERENCES.get(outcome.label, 0.0)


def _reason(outcome: PairwiseOutcome) -> str | None:
    if outcome.inconsistent:
        return "inconsistent: the judge's preference changes with the order of the pictures"
    return None if outcome.status == "ok" else outcome.rationale
