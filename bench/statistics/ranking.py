"""Bradley-Terry strengths of systems from pairwise outcomes, with intervals from resampling whole clusters.

The chance that i beats j is `sigmoid(strength_i - strength_j)`; a tie counts as half a win of either. Strengths are
natural logarithms with mean zero. Sources: Bradley and Terry, *Biometrika* 39 (1952) 324; when the likelihood has a
maximum: Ford, *American Mathematical Monthly* 64 (1957) 28; the fit, by the
package evalica: Newman, *JMLR* 24 (2023) 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from bench.statistics.ratings import DEFAULT_BOOTSTRAP, Bootstrap
from gnomon.statistics import cluster_weights, percentile_interval

Array = NDArray[np.float64]

TOLERANCE = 1e-10
MAX_ITERATIONS = 100_000


@dataclass(frozen=True)
class Outcome:
    """One comparison of two systems."""

    first: str
    second: str
    winner: Literal["first", "second", "tie"]


@dataclass(frozen=True)
class SystemStrength:
    """A system's strength (None where the outcomes do not fix it) with its interval, and its record."""

    name: str
    strength: float | None
    ci_low: float | None
    ci_high: float | None
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True)
class Ranking:
    """Systems from the strongest to the weakest; by name where there are no strengths.

    Attributes:
        systems: the systems.
        n_outcomes: comparisons.
        n_undefined: resamples that do not fix the strengths; they are in no interval.
        reason: why there are no strengths, or no intervals; None where there are both or no interval was asked for.
    """

    systems: tuple[SystemStrength, ...]
    n_outcomes: int
    n_undefined: int
    reason: str | None = None


