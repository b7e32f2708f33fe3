"""The benchmarks that this project knows: what their cases are grouped by, and what is computed from judged metrics.

A benchmark is told by `Case.benchmark`. Cases of any other name work too: their metrics are averaged as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from gnomon.records import Case, Question, Status, Verdict


class Score(NamedTuple):
    """What is known of one item in one metric; `value` is None exactly where `status` is not "ok"."""

    value: float | None
    status: Status = "ok"


class Scoring(BaseModel):
    """What scores are made by, where a user may choose; runs scored in different ways do not belong into one table.

    Attributes:
        as_no: a question that got no answer (refused, unreadable, no picture) counts as answered wrongly, which gives a
            lower bound; otherwise it is left out and counted.
        strict: an item to which one of the benchmark's dimensions does not apply has no overall score; otherwise it
            is made of the dimensions that there are.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    as_no: bool = False
    strict: bool = False

    @property
    def flags(self) -> str:
        """The flags of `gnomon bench summarize` that ask for it."""
        return " ".join(["--as-no"] * self.as_no + ["--strict"] * self.strict) or "no flags"

    @property
    def texts(self) -> list[str]:
        """What is other than usual, in words."""
        as_no = ["questions without an answer count as answered wrongly: a lower bound"] if self.as_no else []
        strict = ["items without questions in every dimension have no overall score"] if self.strict else []
        return as_no + strict


def _no_scores(case: Case, scores: Mapping[str, Score]) -> dict[str, Score]:
    return {}


def _everywhere(case: Case, metric: str) -> bool:
    return True


def _nothing_wrong(case: Case) -> tuple[str, ...]:
    return ()


def by_dimension_and_level(case: Case, question: Question) -> dict[str, Collection[str]]:
    """Group a question by its dimension and its level."""
    return {"dimension": (question.dimension,), "level": (question.level,)}


class Slice(NamedTuple):
    """What one part of a picture, such as one person, contributes to a metric, and which group the part is in."""

    kind: str
    group: str
    score: Score


def no_slices(case: Case, verdict: Verdict) -> tuple[Slice, ...]:
    """Tell no parts of a picture apart."""
    return ()


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
        derive_from_answers: makes the item's metrics of the answers to its case's questions: by question id 1 where the
            answer is the expected one, 0 where not, or the status of a failure; what is not known yet is left out.
        dimensions: the metrics that the overall score is made of, where one that does not apply is left out of it.
        final: two kinds of groups, the outer first, by which the benchmark makes its one number: means over the items
            of each inner group, their mean in each outer group, and the mean of those.
        shown_times: what pages multiply the benchmark's metrics by, such as 100 for shares; files keep them as is.
        shown_times_of: metrics that are multiplied by another number.
        question_groups: what a question of a case belongs to, by kind of group; it may be in several of one kind, or in
            none.
        slices: what the parts of a picture that a verdict is about contribute, such as each person, by kind of group.
        axes: metrics, of whatever judge, that are shown side by side because none of them says enough.
        axis_groups: the kind of group over whose names, which are numbers, the axes are drawn.
        check: says what is wrong with a case beyond what any dataset asks for.
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
    derive_from_answers: Callable[[Case, Mapping[str, Score]], dict[str, Score]] = _no_scores
    dimensions: tuple[str, ...] = ()
    final: tuple[str, str] | None = None
    shown_times: int = 1
    shown_times_of: Mapping[str, int] = field(default_factory=dict)
    question_groups: Callable[[Case, Question], Mapping[str, Collection[str]]] = by_dimension_and_level
    slices: Callable[[Case, Verdict], Iterable[Slice]] = no_slices
    axes: tuple[str, ...] = ()
    axis_groups: str = ""
    check: Callable[[Case], Iterable[str]] = _nothing_wrong


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
    # There, because they are made of this module's classes.
    from bench.cogcanvas.scoring import COGCANVAS
    from bench.editcompass.scoring import EDIT_COMPASS
    from bench.mdmr.scoring import MDMR_BENCH
    from bench.xversebench import XVERSE_BENCH

    known = (TABLETOP, EDIT_COMPASS, MDMR_BENCH, COGCANVAS, XVERSE_BENCH)
    return {benchmark.name: benchmark for benchmark in known}


def benchmark_of(case: Case) -> Benchmark:
    """Return the benchmark of a case; one that is not known has nothing but its metrics."""
    return known_benchmarks().get(case.benchmark) or _other(case.benchmark)


@cache
def _other(name: str) -> Benchmark:
    return Benchmark(name, "cases of another benchmark")
