"""Whether the place of a candidate gives away which one is better."""

from __future__ import annotations

from gnomon.records import Comparison
from gnomon.statistics import Estimate, cluster_bootstrap


class FirstSide:
    """Counts how often the earlier of two candidates is the better one: the accuracy of always taking the first."""

    def __init__(self) -> None:
        """Know of no comparison yet."""
        self._values: dict[str, list[bool]] = {}
        self._groups: dict[str, list[str]] = {}

    def add(self, record: Comparison) -> None:
        """Take note of a comparison's judgements; ties say nothing."""
        for judgement in record.judgements:
            if judgement.label in ("i", "j"):
                better, other = judgement.i, judgement.j
                if judgement.label == "j":
                    better, other = other, better
                self._values.setdefault(judgement.dimension, []).append(better < other)
                self._groups.setdefault(judgement.dimension, []).append(record.group_id)

    def estimates(self) -> dict[str, Estimate]:
        """Return the share per dimension, with a 95 % interval that resamples whole groups."""
        return {name: cluster_bootstrap(values, self._groups[name]) for name, values in self._values.items()}


def gives_the_answer_away(estimate: Estimate) -> bool:
    """Say whether an interval of the share leaves one half out; without an interval nothing is known."""
    if estimate.ci_low is None or estimate.ci_high is None:
        return False
    return not estimate.ci_low <= 0.5 <= estimate.ci_high
