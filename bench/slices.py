"""Means over parts of pictures, such as people by age, where a benchmark's verdicts tell them apart."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from bench.aggregation import counted
from bench.benchmarks import Score, benchmark_of
from bench.results import Cell, Item
from gnomon.hashing import stable_seed
from gnomon.records import Case, Verdict
from gnomon.statistics import cluster_bootstrap


def slice_cells(verdicts: Mapping[Item, Verdict], cases: Mapping[str, Case]) -> dict[str, dict[str, Cell]]:
    """Return a cell for each group of parts, by kind of group and name; intervals resample whole cases.

    Args:
        verdicts: on one metric, by item.
        cases: by id.
    """
    found: dict[tuple[str, str], list[tuple[str, Score]]] = defaultdict(list)
    for (case_id, _), verdict in verdicts.items():
        case = cases[case_id]
        for kind, group, score in benchmark_of(case).slices(case, verdict):
            found[kind, group].append((case_id, score))
    cells: dict[str, dict[str, Cell]] = {}
    for kind, group in sorted(found):
        cells.setdefault(kind, {})[group] = part_cell(found[kind, group], stable_seed("slice", kind, group))
    return cells


def part_cell(parts: Sequence[tuple[str, Score]], seed: int) -> Cell:
    """Return the mean over parts of pictures, each a case id and a score, and what became of those without one.

    Args:
        parts: at least one.
        seed: of the resamples of cases.
    """
    statuses = Counter[str](score.status for _, score in parts)
    known = [(case_id, score.value) for case_id, score in parts if score.value is not None]
    values, clusters = [value for _, value in known], [case_id for case_id, _ in known]
    estimate = cluster_bootstrap(values, clusters, seed=seed) if known else None
    return counted(statuses, estimate, n_pending=0)
