"""The command `gnomon data sample-preferences`, in a module of its own, since its parser needs diffusers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse.typing import NonNegativeInt, PositiveInt

from data_build.preferences.filters import FilterSettings
from gnomon.errors import UserError

if TYPE_CHECKING:
    from rl.generator import DiffusersGenerator  # jsonargparse finds it here when the command runs


def sample_preferences(
    *,
    cases: Path,
    out: Path,
    generator: DiffusersGenerator | None = None,
    label: Literal["oracle", "none"] = "oracle",
    num_candidates: PositiveInt = 8,
    noise_level: float = 0.9,
    window_size: PositiveInt = 3,
    window_first: NonNegativeInt = 0,
    window_last: NonNegativeInt = 2,
    tie_margin: float | None = None,
    pairs_per_case: PositiveInt | None = None,
    pool: list[Path] | Path | None = None,
    name: str | None = None,
    filters: FilterSettings | None = None,
    dimensions: list[str] | None = None,
    tasks: list[str] | None = None,
    max_references: NonNegativeInt | None = None,
    seed: int = 0,
    limit: PositiveInt | None = None,
) -> None:
    """Sample groups of candidates by Flow-SDE, and compare them by the tabletop oracle or leave that to annotators.

    Args:
        cases: folder of cases; with the oracle, of `gnomon data build tabletop`.
        out: folder to write; run again to go on after a stop.
        generator: the editor, with at least `--generator.model`; may be left out where a pool is given.
        label: "oracle" writes comparisons; "none" filters candidates and proposes pairs, for any generator and cases.
        num_candidates: candidates per case.
        noise_level: of the SDE.
        window_size: stochastic steps of a trajectory.
        window_first: earliest step at which they start.
        window_last: latest such step.
        tie_margin: differences of the oracle's scores below it are ties; .05 by default.
        pairs_per_case: at most so many pairs of a case (of the oracle's, about a quarter are ties); all by default.
        pool: without the oracle: folder, or list of them, of `gnomon bench generate` or of earlier proposals of the
            same cases; their candidates join in.
        name: without the oracle: of the generator, such as a model with its adapter; by default the model's.
        filters: without the oracle: which candidates are unclear or near copies.
        dimensions: without the oracle: in which pairs are to be compared; by default instruction_awareness,
            visual_consistency and visual_quality.
        tasks: without the oracle: take only cases of these tasks.
        max_references: without the oracle: sample nothing of a case with more references.
        seed: of candidates and of the choice of pairs.
        limit: take only the first cases.
    """
    sampling = {
        "num_candidates": num_candidates,
        "noise_level": noise_level,
        "window_size": window_size,
        "window_first": window_first,
        "window_last": window_last,
    }
    shared = {"cases": cases, "out": out, "generator": generator, "seed": seed, "limit": limit}
    proposed = {"pool": pool, "name": name, "tasks": tasks, "max_references": max_references}
    proposed |= {"filters": filters, "dimensions": dimensions}
    if label == "oracle":
        given = [f"--{flag}" for flag, value in proposed.items() if value is not None]
        if given:
            raise UserError(f"{', '.join(given)}: only without the oracle; add --label none, or leave it out")
        if generator is None:
            raise UserError("expected a generator whose candidates the oracle compares, got none; give its model")
        margin = {} if tie_margin is None else {"tie_margin": tie_margin}
        _label(shared, {**sampling, **margin, "pairs_per_case": pairs_per_case})
    elif tie_margin is not None:
        raise UserError("--tie_margin: only with the oracle; leave it out with --label none")
    else:
        _propose(shared, sampling, {**proposed, "pairs_per_case": pairs_per_case})


def _label(shared: dict[str, Any], settings: dict[str, Any]) -> None:
    """Let the oracle label, and print the counts."""
    from data_build.preferences.oracle import METRIC_OF, PreferenceSettings, sample_preferences

    summary = sample_preferences(**shared, settings=PreferenceSettings(**settings))
    ties = ", ".join(f"{dimension} {summary.tie_shares[dimension]:.0%}" for dimension in METRIC_OF)
    print(
        f"{summary.num_comparisons} comparisons of {summary.num_cases} cases in {shared['out']}: {summary.num_pairs} "
        f"pairs, ties in {ties}; {summary.num_duplicates} of {summary.num_candidates} candidates dropped as duplicates"
    )


def _propose(shared: dict[str, Any], sampling: dict[str, Any], given: dict[str, Any]) -> None:
    """Propose pairs, and print the counts."""
    from data_build.preferences.proposing import ProposalSettings, propose_preferences
    from data_build.preferences.sampling import SamplingSettings

    pool, name, tasks = given.pop("pool"), given.pop("name"), given.pop("tasks")
    pools = [pool] if isinstance(pool, Path) else pool or []
    chosen = {key: value for key, value in given.items() if value is not None}
    if "dimensions" in chosen:
        chosen["dimensions"] = tuple(chosen["dimensions"])
    settings = ProposalSettings(sampling=SamplingSettings(**sampling), **chosen)
    done = propose_preferences(**shared, settings=settings, pools=pools, name=name, tasks=tasks)
    kept = ", ".join(f"{generator} {count}" for generator, count in done.num_candidates.items())
    left_out = ", ".join(f"{reason} {count}" for reason, count in done.left_out.items()) or "none"
    print(
        f"{done.num_pairs} pairs of {done.num_cases} cases in {shared['out']}; candidates: {kept}; left out: {left_out}"
        f"; cases without pairs: {done.num_cases_without_pairs}, with too many references: {done.num_not_sampled}"
    )
