"""From scores to cells: means over items and over groups of items, with intervals that resample whole cases.

All metrics of a group are resampled together, since most of the cost is drawing cases. Each group draws with a seed
made of its name, so that its interval does not depend on which other groups there are; means of groups' means come from
the same resamples.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from statistics import fmean, stdev
from typing import TypeVar

import numpy as np

from bench.benchmarks import Score, benchmark_of
from bench.results import Cell, Final, Item, MetricDifference, MetricResult, difference, mean_by_case
from gnomon.hashing import stable_seed
from gnomon.records import Case
from gnomon.statistics import Estimate, Resampling, mean_of_means, resample_columns

Element = TypeVar("Element", Item, str)
Columns = Sequence[Mapping[Item, Score]]
"""The scores of several metrics, by item."""
_STATUS_OF = attrgetter("status")


class _Resampler:
    """Resamples the cases of some items; the same items again cost nothing.

    Args:
        items: every item.
        columns: the scores of each metric.
        seed: of the draws, to which each group adds one made of its name.
        num_resamples: of cases.
    """

    def __init__(self, items: Sequence[Item], columns: Columns, *, seed: int = 0, num_resamples: int = 2000) -> None:
        self.seed, self.num_resamples = seed, num_resamples
        self.rows = {item: row for row, item in enumerate(items)}
        self.values = np.array([[_number(scores.get(item)) for scores in columns] for item in items])
        self.values = self.values.reshape(len(items), len(columns))
        self.clusters = np.unique([case_id for case_id, _ in items], return_inverse=True)[1]
        self.whole = self._resampled(range(len(items)), 0)
        self._known = {tuple(range(len(items))): self.whole}

    def of(self, kind: str, name: str, members: Sequence[Item]) -> Resampling:
        """Return the means over the members of a group, and their resamples."""
        rows = tuple(self.rows[item] for item in members)
        if rows not in self._known:
            self._known[rows] = self._resampled(rows, stable_seed(kind, name))
        return self._known[rows]

    def _resampled(self, rows: Sequence[int], seed: int) -> Resampling:
        places = np.array(rows, np.int64)
        values, clusters = self.values[places], self.clusters[places]
        return resample_columns(values, clusters, seed=self.seed + seed, num_resamples=self.num_resamples)


def _number(score: Score | None) -> float:
    return float("nan") if score is None or score.value is None else score.value


def metric_results(
    items: Sequence[Item], scores: Mapping[str, Mapping[Item, Score]], cases: Mapping[str, Case]
) -> dict[str, MetricResult]:
    """Return the cells of every metric: over all `items`, and over those of each group.

    Args:
        items: every item that was to be judged.
        scores: the scores that exist, by metric and item.
        cases: the cases by id.
    """
    columns = list(scores.values())
    resampler = _Resampler(items, columns)
    belongs = {case_id: benchmark_of(case).groups(case) for case_id, case in cases.items()}
    by_kind = _grouped(items, [belongs[case_id] for case_id, _ in items])
    drawn = {
        kind: {name: resampler.of(kind, name, members) for name, members in by_name.items()}
        for kind, by_name in by_kind.items()
    }
    whole = _cells(items, columns, resampler.whole)
    groups = {
        kind: {name: _cells(members, columns, drawn[kind][name]) for name, members in by_name.items()}
        for kind, by_name in by_kind.items()
    }
    macro = {kind: mean_of_means(list(by_name.values())).estimates() for kind, by_name in drawn.items()}
    kinds = _final_kinds(cases)
    finals = _finals(items, columns, belongs, kinds, resampler) if kinds and items else [None] * len(columns)
    members = _grouped(list(cases), list(belongs.values()))
    results = {}
    for column, (metric, by_item) in enumerate(scores.items()):
        of_metric = {kind: {name: cells[column] for name, cells in found.items()} for kind, found in groups.items()}
        seeds = _seed_means(items, by_item)
        results[metric] = MetricResult(
            **dict(whole[column]),
            groups=of_metric,
            macro={kind: None if (one := found[column]) is None else one.value for kind, found in macro.items()},
            macro_intervals={kind: _ends(found[column]) for kind, found in macro.items()},
            missing=_missing(whole[column], of_metric, metric, cases, members),
            seeds=seeds,
            std=stdev(seeds.values()) if len(seeds) > 1 else None,
            final=finals[column],
        )
    return results


def metric_result(
    items: Sequence[Item], scores: Mapping[Item, Score], cases: Mapping[str, Case], *, metric: str = ""
) -> MetricResult:
    """Return the cells of one metric, see :func:`metric_results`."""
    return metric_results(items, {metric: scores}, cases)[metric]


def cell(items: Sequence[Item], scores: Mapping[Item, Score]) -> Cell:
    """Return the mean over the scored items with its interval, and the counts of the others."""
    return _cells(items, [scores], _Resampler(items, [scores]).whole)[0]


def _cells(items: Sequence[Item], columns: Columns, drawn: Resampling) -> list[Cell]:
    cells = []
    for scores, estimate in zip(columns, drawn.estimates(), strict=True):
        statuses = Counter[str](map(_STATUS_OF, filter(None, map(scores.get, items))))
        cells.append(counted(statuses, estimate, n_pending=len(items) - statuses.total()))
    return cells


def counted(statuses: Mapping[str, int], estimate: Estimate | None, *, n_pending: int) -> Cell:
    """Return a cell.

    Args:
        statuses: how often each occurs among all that is known.
        estimate: the mean over what is "ok", None where nothing is.
        n_pending: how much is not known yet.
    """
    failed = {name: count for name, count in sorted(statuses.items()) if name not in ("ok", "not_applicable")}
    return Cell(
        value=estimate.value if estimate else None,
        ci_low=estimate.ci_low if estimate else None,
        ci_high=estimate.ci_high if estimate else None,
        n_total=sum(statuses.values()) + n_pending,
        n_scored=statuses.get("ok", 0),
        n_failed=sum(failed.values()),
        failed=failed,
        n_na=statuses.get("not_applicable", 0),
        n_pending=n_pending,
        num_clusters=estimate.num_clusters if estimate else 0,
    )


def _final_kinds(cases: Mapping[str, Case]) -> tuple[str, str] | None:
    """Return what the benchmark's own mean goes by; None where there is none, or cases of several benchmarks."""
    found = {benchmark_of(case).final for case in {case.benchmark: case for case in cases.values()}.values()}
    return found.pop() if len(found) == 1 else None


