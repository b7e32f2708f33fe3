"""What `results.json` and `comparison.json` hold, and how differences are computed; means are in bench.aggregation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from pydantic import BaseModel, ConfigDict, Field

import gnomon
from bench.benchmarks import Score, Scoring
from gnomon.records import Candidate
from gnomon.statistics import Estimate, paired_difference

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


class Final(Cell):
    """A benchmark's one number in a metric, such as the mean of its families, where they are means of sub-tasks.

    `value` is the mean of the values in `groups`, each of which is the mean of the means of that group's own groups:
    `kinds` says of which kinds both are. Counts are those of all items. With a group gone it is partial, see
    :attr:`MetricResult.is_partial`.
    """

    kinds: tuple[str, str]
    groups: dict[str, Cell]


class MetricResult(Cell):
    """A metric over all cases, and over the cases of each group.

    `value` is the mean over items (micro). `groups` has, by kind of group (task, category, ...), a cell per group, and
    `macro` the plain mean of the groups' values, in which a small group counts as much as a large one, with its 95 %
    interval in `macro_intervals`, None where a group has fewer than two cases. `missing` names
    the groups that have no scored item although the benchmark or this run's cases have them and the metric applies
    there (no case lists it, or one of theirs does): with one of them gone, `value` and `macro` are partial and not to
    be compared with whole ones. `seeds` has the mean of each repeat, and `std` their sample standard deviation, None
    below two repeats. `final` is the benchmark's own number, where it has one. `slices` has groups of parts of pictures
    where the benchmark tells them apart, such as people by age: their cells count parts, with cases as clusters.
    """

    groups: dict[str, dict[str, Cell]]
    macro: dict[str, float | None]
    macro_intervals: dict[str, tuple[float, float] | None] = Field(default_factory=dict)
    missing: dict[str, list[str]]
    seeds: dict[str, float]
    std: float | None
    final: Final | None = None
    slices: dict[str, dict[str, Cell]] = Field(default_factory=dict)

    @property
    def headline(self) -> Cell:
        """What runs are ordered by: the benchmark's own number, or the mean over items where it has none."""
        return self.final or self

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


class QuestionRate(Cell):
    """A share of the answers to all questions about all items: its counts are of answers, its clusters are cases.

    `groups` has the questions of each group, such as a dimension, by kind of group; a question may be in several.
    """

    groups: dict[str, dict[str, Cell]]


class QuestionResults(_Result):
    """What a judge answered, question by question, however few of an item's questions were answered.

    `yes` is the share of yes. `right` is the share of answers that were expected, where a question that depends on a
    denied one counts as answered wrongly. Failures are in neither share, whatever the scores are made by.
    """

    yes: QuestionRate
    right: QuestionRate


class JudgeResult(_Result):
    """All metrics of one judge, and the answers of a judge of questions.

    `served_by` counts its verdicts by what the server called the model that answered; `prompt_hashes` are those of the
    words that each metric was asked with, several where they depend on the case.
    """

    fingerprint: str
    metrics: dict[str, MetricResult]
    questions: QuestionResults | None = None
    served_by: dict[str, int] = Field(default_factory=dict)
    prompt_hashes: dict[str, list[str]] = Field(default_factory=dict)


class SubjectResults(_Result):
    """What came of the subjects of pictures that were painted one subject after the other.

    All cells count subjects: the shares that were given up and that took more than one try, and the mean seconds of
    those that had a place. `problems` says how often a subject was given up for what reason.
    """

    given_up: Cell
    tried_again: Cell
    seconds: Cell
    problems: dict[str, int]


class Results(_Result):
    """`results.json`: one generator on one dataset, by every judge that was run.

    `num_cases` of the dataset's `num_cases_of_dataset` were selected; None where a run is older than that number.
    `candidates` counts items by the status of their candidate, those not generated yet as "pending". `version` is that
    of the code that computed it. Everything else that computes scores of the run goes by `scoring` as well. `subjects`
    has, by number of people and for "all", what came of subjects that were painted one after the other.
    """

    schema_version: int = 4
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
    scoring: Scoring = Scoring()
    subjects: dict[str, SubjectResults] = Field(default_factory=dict)

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

    schema_version: int = 3
    before: str
    after: str
    dataset: str
    judges: dict[str, dict[str, MetricDifference]]
    served_by: dict[str, dict[str, int]] = Field(default_factory=dict)
    scoring: Scoring = Scoring()


def count_candidates(items: Sequence[Item], candidates: Iterable[Candidate]) -> dict[str, int]:
    """Return how many items have a candidate of each status; those without one are "pending"."""
    statuses: dict[Item, str] = {(candidate.case_id, candidate.seed): candidate.status for candidate in candidates}
    return dict(sorted(Counter(statuses.get(item, "pending") for item in items).items()))


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
