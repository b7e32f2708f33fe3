"""From verdicts to numbers: what `results.json` and `comparison.json` hold, and how it is computed. Pure functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

import gnomon
from bench.benchmarks import Score, benchmark_of
from gnomon.records import Candidate, Case
from gnomon.statistics import Estimate, cluster_bootstrap, macro_bootstrap, paired_difference

Item = tuple[str, int]
"""What is judged: case id and seed."""

Element = TypeVar("Element", Item, str)


class _Result(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cell(_Result):
    """One number of a table with all that it hides.

    `n_total` = `n_scored` + `n_failed` + `n_na` + `n_pending` counts items (case and seed). Failed items are in
    `failed` by status and never in `value`, the mean of the scored ones. `ci_low` and `ci_high` are a 95 % cluster
    bootstrap interval with cases as clusters, None below two cases. Pending are items not generated or judged yet.
    """

    value: float | None
    ci_low: float | None
    ci_high: float | None
    n_total: int
    n_scored: int
    n_failed: int
    failed: dict[str, int]
    n_na: int
    n_pending: int
    num_clusters: int
    higher_is_better: bool = True

    @property
    def estimate(self) -> Estimate | None:
        """The value with its interval, None where nothing was scored."""
        if self.value is None:
            return None
        return Estimate(self.value, self.ci_low, self.ci_high, self.n_scored, self.num_clusters)


class MetricResult(Cell):
    """A metric over all cases, and over the cases of each group.

    `value` is the mean over items (micro). `groups` has, by kind of group (task, category, ...), a cell per group, and
    `macro` the plain mean of the groups' values, in which a small group counts as much as a large one, with its 95 %
    interval in `macro_intervals`, None where a group has fewer than two cases. `missing` names
    the groups that have no scored item although the benchmark or this run's cases have them and the metric applies
    there (no case lists it, or one of theirs does): with one of them gone, `value` and `macro` are partial and not to
    be compared with whole ones. `seeds` has the mean of each repeat, and `std` their sample standard deviation, None
    below two repeats.
    """

    groups: dict[str, dict[str, Cell]]
    macro: dict[str, float | None]
    macro_intervals: dict[str, tuple[float, float] | None] = Field(default_factory=dict)
    missing: dict[str, list[str]]
    seeds: dict[str, float]
    std: float | None

    @property
    def is_partial(self) -> bool:
        """Whether a group is missing."""
        return any(self.missing.values())

    def macro_estimate(self, kind: str) -> Estimate | None:
        """The mean of the groups' means with its interval, None where nothing was scored; `n` counts groups."""
        value, (low, high) = self.macro.get(kind), self.macro_intervals.get(kind) or (None, None)
        scored = [cell for cell in self.groups.get(kind, {}).values() if cell.value is not None]
        num_clusters = sum(cell.num_clusters for cell in scored)
        return None if value is None else Estimate(value, low, high, n=len(scored), num_clusters=num_clusters)


class JudgeResult(_Result):
    """All metrics of one judge.

    `served_by` counts its verdicts by what the server called the model that answered; `prompt_hashes` are those of the
    words that each metric was asked with, several where they depend on the case.
    """

    fingerprint: str
    metrics: dict[str, MetricResult]
    served_by: dict[str, int] = Field(default_factory=dict)
    prompt_hashes: dict[str, list[str]] = Field(default_factory=dict)


class Results(_Result):
    """`results.json`: one generator on one dataset, by every judge that was run.

    `num_cases` of the dataset's `num_cases_of_dataset` were selected; None where a run is older than that number.
    `candidates` counts items by the status of their candidate, those not generated yet as "pending". `version` is that
    of the code that computed it.
    """

    schema_version: int = 3
    version: str = gnomon.__version__
    generator: str
    benchmarks: list[str]
    dataset: str
    seed: int
    repeats: int
    num_cases: int
    num_cases_of_dataset: int | None = None
    candidates: dict[str, int]
    judges: dict[str, JudgeResult]

    @property
    def coverage(self) -> str:
        """How many cases the run is about, and of how many where it is not about all."""
        whole = self.num_cases_of_dataset in (None, self.num_cases)
        return (
            f"{self.num_cases} cases"
            if whole
            else f"{self.num_cases} of the dataset's {self.num_cases_of_dataset} cases"
        )


class Difference(_Result):
    """How a metric changed from one run to the other, over the cases that both have scores of.

    `before`, `after` and `difference` are means over those `n_pairs` cases; `n_unpaired` cases lack a score on one
    side or both and are left out.
    """

    before: float | None
    after: float | None
    difference: float | None
    ci_low: float | None
    ci_high: float | None
    n_pairs: int
    n_unpaired: int
    higher_is_better: bool = True

    @property
    def estimate(self) -> Estimate | None:
        """The difference with its interval, None where nothing was paired."""
        if self.difference is None:
            return None
        return Estimate(self.difference, self.ci_low, self.ci_high, self.n_pairs, self.n_pairs)


class MetricDifference(Difference):
    """The difference over all cases, and over the cases of each group by kind of group."""

    groups: dict[str, dict[str, Difference]]


class RunComparison(_Result):
    """`comparison.json`: `after` minus `before`, by judge and metric; `served_by` counts over both runs."""

    schema_version: int = 2
    before: str
    after: str
    dataset: str
    judges: dict[str, dict[str, MetricDifference]]
    served_by: dict[str, dict[str, int]] = Field(default_factory=dict)


