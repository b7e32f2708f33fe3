"""Several judges of the same runs: how each orders them, and how far the orders agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from scipy.stats import rankdata

from bench.report.blocks import Cell as TableCell
from bench.report.blocks import Measured, Table
from bench.report.examples import JudgedRun
from bench.report.formatting import number
from bench.results import mean_by_case
from bench.statistics.means import correlation_of_means
from bench.statistics.ratings import Agreement
from gnomon.statistics import Estimate

MIN_RUNS = 2


def order_tables(runs: Sequence[JudgedRun], headlines: Mapping[str, str]) -> list[Table]:
    """Return the rank that each judge gives each run, and the agreement of every two judges; nothing below two of each.

    Means are over the cases that every judge has a score of in every run, so that orders differ by the judges alone.

    Args:
        runs: those that all of these judges judged.
        headlines: by judge, the metric that it orders runs by.
    """
    means = {
        judge: [mean_by_case(run.scores[judge].get(metric, {})) for run in runs] for judge, metric in headlines.items()
    }
    every = [found for by_run in means.values() for found in by_run]
    shared = sorted(set.intersection(*(set(found) for found in every))) if every else []
    if len(runs) < MIN_RUNS or len(means) < 2 or not shared:
        return []
    tables = {
        judge: np.array([[found[case_id] for case_id in shared] for found in by_run]) for judge, by_run in means.items()
    }
    note = (
        f"Over {len(shared)} cases that every judge has a score of in every run. 1 is best; equal means share a rank."
    )
    return [_rank_table(runs, tables, headlines, note), _agreement_table(tables, len(shared))]


def _rank_table(
    runs: Sequence[JudgedRun], tables: Mapping[str, np.ndarray], headlines: Mapping[str, str], note: str
) -> Table:
    columns, by_judge = ["run"], []
    for judge, table in tables.items():
        # Rounded, since equal means of equal numbers must not differ by their last bits.
        means = np.round(table.mean(axis=1), 12)
        by_judge.append((means, rankdata(-means)))
        columns += [f"{judge}, {headlines[judge]}", f"rank by {judge}"]
    order = np.argsort(by_judge[0][1], kind="stable")
    rows: list[list[TableCell]] = []
    for place in order:
        cells: list[TableCell] = [runs[place].label]
        for means, ranks in by_judge:
            rank = float(ranks[place])
            cells += [float(means[place]), int(rank) if rank.is_integer() else rank]
        rows.append(cells)
    return Table("Runs in the order of each judge", columns, rows, note)


def _agreement_table(tables: Mapping[str, np.ndarray], num_cases: int) -> Table:
    rows: list[list[TableCell]] = []
    for first, second in combinations(tables, 2):
        found = [correlation_of_means(tables[first], tables[second], kind) for kind in ("kendall_tau_b", "spearman")]
        rows.append([first, second, *(_measured(one, num_cases) for one in found)])
    note = (
        "Correlations of the runs' ranks; 95 % intervals resample cases (2000 resamples). One is the same order, minus "
        "one the opposite."
    )
    return Table("Agreement of the orders", ["judge", "and judge", "Kendall's tau-b", "Spearman"], rows, note)


def _measured(found: Agreement, num_cases: int) -> TableCell:
    if found.value is None:
        return found.reason
    estimate = Estimate(found.value, found.ci_low, found.ci_high, found.n_items, num_cases)
    return Measured(estimate, [f"{found.n_items} runs, {number(num_cases)} cases"])
