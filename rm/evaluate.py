"""Pair accuracy of a judge on a comparison folder: one line per pair and dimension, figures with intervals.

Whatever a judge could not score is a status in its line and a count in the results, and is in no accuracy.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.datasets import picture_paths, resolve
from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_hash
from gnomon.jsonl import read_records
from gnomon.progress import track
from gnomon.runs import SAMPLES, RunFolder
from gnomon.statistics import paired_difference
from rm.metrics import pair_figures
from rm.scorers import JudgedComparison, PairSample, PairScorer, judged_dimensions, read_judged

__all__ = ["format_table", "read_judged", "run_evaluation"]

COMPARISONS_AT_ONCE = 16
_SAMPLES_VERSION = 1  # raised when the meaning of a sample changes, so that no run mixes two meanings


def run_evaluation(
    scorer: PairScorer,
    items: Sequence[JudgedComparison],
    *,
    data: str | Path,
    out: str | Path,
    config: dict[str, Any],
    seed: int = 0,
    min_margins: Sequence[float] = (),
    against: str | Path | None = None,
) -> dict[str, Any]:
    """Score what the run folder does not hold yet, and write and return `results.json`.

    Args:
        scorer: the judge.
        items: the comparisons.
        data: their folder, for its hash.
        out: the run folder.
        config: the command's settings.
        seed: of the bootstrap.
        min_margins: figures are also given for pairs at least so far apart.
        against: run folder of another judge on the same data, for a paired difference.

    Raises:
        UserError: when the folder belongs to another run, or `against` has no pair in common.
    """
    dimensions = [name for name in judged_dimensions(items) if name in scorer.dimensions]
    if not dimensions:
        raise UserError(
            f"{data} judges {', '.join(judged_dimensions(items))}, the judge knows {', '.join(scorer.dimensions)}: "
            "there is nothing to compare; choose other data or another judge"
        )
    inputs = {"data": _data_hash(items, Path(data)), "judge": scorer.fingerprint, "samples": str(_SAMPLES_VERSION)}
    with RunFolder.open(out, command="rm eval", config=config, seed=seed, inputs=inputs) as run:
        done = run.done_keys(lambda line: (line["pair_id"], line["dimension"]))
        waiting = [item for item in items if not _keys(item, dimensions) <= done]
        chunks = [waiting[start : start + COMPARISONS_AT_ONCE] for start in range(0, len(waiting), COMPARISONS_AT_ONCE)]
        for chunk in track(chunks, f"judging with {scorer.name}"):
            for sample in scorer.samples(chunk):
                if sample.key not in done:
                    run.append(sample)
        # In the data's order, whatever order a killed run left behind.
        by_key = {sample.key: sample for sample in run.read(PairSample)}
        samples = [by_key[key] for item in items for key in sorted(_keys(item, dimensions))]
        results = {
            "judge": scorer.name,
            "judge_fingerprint": scorer.fingerprint,
            "data": str(data),
            "data_hash": inputs["data"],
            "num_comparisons": len(items),
            "num_pairs": sum(len(item.pairs) for item in items),
            "not_applicable": _not_applicable(items, scorer.dimensions),
            "statuses": dict(Counter(sample.status for sample in samples)),
            "dimensions": {
                name: _tables([s for s in samples if s.dimension == name], min_margins, seed) for name in dimensions
            },
        }
        if against is not None:
            results["against"] = {"run": str(against), "strict": _against(samples, Path(against), seed)}
        run.write_json("results.json", results)
    return results


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


def _tables(samples: Sequence[PairSample], min_margins: Sequence[float], seed: int) -> dict[str, Any]:
    """Return the figures of one dimension: over all pairs, and over those at least so far apart."""
    tables = {"all": _figures(samples, seed)}
    for margin in min_margins:
        tables[f"margin>={margin:g}"] = _figures([s for s in samples if (s.margin or 0.0) >= margin], seed)
    return tables


def _figures(samples: Sequence[PairSample], seed: int) -> dict[str, Any]:
    differences = np.array([math.nan if s.difference is None else s.difference for s in samples], dtype=np.float64)
    labels = np.array([s.label for s in samples], dtype=np.float64)
    groups = np.array([s.group_id for s in samples], dtype=np.str_)
    return pair_figures(differences, labels, groups, seed=seed)._asdict()


def _against(samples: Sequence[PairSample], other: Path, seed: int) -> dict[str, Any]:
    """Return, per dimension, this judge's strict accuracy minus the other's on the pairs that both scored."""
    theirs = {sample.key: sample for sample in read_records(other / SAMPLES, PairSample)}
    rows: dict[str, list[tuple[bool, bool, str]]] = {}
    for sample in samples:
        paired = theirs.get(sample.key)
        if paired is None or sample.label == 0 or sample.correct is None or paired.correct is None:
            continue
        rows.setdefault(sample.dimension, []).append((paired.correct, sample.correct, sample.group_id))
    if not rows:
        raise UserError(f"expected a run on the same pairs in {other}, it has none of them; choose another --against")
    differences = {}
    for name, triples in rows.items():
        before, after, groups = zip(*triples, strict=True)
        differences[name] = paired_difference(np.array(before, float), np.array(after, float), groups, seed=seed)
    return {name: vars(estimate) for name, estimate in differences.items()}


def format_table(results: dict[str, Any]) -> str:
    """Return the figures as lines for a terminal, one per dimension and restriction."""
    header = ("dimension", "pairs", "n", "strict", "95 %", "half", "ties", "tie rule", "failed")
    lines = [header]
    for name, tables in results["dimensions"].items():
        for restriction, figures in tables.items():
            low, high = figures["ci_low"], figures["ci_high"]
            interval = "-" if low is None else f"{low:.3f}..{high:.3f}"
            shares = [_share(figures[key]) for key in ("half_credit", "tie_rate", "tie_rule")]
            strict, failures = _share(figures["strict"]), str(figures["failures"])
            lines.append((name, restriction, str(figures["n"]), strict, interval, *shares, failures))
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