def bradley_terry(outcomes: Sequence[Outcome], bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> Ranking:
    """Return the Bradley-Terry ranking of the systems in `outcomes`.

    Strengths exist only where every system can be reached from every other by a chain of wins and ties; a system that
    never lost would be infinitely strong.

    Args:
        outcomes: the comparisons.
        bootstrap: how to resample; `clusters` names the group of each outcome (its case), each is its own where None.

    Raises:
        ValueError: for a system that is compared with itself.
    """
    if any(outcome.first == outcome.second for outcome in outcomes):
        raise ValueError("expected two different systems in every outcome")
    names = sorted({name for outcome in outcomes for name in (outcome.first, outcome.second)})
    places = {name: place for place, name in enumerate(names)}
    kinds = sorted({(places[o.first], places[o.second], o.winner) for o in outcomes})
    found = {kind: place for place, kind in enumerate(kinds)}
    kind_of = np.array([found[places[o.first], places[o.second], o.winner] for o in outcomes], dtype=np.intp)
    fit = _Fit(kinds, len(names))
    strengths = fit.strengths(np.bincount(kind_of, minlength=len(kinds)).astype(np.float64))
    if strengths is None:
        return _ranking(names, outcomes, None, None, bootstrap, fit.problem(names))
    resampled = _resampled(fit, kind_of, bootstrap) if bootstrap.num_resamples else None
    return _ranking(names, outcomes, strengths, resampled, bootstrap, None)


@dataclass(frozen=True)
class _Fit:
    """The likelihood of how often each kind of outcome (first, second, winner) was seen."""

    kinds: Sequence[tuple[int, int, str]]
    num_systems: int

    def strengths(self, counts: Array) -> Array | None:
        """Return the strengths [systems], None where these counts [kinds] do not fix them."""
        import evalica  # brings pandas along, which nothing else here needs

        if self._components(counts)[0] != 1 or self.num_systems < 2:
            return None
        seen = [(kind, count) for kind, count in zip(self.kinds, counts, strict=True) if count > 0]
        winners = {"first": evalica.Winner.X, "second": evalica.Winner.Y, "tie": evalica.Winner.Draw}
        result = evalica.bradley_terry(
            [kind[0] for kind, _ in seen],
            [kind[1] for kind, _ in seen],
            [winners[kind[2]] for kind, _ in seen],
            weights=[float(count) for _, count in seen],
            tolerance=TOLERANCE,
            limit=MAX_ITERATIONS,
        )
        if result.iterations >= MAX_ITERATIONS:
            return None
        logarithms = np.log(result.scores.sort_index().to_numpy(dtype=np.float64))
        return np.asarray(logarithms - logarithms.mean())

    def problem(self, names: Sequence[str]) -> str:
        """Return why the outcomes do not fix the strengths."""
        if self.num_systems < 2:
            return "there are fewer than two systems"
        number, component = self._components(np.ones(len(self.kinds)))
        groups = ["+".join(name for name, of in zip(names, component, strict=True) if of == k) for k in range(number)]
        if number == 1:
            return f"the fit did not converge in {MAX_ITERATIONS} iterations"
        return f"strengths are not fixed: no chain of wins and ties leads both ways between {', '.join(groups)}"

    def _components(self, counts: Array) -> tuple[int, NDArray[np.int32]]:
        """Return the number of groups of systems within which all reach each other by wins and ties, and the groups."""
        beaten = [
            (winner, loser)
            for (first, second, outcome), count in zip(self.kinds, counts, strict=True)
            if count > 0
            for winner, loser in ((first, second), (second, first))
            if outcome == "tie" or (outcome == "first") == (winner == first)
        ]
        rows, columns = [pair[0] for pair in beaten], [pair[1] for pair in beaten]
        graph = sparse.csr_array((np.ones(len(beaten)), (rows, columns)), shape=(self.num_systems, self.num_systems))
        number, component = connected_components(graph, directed=True, connection="strong")
        return int(number), component


def _resampled(fit: _Fit, kind_of: NDArray[np.intp], bootstrap: Bootstrap) -> Array:
    """Return the strengths of every resample [resamples, systems], NaN where they are not fixed."""
    clusters = np.arange(len(kind_of)) if bootstrap.clusters is None else np.asarray(bootstrap.clusters)
    if len(clusters) != len(kind_of):
        raise ValueError(f"expected one cluster per outcome, got {len(clusters)} for {len(kind_of)}")
    rows = []
    for weights in cluster_weights(clusters, seed=bootstrap.seed, num_resamples=bootstrap.num_resamples):
        for row in weights:
            counts = np.bincount(kind_of, weights=row, minlength=len(fit.kinds)).astype(np.float64)
            strengths = fit.strengths(counts)
            rows.append(np.full(fit.num_systems, np.nan) if strengths is None else strengths)
    return np.array(rows) if len(np.unique(clusters)) > 1 else np.full((1, fit.num_systems), np.nan)


def _ranking(
    names: Sequence[str],
    outcomes: Sequence[Outcome],
    strengths: Array | None,
    resampled: Array | None,
    bootstrap: Bootstrap,
    reason: str | None,
) -> Ranking:
    """Return the systems with their records, sorted."""
    systems = []
    for place, name in enumerate(names):
        low, high = (None, None)
        if resampled is not None:
            low, high = percentile_interval(resampled[:, place], bootstrap.confidence)
            if low is None:
                reason = "no intervals: most resamples do not fix the strengths, or there is one cluster only"
        strength = None if strengths is None else float(strengths[place])
        systems.append(SystemStrength(name, strength, low, high, *_record(name, outcomes)))
    systems.sort(key=lambda system: (-(system.strength or 0.0), system.name))
    n_undefined = 0 if resampled is None else int(np.isnan(resampled[:, 0]).sum())
    return Ranking(tuple(systems), len(outcomes), n_undefined, reason)


def _record(name: str, outcomes: Sequence[Outcome]) -> tuple[int, int, int]:
    """Return wins, ties and losses of a system."""
    own = [(o.winner, "first" if o.first == name else "second") for o in outcomes if name in (o.first, o.second)]
    ties = sum(winner == "tie" for winner, _ in own)
    wins = sum(winner == side for winner, side in own)
    return wins, ties, len(own) - wins - ties
