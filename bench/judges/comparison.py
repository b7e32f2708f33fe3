"""The numbers of a comparison of judges: accuracies, paired tests against one of them, gains and sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bench.judges.runs import About, JudgeRun
from gnomon.errors import UserError
from rm.averages import CONVENTIONS, average_figures, is_partial
from rm.comparing import control_samples, paired_accuracy
from rm.controls import CONTROLS
from rm.metrics import TIE_THRESHOLD
from rm.scorers import PairSample

Varied = Literal["thinking", "rubrics"]
AVERAGE = "average"


class _Result(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class JudgeRow(_Result):
    """One judge in the table.

    Attributes:
        name: the run's label, or that of a judge that does not look.
        judge: the judge's name.
        figures: see :func:`rm.averages.average_figures`.
        tie_rate: share of the scored pairs that it tied; None where nothing was scored.
        swap_consistency: share of the pairs on which its two orders agree; None for a judge of single pictures.
        num_swapped: pairs that share is over.
        failed: pairs that it could not score, by status.
    """

    name: str
    judge: str
    figures: dict[str, Any]
    tie_rate: float | None
    swap_consistency: float | None
    num_swapped: int
    failed: dict[str, int] = Field(default_factory=dict)

    @property
    def is_partial(self) -> bool:
        """Whether its averages lack a dimension."""
        return is_partial(self.figures)

    @property
    def shares(self) -> dict[str, float]:
        """Its accuracies by dimension and the micro average, without failed pairs; what is not known is absent."""
        dropped = self.figures["failed_dropped"]
        rows = {**dropped["dimensions"], AVERAGE: dropped["micro"]}
        return {name: row["value"] for name, row in rows.items() if row is not None}


class Gain(_Result):
    """What a judge gains when one thing about it changes.

    Attributes:
        varied: what changes.
        before: run before.
        after: run after.
        points: difference of the accuracies times 100, by dimension, and for averages over the same dimensions.
        paired: the same on the pairs that both scored, see :func:`rm.comparing.paired_accuracy`; None where there are
            no pairs to look at.
    """

    varied: Varied
    before: str
    after: str
    points: dict[str, float]
    paired: dict[str, Any] | None = None


class SizeLine(_Result):
    """Accuracies over sizes of one family, all asked alike.

    Attributes:
        label: family, and how it was asked.
        runs: the runs, by size.
        parameters: in billions.
        figures: the micro average of each: `value`, `ci_low`, `ci_high`, `n`.
    """

    label: str
    runs: list[str]
    parameters: list[float]
    figures: list[dict[str, Any]]


class JudgeComparison(_Result):
    """`comparison.json`.

    Attributes:
        dimensions: of the data.
        judges: one row per run.
        baselines: judges that do not look, on the pairs that any of the runs has.
        reference: run that the others are tested against.
        tests: of each other run minus the reference, by convention for failed pairs.
        gains: of pairs of runs that differ in one thing.
        sizes: lines over sizes.
    """

    schema_version: int = 1
    dimensions: list[str]
    judges: list[JudgeRow]
    baselines: list[JudgeRow]
    reference: str
    tests: dict[str, dict[str, dict[str, Any]]]
    gains: list[Gain]
    sizes: list[SizeLine]


def compare_runs(
    runs: Sequence[JudgeRun], about: Sequence[About] = (), *, against: str | None = None, seed: int = 0
) -> JudgeComparison:
    """Return the comparison of evaluations of the same pairs.

    Args:
        runs: the evaluations.
        about: what is known about their judges.
        against: label of the reference; by default the run with the highest micro average, of those whose average is
            whole where there is one.
        seed: of the bootstrap and of the random judge.

    Raises:
        UserError: when `against` is none of the runs.
    """
    by_label = {run.label: run for run in runs}
    rows = [judge_row(run.label, run.judge, run.samples, run.missing, seed=seed) for run in runs]
    reference = best_of(rows) if against is None else against
    if reference not in by_label:
        raise UserError(f"expected one of the runs ({', '.join(by_label)}) as --against, got {reference!r}")
    every = list({sample.key: sample for run in runs for sample in run.samples}.values())
    judged = dict.fromkeys([*(s.dimension for s in every), *(name for run in runs for name in run.missing)])
    unseen = [name for name in judged if all(name in run.missing for run in runs)]
    shares = {row.name: row.shares for row in rows}
    return JudgeComparison(
        dimensions=list(judged),
        judges=rows,
        baselines=[
            judge_row(name, name, control_samples(name, every, seed=seed), unseen, seed=seed) for name in CONTROLS
        ],
        reference=reference,
        tests={
            run.label: {
                convention: paired_accuracy(
                    by_label[reference].samples, run.samples, failed_wrong=convention == "failed_wrong", seed=seed
                )
                for convention in CONVENTIONS
            }
            for run in runs
            if run.label != reference
        },
        gains=[
            gain.model_copy(
                update={
                    "paired": paired_accuracy(by_label[gain.before].samples, by_label[gain.after].samples, seed=seed)
                }
            )
            for gain in gains(about, shares)
        ],
        sizes=size_lines(about, {row.name: row.figures["failed_dropped"]["micro"] for row in rows}),
    )


def judge_row(
    name: str, judge: str, samples: Sequence[PairSample], missing: Iterable[str], *, seed: int = 0
) -> JudgeRow:
    """Return the row of one judge."""
    scored = [sample.difference for sample in samples if sample.difference is not None]
    swapped = [sample.consistent for sample in samples if sample.consistent is not None]
    return JudgeRow(
        name=name,
        judge=judge,
        figures=average_figures(samples, missing=missing, seed=seed),
        tie_rate=sum(abs(value) < TIE_THRESHOLD for value in scored) / len(scored) if scored else None,
        swap_consistency=sum(swapped) / len(swapped) if swapped else None,
        num_swapped=len(swapped),
        failed=dict(sorted(Counter(sample.status for sample in samples if sample.correct is None).items())),
    )


def best_of(rows: Sequence[JudgeRow]) -> str:
    """Return the name of the row with the highest micro average; a partial one only where all are."""
    return max(rows, key=lambda row: (not row.is_partial, row.shares.get(AVERAGE, -1.0))).name


def gains(about: Sequence[About], shares: Mapping[str, Mapping[str, float]]) -> list[Gain]:
    """Return what thinking and other rubrics gain, for every two runs that are said to differ in nothing else.

    Args:
        about: what is known; a run of which the family is not known is compared with none. Thinking goes from off to
            on, rubrics from an earlier line to a later one.
        shares: accuracies of each run by dimension, and the average.
    """
    found = []
    for first, second in combinations((line for line in about if line.family is not None), 2):
        differing = [name for name in ("parameters", "thinking", "rubrics") if _differ(first, second, name)]
        if first.family != second.family or differing not in (["thinking"], ["rubrics"]):
            continue
        varied: Varied = "thinking" if differing == ["thinking"] else "rubrics"
        if getattr(first, varied) is None or getattr(second, varied) is None:
            continue
        before, after = (second, first) if varied == "thinking" and first.thinking == "on" else (first, second)
        old, new = shares[before.run], shares[after.run]
        # Averages over other dimensions are other averages.
        common = [name for name in old if name in new and (name != AVERAGE or old.keys() == new.keys())]
        points = {name: 100 * (new[name] - old[name]) for name in common}
        found.append(Gain(varied=varied, before=before.run, after=after.run, points=points))
    return found


def _differ(first: About, second: About, name: str) -> bool:
    return bool(getattr(first, name) != getattr(second, name))


def size_lines(about: Sequence[About], figures: Mapping[str, Mapping[str, Any] | None]) -> list[SizeLine]:
    """Return a line per family and way of asking, over the runs of known size, smallest first.

    Args:
        about: what is known.
        figures: the micro average of each run; None where nothing was scored, and then it is in no line.
    """
    groups: dict[str, list[tuple[float, str]]] = {}
    for line in about:
        if line.family is not None and line.parameters is not None and figures[line.run] is not None:
            thinking = {"on": "thinking", "off": None, None: None}[line.thinking]
            label = ", ".join(part for part in (line.family, thinking, line.rubrics) if part)
            groups.setdefault(label, []).append((line.parameters, line.run))
    return [
        SizeLine(
            label=label,
            runs=[run for _, run in members],
            parameters=[size for size, _ in members],
            figures=[dict(figures[run] or {}) for _, run in members],
        )
        for label, members in ((label, sorted(members)) for label, members in groups.items())
    ]
