"""Pair accuracy of a judge on a comparison folder: one line per pair and dimension, figures with intervals.

Whatever a judge could not score is a status in its line and a count in the results, and is in no accuracy.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.datasets import picture_paths, resolve
from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_hash
from gnomon.manifest import plain_config
from gnomon.progress import track
from gnomon.runs import SAMPLES, RunFolder
from rm.averages import average_figures
from rm.comparing import control_samples, paired_accuracy
from rm.controls import CONTROLS, control_differences
from rm.metrics import pair_figures
from rm.rankings import ranking_figures
from rm.sanity import blind_spots, react, spoil
from rm.scorers import (
    JudgedComparison,
    PairSample,
    PairScorer,
    PointwiseScorer,
    judged_dimensions,
    read_judged,
    read_samples,
)

__all__ = ["check_sanity", "read_judged", "run_evaluation"]

COMPARISONS_AT_ONCE = 16
_SAMPLES_VERSION = 1  # raised when the meaning of a sample changes, so that no run mixes two meanings


def run_evaluation(
    scorer: PairScorer,
    items: Sequence[JudgedComparison],
    *,
    data: str | Path,
    out: str | Path,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    min_margins: Sequence[float] = (),
    against: str | Path | None = None,
    sanity: int = 0,
) -> dict[str, Any]:
    """Score what the run folder does not hold yet, and write and return `results.json`.

    Args:
        scorer: the judge.
        items: the comparisons.
        data: their folder, for its hash.
        out: the run folder. Its identity is what decides the samples: the judge with its fingerprint, the pairs with
            their pictures, the seed. What only decides which figures are made of them may change from call to call.
        settings: of the command, for `results.json`.
        seed: of the bootstrap.
        min_margins: figures are also given for pairs at least so far apart.
        against: run folder of another judge on the same data, for a paired difference.
        sanity: comparisons to make the sanity set of, see :mod:`rm.sanity`; 0 for none.

    Raises:
        UserError: when the folder belongs to another run, `against` is a run on other pairs, or a sanity set is asked
            of a judge that answers pairs.
    """
    dimensions = _common_dimensions(scorer, items, data)
    if sanity and not isinstance(scorer, PointwiseScorer):
        raise UserError(
            f"expected a judge that scores single pictures for --sanity, {scorer.name} answers pairs; "
            "leave --sanity out"
        )
    theirs = None if against is None else _samples_of(Path(against), items)
    inputs = {"data": _data_hash(items, Path(data)), "judge": scorer.fingerprint, "samples": str(_SAMPLES_VERSION)}
    with RunFolder.open(out, command="rm eval", config={"judge": scorer.name}, seed=seed, inputs=inputs) as run:
        samples = _judged(run, scorer, items, dimensions)
        results: dict[str, Any] = {
            "judge": scorer.name,
            "judge_fingerprint": scorer.fingerprint,
            "served_by": dict(Counter(sample.served_by for sample in samples if sample.served_by is not None)),
            "data": str(data),
            "data_hash": inputs["data"],
            "settings": plain_config(settings or {}),
            "num_comparisons": len(items),
            "num_pairs": sum(len(item.pairs) for item in items),
            "not_applicable": _not_applicable(items, scorer.dimensions),
            **_all_figures(samples, items, dimensions, min_margins, seed),
        }
        if sanity:
            assert isinstance(scorer, PointwiseScorer), "others were refused above"
            spoilt = spoil(items, Path(data), run.path / "sanity", limit=sanity)
            results["sanity"] = react(scorer.judge, spoilt, Path(data), metrics=dimensions, seed=seed)
        if theirs is not None:
            strict = paired_accuracy(theirs, samples, decided_only=True, seed=seed)["dimensions"]
            by_rule = paired_accuracy(theirs, samples, seed=seed)
            results["against"] = {"run": str(against), "strict": strict, "tie_rule": by_rule}
        run.write_json("results.json", results)
    return results


def _common_dimensions(scorer: PairScorer, items: Sequence[JudgedComparison], data: str | Path) -> list[str]:
    """Return the dimensions that the data are judged in and the judge has."""
    judged = judged_dimensions(items)
    if common := [name for name in judged if name in scorer.dimensions]:
        return common
    raise UserError(
        f"{data} judges {', '.join(judged)}, the judge knows {', '.join(scorer.dimensions)}: "
        "there is nothing to compare; choose other data or another judge"
    )


def _judged(
    run: RunFolder, scorer: PairScorer, items: Sequence[JudgedComparison], dimensions: Sequence[str]
) -> list[PairSample]:
    """Let the judge say what the run folder does not hold yet, and return all samples in the data's order.

    A judge that could not be reached is asked again; what it did say, readable or not, is its answer.
    """
    known = {sample.key: sample for sample in (read_samples(run.path) if (run.path / SAMPLES).exists() else [])}
    done = {key for key, sample in known.items() if sample.status != "api_error"}
    waiting = [item for item in items if not _keys(item, dimensions) <= done]
    chunks = [waiting[start : start + COMPARISONS_AT_ONCE] for start in range(0, len(waiting), COMPARISONS_AT_ONCE)]
    for chunk in track(chunks, f"judging with {scorer.name}"):
        for sample in scorer.samples(chunk):
            if sample.key not in done and sample != known.get(sample.key):
                run.append(sample)
                known[sample.key] = sample
    return [known[key] for item in items for key in sorted(_keys(item, dimensions))]


def _all_figures(
    samples: Sequence[PairSample],
    items: Sequence[JudgedComparison],
    dimensions: Sequence[str],
    min_margins: Sequence[float],
    seed: int,
) -> dict[str, Any]:
    """Return what `results.json` says about the samples, those of judges that do not look beside it."""
    figures: dict[str, Any] = {
        "statuses": dict(Counter(sample.status for sample in samples)),
        "dimensions": {
            name: _tables([s for s in samples if s.dimension == name], items, min_margins, seed) for name in dimensions
        },
        "average": _averages(samples, items, dimensions, seed),
        "tasks": {
            task: _averages(_of(samples, members), members, dimensions, seed)
            for task, members in _by_task(items).items()
        },
        "rankings": {
            name: ranking_figures((s for s in samples if s.dimension == name), seed=seed) for name in dimensions
        },
        "baselines": _baselines(items, dimensions, seed),
        "baseline_averages": {
            control: _averages(control_samples(control, samples, seed=seed), items, dimensions, seed)
            for control in CONTROLS
        },
    }
    if consistency := _swap_consistency(samples):
        figures["swap_consistency"] = consistency
    return figures


def _data_hash(items: Sequence[JudgedComparison], root: Path) -> str:
    """Return a hash of comparisons and the bytes of their pictures; one that cannot be decoded has a hash too."""
    paths = sorted({path for item in items for path in picture_paths(item.comparison)})
    pictures = [[path, file_hash(resolve(root, path))] for path in paths]
    return stable_hash([[item.comparison for item in items], pictures])


def _keys(item: JudgedComparison, dimensions: Sequence[str]) -> set[tuple[str, str]]:
    return {(pair.id, name) for pair in item.pairs for name in pair.labels if name in dimensions}


def _not_applicable(items: Sequence[JudgedComparison], known: Sequence[str]) -> dict[str, int]:
    """Return how many judgements there are in each dimension that the judge does not have."""
    return dict(Counter(name for item in items for pair in item.pairs for name in pair.labels if name not in known))


def _by_task(items: Sequence[JudgedComparison]) -> dict[str, list[JudgedComparison]]:
    """Return the comparisons of each task, in order of first appearance; those without one are in none."""
    found: dict[str, list[JudgedComparison]] = {}
    for item in items:
        if item.comparison.task is not None:
            found.setdefault(item.comparison.task, []).append(item)
    return found


def _of(samples: Sequence[PairSample], items: Sequence[JudgedComparison]) -> list[PairSample]:
    ids = {item.comparison.id for item in items}
    return [sample for sample in samples if sample.comparison_id in ids]


def _averages(
    samples: Sequence[PairSample], items: Sequence[JudgedComparison], known: Sequence[str], seed: int
) -> dict[str, Any]:
    """Return the averages over dimensions, with those of `items` that a judge of `known` ones does not have."""
    missing = [name for name in judged_dimensions(items) if name not in known]
    return average_figures(samples, missing=missing, seed=seed)


def _tables(
    samples: Sequence[PairSample], items: Sequence[JudgedComparison], min_margins: Sequence[float], seed: int
) -> dict[str, Any]:
    """Return the figures of one dimension: over all pairs, over those at least so far apart, and by task."""
    tables = {"all": _figures(samples, seed)}
    for margin in min_margins:
        tables[f"margin>={margin:g}"] = _figures([s for s in samples if (s.margin or 0.0) >= margin], seed)
    for task, members in _by_task(items).items():
        tables[f"task={task}"] = _figures(_of(samples, members), seed)  # n is 0 where no pair of it has this dimension
    return tables


def _figures(samples: Sequence[PairSample], seed: int) -> dict[str, Any]:
    differences = np.array([math.nan if s.difference is None else s.difference for s in samples], dtype=np.float64)
    labels = np.array([s.label for s in samples], dtype=np.float64)
    groups = np.array([s.group_id for s in samples], dtype=np.str_)
    return pair_figures(differences, labels, groups, seed=seed)._asdict()


def _samples_of(run: Path, items: Sequence[JudgedComparison]) -> list[PairSample]:
    """Return the samples of another judge's run on these pairs."""
    pairs = {pair.id: pair for item in items for pair in item.pairs}
    shared = [sample for sample in read_samples(run) if sample.pair_id in pairs]
    if not shared:
        raise UserError(f"expected a run on the same pairs in {run}, it has none of them; choose another --against")
    for sample in shared:
        pair = pairs[sample.pair_id]
        if (sample.group_id, sample.label) != (pair.group_id, pair.labels.get(sample.dimension)):
            raise UserError(
                f"expected a run on the same pairs in {run}, its pair {sample.pair_id!r} is another one: it differs in "
                f"its group or its label for {sample.dimension}; choose another --against"
            )
    return shared


