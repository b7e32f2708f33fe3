"""From verdicts to numbers: what `results.json` and `comparison.json` hold, and how it is computed. Pure functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from gnomon.records import Candidate, Case, Verdict
from gnomon.statistics import Estimate, cluster_bootstrap, paired_difference

Item = tuple[str, int]
"""What is judged: case id and seed."""


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
    """A metric over all cases, and over the cases of each task."""

    tasks: dict[str, Cell]


class JudgeResult(_Result):
    """All metrics of one judge."""

    fingerprint: str
    metrics: dict[str, MetricResult]


class Results(_Result):
    """`results.json`: one generator on one dataset, by every judge that was run.

    `candidates` counts items by the status of their candidate, those not generated yet as "pending".
    """

    schema_version: int = 1
    generator: str
    benchmarks: list[str]
    dataset: str
    seed: int
    repeats: int
    num_cases: int
    candidates: dict[str, int]
    judges: dict[str, JudgeResult]


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
    """The difference over all cases, and over the cases of each task."""

    tasks: dict[str, Difference]


class RunComparison(_Result):
    """`comparison.json`: `after` minus `before`, by judge and metric."""

    schema_version: int = 1
    before: str
    after: str
    dataset: str
    judges: dict[str, dict[str, MetricDifference]]


def count_candidates(items: Sequence[Item], candidates: Iterable[Candidate]) -> dict[str, int]:
    """Return how many items have a candidate of each status; those without one are "pending"."""
    statuses: dict[Item, str] = {(candidate.case_id, candidate.seed): candidate.status for candidate in candidates}
    return dict(sorted(Counter(statuses.get(item, "pending") for item in items).items()))


def metric_result(items: Sequence[Item], verdicts: Mapping[Item, Verdict], cases: Mapping[str, Case]) -> MetricResult:
    """Return the cells of one metric: over all `items`, and over those of each task.

    Args:
        items: every item that was to be judged.
        verdicts: the verdicts that exist, by item.
        cases: the cases by id.
    """
    by_task: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        by_task[cases[item[0]].task].append(item)
    tasks = {task: cell(members, verdicts) for task, members in sorted(by_task.items())}
    return MetricResult(**cell(items, verdicts).model_dump(), tasks=tasks)


def cell(items: Sequence[Item], verdicts: Mapping[Item, Verdict]) -> Cell:
    """Return the mean over the scored items with its interval, and the counts of the others."""
    found = [verdicts[item] for item in items if item in verdicts]
    scored = [verdict for verdict in found if verdict.value is not None]
    others = Counter(verdict.status for verdict in found if verdict.value is None)
    n_na = others.pop("not_applicable", 0)
    estimate = None
    if scored:
        estimate = cluster_bootstrap([_value(verdict) for verdict in scored], [verdict.case_id for verdict in scored])
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
    before: Mapping[Item, Verdict], after: Mapping[Item, Verdict], cases: Mapping[str, Case]
) -> MetricDifference:
    """Return how one metric changed: over all `cases`, and over those of each task."""
    means = (mean_by_case(before), mean_by_case(after))
    by_task: dict[str, list[str]] = defaultdict(list)
    for case in cases.values():
        by_task[case.task].append(case.id)
    tasks = {task: difference(*means, members) for task, members in sorted(by_task.items())}
    return MetricDifference(**difference(*means, list(cases)).model_dump(), tasks=tasks)


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


def mean_by_case(verdicts: Mapping[Item, Verdict]) -> dict[str, float]:
    """Return the mean over the scored repeats of each case; cases without a score are left out."""
    values: dict[str, list[float]] = defaultdict(list)
    for (case_id, _), verdict in verdicts.items():
        if verdict.value is not None:
            values[case_id].append(verdict.value)
    return {case_id: sum(scores) / len(scores) for case_id, scores in values.items()}


def _value(verdict: Verdict) -> float:
    assert verdict.value is not None
    return verdict.value