def count_candidates(items: Sequence[Item], candidates: Iterable[Candidate]) -> dict[str, int]:
    """Return how many items have a candidate of each status; those without one are "pending"."""
    statuses: dict[Item, str] = {(candidate.case_id, candidate.seed): candidate.status for candidate in candidates}
    return dict(sorted(Counter(statuses.get(item, "pending") for item in items).items()))


def metric_result(
    items: Sequence[Item], scores: Mapping[Item, Score], cases: Mapping[str, Case], *, metric: str = ""
) -> MetricResult:
    """Return the cells of one metric: over all `items`, and over those of each group.

    Args:
        items: every item that was to be judged.
        scores: the scores that exist, by item.
        cases: the cases by id.
        metric: its name, by which benchmarks say where it applies.
    """
    whole = cell(items, scores)
    by_kind = grouped(items, {item: cases[item[0]] for item in items})
    groups = {
        kind: {name: cell(members, scores) for name, members in by_name.items()} for kind, by_name in by_kind.items()
    }
    expected = _expected_groups(cases.values())
    applying = grouped(_applying(metric, cases), cases)
    macro = {kind: _macro(list(by_name.values()), scores) for kind, by_name in by_kind.items()}
    seeds = _seed_means(items, scores)
    return MetricResult(
        **whole.model_dump(),
        groups=groups,
        macro={kind: found.value if found is not None else None for kind, found in macro.items()},
        macro_intervals={kind: _ends(found) for kind, found in macro.items()},
        missing={
            kind: sorted(
                name
                for name in {*by_name, *expected.get(kind, ())}
                if name not in by_name or (by_name[name].value is None and name in applying.get(kind, ()))
            )
            for kind, by_name in groups.items()
        },
        seeds=seeds,
        std=stdev(seeds.values()) if len(seeds) > 1 else None,
    )


def _macro(groups: Sequence[Sequence[Item]], scores: Mapping[Item, Score]) -> Estimate | None:
    """Return the plain mean of the means of those groups that have a scored item."""
    strata = []
    for members in groups:
        scored = [(score.value, item[0]) for item in members if (score := scores.get(item)) and score.value is not None]
        if scored:
            strata.append(([value for value, _ in scored], [case_id for _, case_id in scored]))
    return macro_bootstrap(strata) if strata else None


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
    found: dict[str, dict[str, list[Element]]] = defaultdict(lambda: defaultdict(list))
    for element in elements:
        case = cases[element]
        for kind, name in benchmark_of(case).groups(case).items():
            found[kind][name].append(element)
    return {kind: dict(sorted(by_name.items())) for kind, by_name in sorted(found.items())}


def _applying(metric: str, cases: Mapping[str, Case]) -> list[str]:
    """Return the ids of the cases that a metric applies to."""
    listed = any(metric in case.metrics for case in cases.values())
    return [
        case_id
        for case_id, case in cases.items()
        if (metric in case.metrics or not listed) and benchmark_of(case).applies(case, metric)
    ]


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


def cell(items: Sequence[Item], scores: Mapping[Item, Score]) -> Cell:
    """Return the mean over the scored items with its interval, and the counts of the others."""
    found = [(item, scores[item]) for item in items if item in scores]
    scored = [(item, score.value) for item, score in found if score.value is not None]
    others = Counter(score.status for _, score in found if score.value is None)
    n_na = others.pop("not_applicable", 0)
    estimate = None
    if scored:
        estimate = cluster_bootstrap([value for _, value in scored], [item[0] for item, _ in scored])
    return Cell(
        value=estimate.value if estimate else None,
        ci_low=estimate.ci_low if estimate else None,
        ci_high=estimate.ci_high if estimate else None,
        n_total=len(items),
        n_scored=len(scored),
        n_failed=others.total(),
        failed=dict(sorted(others.items())),
        n_na=n_na,
        n_pending=len(items) - len(found),
        num_clusters=estimate.num_clusters if estimate else 0,
    )


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


def difference(before: Mapping[str, float], after: Mapping[str, float], case_ids: Sequence[str]) -> Difference:
    """Return the mean change over the cases that have a mean score on both sides, each case counted once."""
    paired = [case_id for case_id in case_ids if case_id in before and case_id in after]
    unpaired = len(case_ids) - len(paired)
    if not paired:
        return Difference(
            before=None, after=None, difference=None, ci_low=None, ci_high=None, n_pairs=0, n_unpaired=unpaired
        )
    first, second = [before[case_id] for case_id in paired], [after[case_id] for case_id in paired]
    change = paired_difference(first, second, paired)
    return Difference(
        before=sum(first) / len(first),
        after=sum(second) / len(second),
        difference=change.value,
        ci_low=change.ci_low,
        ci_high=change.ci_high,
        n_pairs=len(paired),
        n_unpaired=unpaired,
    )


def mean_by_case(scores: Mapping[Item, Score]) -> dict[str, float]:
    """Return the mean over the scored repeats of each case; cases without a score are left out."""
    values: dict[str, list[float]] = defaultdict(list)
    for (case_id, _), score in scores.items():
        if score.value is not None:
            values[case_id].append(score.value)
    return {case_id: fmean(known) for case_id, known in values.items()}
