"""How a model's scores vary when it makes its pictures again: mean and sample standard deviation of the repeats.

A repeat is one seed of a run; several runs of one generator give theirs together. Means are those that the benchmark
orders runs by, over the cases that every repeat has a score of, so that repeats do not differ by what failed in them.

Source: MDMR-Bench, its table of three runs over the cases of multi-element extraction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from bench.aggregation import resampled_headlines
from bench.benchmarks import Score
from bench.report.examples import JudgedRun
from gnomon.records import Case


@dataclass(frozen=True)
class MetricRepeats:
    """One metric of one model.

    Attributes:
        means: of each repeat.
        mean: of these; None where no case is scored in every repeat.
        sample_std: their sample standard deviation (divided by one less than their number); None below two.
        num_cases: that every repeat has a score of.
        num_left_out: cases that a repeat has no score of.
    """

    means: list[float]
    mean: float | None
    sample_std: float | None
    num_cases: int
    num_left_out: int


@dataclass(frozen=True)
class ModelRepeats:
    """One model: its repeats as run folder and seed, and each metric."""

    repeats: list[tuple[str, int]]
    metrics: dict[str, MetricRepeats]


def repeats(runs: Sequence[JudgedRun], judge: str, metrics: Sequence[str]) -> dict[str, ModelRepeats]:
    """Return the repeats of each generator by its name.

    Args:
        runs: by any generators.
        judge: of all of them.
        metrics: of the judge.
    """
    by_generator: dict[str, list[tuple[JudgedRun, int]]] = {}
    for one in runs:
        config = one.run.config
        seeds = range(one.run.seed, one.run.seed + config.repeats)
        by_generator.setdefault(config.generator, []).extend((one, seed) for seed in seeds)
    return {
        name: ModelRepeats(
            [(str(one.run.path), seed) for one, seed in members],
            {
                metric: _repeats([_values(*member, judge, metric) for member in members], members[0][0].run.cases)
                for metric in metrics
            },
        )
        for name, members in by_generator.items()
    }


def _values(one: JudgedRun, seed: int, judge: str, metric: str) -> dict[str, float | None]:
    """Return the score of each case that the metric applies to, None where there is none."""
    scores = one.scores[judge].get(metric, {})
    found = {case_id: scores.get((case_id, seed)) for case_id in one.run.cases}
    return {
        case_id: None if score is None else score.value
        for case_id, score in found.items()
        if score is None or score.status != "not_applicable"
    }


def _repeats(found: Sequence[Mapping[str, float | None]], cases: Mapping[str, Case]) -> MetricRepeats:
    every = dict.fromkeys(case_id for values in found for case_id in values)
    shared = [case_id for case_id in every if all(values.get(case_id) is not None for values in found)]
    means: list[float] = []
    if shared:
        columns = [{(case_id, 0): Score(values[case_id]) for case_id in shared} for values in found]
        drawn = resampled_headlines([(case_id, 0) for case_id in shared], columns, cases, num_resamples=1)
        means = drawn.means.tolist()
    return MetricRepeats(
        means=means,
        mean=fmean(means) if means else None,
        sample_std=stdev(means) if len(means) > 1 else None,
        num_cases=len(shared),
        num_left_out=len(every) - len(shared),
    )
