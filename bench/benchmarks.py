"""The benchmarks that this project knows: what their cases are grouped by, and what is computed from judged metrics.

A benchmark is told by `Case.benchmark`. Cases of any other name work too: their metrics are averaged as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from gnomon.records import Case, Status


class Score(NamedTuple):
    """What is known of one item in one metric; `value` is None exactly where `status` is not "ok"."""

    value: float | None
    status: Status = "ok"


def _no_scores(case: Case, scores: Mapping[str, Score]) -> dict[str, Score]:
    return {}


def _everywhere(case: Case, metric: str) -> bool:
    return True


def by_task(case: Case) -> dict[str, str]:
    """Group a case by its task alone."""
    return {"task": case.task}


@dataclass(frozen=True)
class Benchmark:
    """How a benchmark's numbers are made.

    Attributes:
        name: equal to `Case.benchmark`.
        description: for `gnomon bench list`: what is asked and who judges.
        derive: makes the item's other metrics, such as an overall score, of those that were judged and apply. Where
            it needs a metric that failed, it passes the failure on: a part of a score is not the score.
        groups: what a case belongs to, by kind of group: a task, a category, a language.
        parts: per kind of group, all of its groups; a mean that lacks one of them is marked as partial.
        source: where its cases come from, mostly a command.
        metrics: what its cases may list, by name, with a line about each; empty where they may list anything.
        derived: what `derive` makes, likewise.
        applies: whether a case can have a value in a metric, judged or derived; a group without such a case is not
            missing from the metric's mean.
    """

    name: str
    description: str
    derive: Callable[[Case, Mapping[str, Score]], dict[str, Score]] = _no_scores
    groups: Callable[[Case], dict[str, str]] = by_task
    parts: Mapping[str, frozenset[str]] | None = None
    source: str = ""
    metrics: Mapping[str, str] = field(default_factory=dict)
    derived: Mapping[str, str] = field(default_factory=dict)
    applies: Callable[[Case, str], bool] = _everywhere


TABLETOP = Benchmark(
    "tabletop",
    "edits of small drawn scenes; scored by an oracle that knows the outcome, and by any judge",
    source="made by `gnomon data build tabletop --split test --out DIR`",
    metrics={
        "instruction": "whether what was asked for is there",
        "consistency": "whether everything else stayed as it was",
        "quality": "whether the shapes are drawn as shapes are",
    },
)


@cache
def known_benchmarks() -> dict[str, Benchmark]:
    """Return all benchmarks by name."""
    from bench.editcompass.scoring import EDIT_COMPASS  # there, because it is made of this module's classes

    return {benchmark.name: benchmark for benchmark in (TABLETOP, EDIT_COMPASS)}


def benchmark_of(case: Case) -> Benchmark:
    """Return the benchmark of a case; one that is not known has nothing but its metrics."""
    return known_benchmarks().get(case.benchmark) or _other(case.benchmark)


@cache
def _other(name: str) -> Benchmark:
    return Benchmark(name, "cases of another benchmark")
