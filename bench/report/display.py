"""Numbers as pages show them: some benchmarks are read times 100. Files keep them as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel

from bench.benchmarks import Benchmark, Score, Scoring, benchmark_of
from bench.report.examples import JudgedRun
from bench.results import MetricResult, Results, RunComparison
from gnomon.records import Case


def scoring_notes(scoring: Scoring) -> list[str]:
    """Return what is other than usual in how scores are made, as sentences."""
    return [f"{text[0].upper()}{text[1:]}." for text in scoring.texts]


NUMBERS = ("value", "ci_low", "ci_high", "before", "after", "difference", "std")
HOLDERS = ("groups", "macro", "macro_intervals", "seeds", "final", "slices", "yes", "right")
"""What holds such numbers, at any depth."""

Numbers = TypeVar("Numbers", bound=BaseModel)


class Display:
    """What metrics of some cases are multiplied by on pages: 1, unless all are of one benchmark with a scale.

    A judge's own metrics, which the benchmark does not know, are shown as they are.

    Args:
        cases: of all runs of a page.
    """

    def __init__(self, cases: Iterable[Case]) -> None:
        benchmarks: dict[str, Benchmark] = {case.benchmark: benchmark_of(case) for case in cases}
        self.benchmark = next(iter(benchmarks.values())) if len(benchmarks) == 1 else None

    @property
    def times(self) -> int:
        """What the benchmark's own metrics are multiplied by."""
        return 1 if self.benchmark is None else self.benchmark.shown_times

    @property
    def note(self) -> str:
        """What a page says of it; empty where there is nothing to say."""
        if self.times == 1:
            return ""
        others = {} if self.benchmark is None else self.benchmark.shown_times_of
        but = [f", {name} times {times}" for name, times in others.items()]
        return f"Scores and shares are shown times {self.times}{''.join(but)}."

    def factor(self, metric: str) -> int:
        """Return what a metric is multiplied by."""
        if self.benchmark is None or metric not in {**self.benchmark.metrics, **self.benchmark.derived}:
            return 1
        return self.benchmark.shown_times_of.get(metric, self.times)

    def results(self, results: Results) -> Results:
        """Return results as they are shown."""
        judges = {
            name: judge.model_copy(
                update={
                    "metrics": self._metrics(judge.metrics),
                    "questions": None if judge.questions is None else _times(judge.questions, self.times),
                }
            )
            for name, judge in results.judges.items()
        }
        return results.model_copy(update={"judges": judges})

    def comparison(self, comparison: RunComparison) -> RunComparison:
        """Return a comparison as it is shown."""
        judges = {name: self._metrics(metrics) for name, metrics in comparison.judges.items()}
        return comparison.model_copy(update={"judges": judges})

    def metric(self, name: str, result: MetricResult) -> MetricResult:
        """Return one metric's result as it is shown."""
        return _times(result, self.factor(name))

    def run(self, judged: JudgedRun) -> JudgedRun:
        """Return a run with scores as they are shown."""
        scores = {
            judge: {
                metric: {item: _score(score, self.factor(metric)) for item, score in by_item.items()}
                for metric, by_item in metrics.items()
            }
            for judge, metrics in judged.scores.items()
        }
        return replace(judged, scores=scores)

    def _metrics(self, metrics: Mapping[str, Numbers]) -> dict[str, Numbers]:
        return {metric: _times(found, self.factor(metric)) for metric, found in metrics.items()}


def _score(score: Score, factor: int) -> Score:
    return score if score.value is None else score._replace(value=score.value * factor)


def _times(found: Numbers, factor: int) -> Numbers:
    """Return a cell, difference or metric with all its numbers multiplied."""
    if factor == 1:
        return found
    names = [name for name in (*NUMBERS, *HOLDERS) if name in type(found).model_fields]
    return found.model_copy(update={name: _multiplied(getattr(found, name), factor) for name in names})


def _multiplied(value: object, factor: int) -> object:
    if isinstance(value, BaseModel):
        return _times(value, factor)
    if isinstance(value, Mapping):
        return {key: _multiplied(one, factor) for key, one in value.items()}
    if isinstance(value, tuple):
        return tuple(_multiplied(one, factor) for one in value)
    return value * factor if isinstance(value, float) else value
