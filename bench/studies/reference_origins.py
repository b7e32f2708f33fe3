"""Whether synthetic references make cases easier, by pairs of cases of one instruction with real and synthetic ones.

Everything is paired by the pair of cases, so what makes an instruction easy or hard cancels: the change of a model from
real to synthetic references, and how the gap between two models changes.

Source: MDMR-Bench, its paired study of 100 cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from bench.mdmr.cases import NAME, facts_of
from bench.report.examples import JudgedRun
from bench.results import mean_by_case
from bench.statistics.ratings import Bootstrap
from gnomon.errors import UserError
from gnomon.records import Case
from gnomon.statistics import Estimate, paired_difference


@dataclass(frozen=True)
class OriginChange:
    """One metric of one model, or of one model minus another, over the pairs scored on both sides.

    Attributes:
        real: mean over the cases with real references; None where there is no pair.
        synthetic: mean over those with synthetic ones.
        change: synthetic minus real.
        num_left_out: pairs without a score on one side.
    """

    real: float | None
    synthetic: float | None
    change: Estimate | None
    num_left_out: int


@dataclass(frozen=True)
class OriginStudy:
    """What `gnomon bench study reference-origin` writes: by metric, models, and gaps of every two models."""

    num_pairs: int
    models: dict[str, dict[str, OriginChange]]
    gaps: dict[str, dict[str, OriginChange]]


def reference_origins(
    runs: Sequence[JudgedRun], judge: str, metrics: Sequence[str], bootstrap: Bootstrap
) -> OriginStudy:
    """Return how synthetic references change each model's scores, and the gaps between models.

    Args:
        runs: of one model each.
        judge: of all of them.
        metrics: of the judge.
        bootstrap: how pairs are resampled.

    Raises:
        UserError: where no case has a pair, and as :func:`pairs_of`.
    """
    pairs = pairs_of({case_id: case for one in runs for case_id, case in one.run.cases.items()})
    if not pairs:
        raise UserError(
            "expected cases whose meta names their pair_id, with real references in one and synthetic ones in the "
            "other; there is no such pair in these runs"
        )
    models: dict[str, dict[str, OriginChange]] = {}
    gaps: dict[str, dict[str, OriginChange]] = {}
    for metric in metrics:
        means = {one.label: mean_by_case(one.scores[judge].get(metric, {})) for one in runs}
        models[metric] = {label: _change(pairs, found.get, bootstrap) for label, found in means.items()}
        gaps[metric] = {
            f"{first} minus {second}": _change(pairs, _gap(means[first], means[second]), bootstrap)
            for first, second in combinations(means, 2)
        }
    return OriginStudy(len(pairs), models, gaps)


def pairs_of(cases: Mapping[str, Case]) -> dict[str, tuple[str, str]]:
    """Return the case with real and that with synthetic references, by pair id; a case without a partner is in none.

    Raises:
        UserError: for a pair id of more than one case with the same origin, and meta that is none of MDMR-Bench's.
    """
    found: dict[str, dict[str, str]] = {}
    for case_id, case in cases.items():
        facts = facts_of(case) if case.benchmark == NAME else None
        if facts is not None and facts.pair_id is not None:
            known = found.setdefault(facts.pair_id, {})
            if facts.reference_origin in known:
                raise UserError(
                    f"expected one case with {facts.reference_origin} references of pair {facts.pair_id!r}, got "
                    f"{known[facts.reference_origin]!r} and {case_id!r}; give them pairs of their own"
                )
            known[facts.reference_origin] = case_id
    return {
        pair: (known["real"], known["synthetic"])
        for pair, known in found.items()
        if "real" in known and "synthetic" in known
    }


def _gap(first: Mapping[str, float], second: Mapping[str, float]) -> Callable[[str], float | None]:
    def gap(case_id: str) -> float | None:
        both = case_id in first and case_id in second
        return first[case_id] - second[case_id] if both else None

    return gap


def _change(
    pairs: Mapping[str, tuple[str, str]], score: Callable[[str], float | None], bootstrap: Bootstrap
) -> OriginChange:
    real, synthetic, names = [], [], []
    for name, (one, other) in pairs.items():
        before, after = score(one), score(other)
        if before is not None and after is not None:
            real.append(before)
            synthetic.append(after)
            names.append(name)
    if not names:
        return OriginChange(None, None, None, len(pairs))
    change = paired_difference(
        real, synthetic, names, seed=bootstrap.seed, num_resamples=bootstrap.num_resamples, level=bootstrap.confidence
    )
    return OriginChange(fmean(real), fmean(synthetic), change, len(pairs) - len(names))