def _finals(
    items: Sequence[Item],
    columns: Columns,
    belongs: Mapping[str, Mapping[str, str]],
    kinds: tuple[str, str],
    resampler: _Resampler,
) -> list[Final | None]:
    """Return the benchmark's own mean of each metric."""
    nested = _nested(items, belongs, kinds)
    parts = _resampled_groups(nested, kinds[1], resampler)
    members = {outer: [item for found in inner.values() for item in found] for outer, inner in nested.items()}
    groups = {outer: _cells(members[outer], columns, drawn) for outer, drawn in parts.items()}
    whole = _cells(items, columns, mean_of_means(list(parts.values())))
    return [
        Final(**dict(one), kinds=kinds, groups={name: cells[column] for name, cells in groups.items()})
        for column, one in enumerate(whole)
    ]


def _nested(
    items: Sequence[Item], belongs: Mapping[str, Mapping[str, str]], kinds: tuple[str, str]
) -> dict[str, dict[str, list[Item]]]:
    """Return the items of each inner group of each outer one."""
    nested: dict[str, dict[str, list[Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        outer, inner = (belongs[item[0]][kind] for kind in kinds)
        nested[outer][inner].append(item)
    return nested


def _resampled_groups(
    nested: Mapping[str, Mapping[str, Sequence[Item]]], kind: str, resampler: _Resampler
) -> dict[str, Resampling]:
    """Return the mean of the inner groups' means of each outer group."""
    return {
        outer: mean_of_means([resampler.of(kind, name, members) for name, members in sorted(inner.items())])
        for outer, inner in sorted(nested.items())
    }


def resampled_headlines(
    items: Sequence[Item],
    columns: Columns,
    cases: Mapping[str, Case],
    *,
    seed: int = 0,
    num_resamples: int = 2000,
) -> Resampling:
    """Return the means that runs are ordered by, one for each column of scores, all resampled with the same draws.

    Where every column has a score of every item, what makes a case easy for all of them cancels in their differences.

    Args:
        items: at least one.
        columns: scores by item, such as those of several runs.
        cases: the cases by id.
        seed: of the draws.
        num_resamples: of cases.
    """
    resampler = _Resampler(items, columns, seed=seed, num_resamples=num_resamples)
    chosen = {item[0]: cases[item[0]] for item in items}
    kinds = _final_kinds(chosen)
    if kinds is None:
        return resampler.whole
    belongs = {case_id: benchmark_of(case).groups(case) for case_id, case in chosen.items()}
    return mean_of_means(list(_resampled_groups(_nested(items, belongs, kinds), kinds[1], resampler).values()))


def _missing(
    whole: Cell,
    groups: Mapping[str, Mapping[str, Cell]],
    metric: str,
    cases: Mapping[str, Case],
    members: Mapping[str, Mapping[str, Sequence[str]]],
) -> dict[str, list[str]]:
    """Return the groups without a scored item, see :class:`bench.results.MetricResult`; `members` are their cases.

    None is, where the metric applies to nothing that was made: the generator has no channel for what it measures.
    """
    if whole.value is None and whole.n_na:
        return {kind: [] for kind in groups}
    expected = _expected_groups(cases.values())
    is_open = any(cell.value is None for by_name in groups.values() for cell in by_name.values())
    applying = _applying(metric, cases) if is_open else set[str]()
    return {
        kind: sorted(
            name
            for name in {*by_name, *expected.get(kind, ())}
            if name not in by_name or (by_name[name].value is None and not applying.isdisjoint(members[kind][name]))
        )
        for kind, by_name in groups.items()
    }


def _ends(found: Estimate | None) -> tuple[float, float] | None:
    if found is None or found.ci_low is None or found.ci_high is None:
        return None
    return found.ci_low, found.ci_high


def grouped(elements: Sequence[Element], cases: Mapping[Element, Case]) -> dict[str, dict[str, list[Element]]]:
    """Return the elements of each group, by kind of group and name of the group, both sorted.

    Args:
        elements: items or case ids.
        cases: the case of each.
    """
    return _grouped(elements, [benchmark_of(cases[element]).groups(cases[element]) for element in elements])


def _grouped(elements: Sequence[Element], belongs: Sequence[Mapping[str, str]]) -> dict[str, dict[str, list[Element]]]:
    found: dict[str, dict[str, list[Element]]] = defaultdict(lambda: defaultdict(list))
    for element, groups in zip(elements, belongs, strict=True):
        for kind, name in groups.items():
            found[kind][name].append(element)
    return {kind: dict(sorted(by_name.items())) for kind, by_name in sorted(found.items())}


def metric_difference(
    before: Mapping[Item, Score], after: Mapping[Item, Score], cases: Mapping[str, Case]
) -> MetricDifference:
    """Return how one metric changed: over all `cases`, and over those of each group."""
    means = (mean_by_case(before), mean_by_case(after))
    groups = {
        kind: {name: difference(*means, members) for name, members in by_name.items()}
        for kind, by_name in grouped(list(cases), cases).items()
    }
    return MetricDifference(**difference(*means, list(cases)).model_dump(), groups=groups)


def _applying(metric: str, cases: Mapping[str, Case]) -> set[str]:
    """Return the ids of the cases that a metric applies to."""
    listed = any(metric in case.metrics for case in cases.values())
    return {
        case_id
        for case_id, case in cases.items()
        if (metric in case.metrics or not listed) and benchmark_of(case).applies(case, metric)
    }


def _expected_groups(cases: Iterable[Case]) -> dict[str, set[str]]:
    """Return what the benchmarks of `cases` consist of, by kind of group."""
    expected: dict[str, set[str]] = defaultdict(set)
    for benchmark in {case.benchmark: benchmark_of(case) for case in cases}.values():
        for kind, names in (benchmark.parts or {}).items():
            expected[kind] |= names
    return expected


def _seed_means(items: Sequence[Item], scores: Mapping[Item, Score]) -> dict[str, float]:
    by_seed: dict[int, list[float]] = defaultdict(list)
    for item in items:
        if item in scores and (value := scores[item].value) is not None:
            by_seed[item[1]].append(value)
    return {str(seed): fmean(values) for seed, values in sorted(by_seed.items())}
