"""The command `gnomon data sample-preferences`, in a module of its own, since its parser needs diffusers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse.typing import NonNegativeInt, PositiveInt

if TYPE_CHECKING:
    from rl.generator import DiffusersGenerator  # jsonargparse finds it here when the command runs


def sample_preferences(
    *,
    cases: Path,
    out: Path,
    generator: DiffusersGenerator,
    num_candidates: PositiveInt = 8,
    noise_level: float = 0.9,
    window_size: PositiveInt = 3,
    window_first: NonNegativeInt = 0,
    window_last: NonNegativeInt = 2,
    tie_margin: float = 0.05,
    pairs_per_case: PositiveInt | None = None,
    seed: int = 0,
    limit: PositiveInt | None = None,
) -> None:
    """Sample groups of candidates by Flow-SDE, compare them by the tabletop oracle, and write a comparison folder.

    Args:
        cases: folder of `gnomon data build tabletop`.
        out: comparison folder to write; run again to go on after a stop.
        generator: the editor, with at least `--generator.model`.
        num_candidates: candidates per case.
        noise_level: of the SDE.
        window_size: stochastic steps of a trajectory.
        window_first: earliest step at which they start.
        window_last: latest such step.
        tie_margin: differences of the oracle's scores below it are ties.
        pairs_per_case: judge at most so many pairs of a case, about a quarter of them ties; all by default.
        seed: of candidates and of the choice of pairs.
        limit: take only the first cases.
    """
    from data_build.preferences import METRIC_OF, PreferenceSettings
    from data_build.preferences import sample_preferences as sample

    settings = PreferenceSettings(
        num_candidates=num_candidates,
        noise_level=noise_level,
        window_size=window_size,
        window_first=window_first,
        window_last=window_last,
        tie_margin=tie_margin,
        pairs_per_case=pairs_per_case,
    )
    summary = sample(cases, out, generator, settings, seed=seed, limit=limit)
    ties = ", ".join(f"{dimension} {summary.tie_shares[dimension]:.0%}" for dimension in METRIC_OF)
    print(
        f"{summary.num_comparisons} comparisons of {summary.num_cases} cases in {out}: {summary.num_pairs} pairs, "
        f"ties in {ties}; {summary.num_duplicates} of {summary.num_candidates} candidates dropped as duplicates"
    )