def _baselines(items: Sequence[JudgedComparison], dimensions: Sequence[str], seed: int) -> dict[str, dict[str, Any]]:
    """Return the strict accuracy, per dimension, of judges that do not look."""
    pairs = [pair for item in items for pair in item.pairs]
    groups = np.array([pair.group_id for pair in pairs], dtype=np.str_)
    table: dict[str, dict[str, Any]] = {}
    for control in CONTROLS:
        differences = control_differences(control, pairs, dimensions, seed=seed)
        for name in dimensions:
            labels = np.array([pair.labels.get(name, math.nan) for pair in pairs], dtype=np.float64)
            said = np.array([row[name] for row in differences], dtype=np.float64)
            figures = pair_figures(said, labels, groups, seed=seed)
            kept = ("n", "strict", "ci_low", "ci_high", "tie_rule")
            table.setdefault(control, {})[name] = {key: getattr(figures, key) for key in kept}
    return table


def _swap_consistency(samples: Sequence[PairSample]) -> dict[str, dict[str, Any]]:
    """Return, per dimension, the share of pairs on which a judge that is asked in both orders agrees with itself."""
    asked: dict[str, list[bool]] = {}
    for sample in samples:
        if sample.consistent is not None:
            asked.setdefault(sample.dimension, []).append(sample.consistent)
    return {name: {"n": len(values), "share": sum(values) / len(values)} for name, values in asked.items()}


def check_sanity(results: dict[str, Any]) -> None:
    """Refuse a judge that some kind of spoilt edit never moves.

    Raises:
        UserError: names the kinds.
    """
    if blind := blind_spots(results.get("sanity", {})):
        raise UserError(
            f"{results['judge']} gives every edit the same score when it is spoilt in this way: {', '.join(blind)}; it "
            "does not see what it judges. Check that its adapter, the pictures and the instruction arrive (the figures "
            "are in results.json, under sanity)"
        )
