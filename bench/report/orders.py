"""Several judges of the same runs: how each orders them, and how far the orders agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.report.blocks import Cell as TableCell
from bench.report.blocks import Measured, Table
from bench.report.examples import JudgedRun
from bench.report.formatting import number
from bench.statistics.ratings import Agreement
from bench.studies.reranking import Reranking, reranking
from gnomon.statistics import Estimate

MIN_RUNS = 2


def order_tables(runs: Sequence[JudgedRun], headlines: Mapping[str, str]) -> list[Table]:
    """Return the rank that each judge gives each run, and the agreement of every two judges; nothing below two of each.

    Args:
        runs: those that all of these judges judged.
        headlines: by judge, the metric that it orders runs by.
    """
    found = reranking(runs, headlines) if len(runs) >= MIN_RUNS and len(headlines) > 1 else None
    return [] if found is None else [_rank_table(found), _agreement_table(found)]


def _rank_table(found: Reranking) -> Table:
    note = (
        f"Over {found.num_cases} cases that every judge has a score of in every run. 1 is best; equal means share a "
        "rank."
    )
    columns = ["run"]
    for judge, order in found.orders.items():
        columns += [f"{judge}, {order.metric}", f"rank by {judge}"]
    first = next(iter(found.orders.values())).ranks
    rows: list[list[TableCell]] = []
    for place in sorted(range(len(found.models)), key=lambda place: first[place]):
        cells: list[TableCell] = [found.models[place]]
        for order in found.orders.values():
            rank = order.ranks[place]
            cells += [order.means[place], int(rank) if rank.is_integer() else rank]
        rows.append(cells)
    return Table("Runs in the order of each judge", columns, rows, note)


def _agreement_table(found: Reranking) -> Table:
    rows: list[list[TableCell]] = [
        [
            one.first,
            one.second,
            *(_measured(one.correlations[kind], found.num_cases) for kind in ("kendall_tau_b", "spearman")),
            ", ".join(f"{better} over {worse}" for better, worse in one.swapped) or None,
        ]
        for one in found.agreements
    ]
    note = (
        "Correlations of the runs' ranks; 95 % intervals resample cases (2000 resamples). One is the same order, minus "
        "one the opposite."
    )
    columns = ["judge", "and judge", "Kendall's tau-b", "Spearman", "swapped: the first judge prefers"]
    return Table("Agreement of the orders", columns, rows, note)


def _measured(found: Agreement, num_cases: int) -> TableCell:
    if found.value is None:
        return found.reason
    estimate = Estimate(found.value, found.ci_low, found.ci_high, found.n_items, num_cases)
    return Measured(estimate, [f"{found.n_items} runs, {number(num_cases)} cases"])
