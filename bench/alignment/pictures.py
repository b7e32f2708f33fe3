"""The pictures of runs that people rated: what they gave, and the judge's score or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from bench.comparable import refuse_other_numbers
from bench.folder import BenchRun
from bench.ratings import ONLY_GROUP
from bench.report.examples import JudgedRun, labels
from bench.results import Item
from bench.scores import headline_metric
from bench.statistics.ratings import Ratings
from gnomon.errors import UserError
from gnomon.records import Status


@dataclass(frozen=True)
class RatedPicture:
    """A picture that people rated: their mean, and the judge's score, None where `status` is not "ok"."""

    model: str
    case_id: str
    human: float
    judge: float | None
    status: Status | str = "ok"


@dataclass(frozen=True)
class RatedRuns:
    """The rated pictures of some runs, and what they were judged by."""

    judge: str
    metric: str
    pictures: list[RatedPicture]


def rated_pictures(
    runs: Sequence[str | Path], ratings: Mapping[str, Ratings], *, judge: str | None = None, metric: str | None = None
) -> RatedRuns:
    """Return the pictures that people rated with the scores of a judge.

    Args:
        runs: run folders on one dataset, one for each model.
        ratings: by model, as pages of several runs show its name; one run needs no name. Items are case ids, or `<case
            id>/seed-<seed>`, which a run with repeats needs. Higher is better.
        judge: its name; None where the runs have one in common.
        metric: of the judge; None for the one that runs are ordered by.

    Raises:
        UserError: for runs of different datasets or judges, an unknown judge or metric, and ratings of a model or
            picture that no run has.
    """
    read = [BenchRun.read(run) for run in runs]
    refuse_other_numbers(read)
    judged = [JudgedRun.read(run, label) for run, label in zip(read, labels(read), strict=True)]
    name = _judge(judged, judge)
    entry = next(found for found in judged[0].judges if found.name == name)
    found = metric or headline_metric(entry, list(judged[0].scores[name])) or "none"
    by_label = {one.label: one for one in judged}
    if len(judged) == 1 and set(ratings) == {ONLY_GROUP}:  # without a column group
        ratings = {judged[0].label: ratings[ONLY_GROUP]}
    pictures = []
    for model, table in ratings.items():
        if model not in by_label:
            raise UserError(
                f"expected models out of {', '.join(by_label)} in the column group of --ratings, got {model!r}; name "
                "models there as their runs do"
            )
        pictures += _of_model(by_label[model], table, name, found)
    return RatedRuns(name, found, pictures)


def _judge(judged: Sequence[JudgedRun], name: str | None) -> str:
    """Return the name of the judge, which has to be the same one in all runs."""
    by_run = [{judge.name: judge.fingerprint for judge in one.judges} for one in judged]
    shared = [judge for judge in by_run[0] if all(judge in judges for judges in by_run)]
    chosen = shared[0] if name is None and len(shared) == 1 else name
    if chosen not in shared:
        known = ", ".join(shared) or "there is none"
        raise UserError(f"expected --judge out of those that judged every run ({known}), got {name or 'none'}")
    if len({judges[chosen] for judges in by_run}) > 1:
        raise UserError(f"judge {chosen!r} is not the same in all runs; judge them by one, under a new name")
    return chosen


def _of_model(judged: JudgedRun, table: Ratings, judge: str, metric: str) -> list[RatedPicture]:
    scores = judged.scores[judge]
    if metric not in scores:
        raise UserError(f"expected --metric out of {', '.join(scores)}, got {metric!r}")
    items, pictures = _items(judged.run), []
    for name, human in _means(table).items():
        if name not in items:
            raise UserError(
                f"expected pictures of {judged.run.path} in the column item of --ratings, such as {next(iter(items))}, "
                f"got {name!r}; write <case id>, or <case id>/seed-<seed> where there are repeats"
            )
        score = scores[metric].get(items[name])
        value, status = (None, "pending") if score is None else (score.value, score.status)
        pictures.append(RatedPicture(judged.label, items[name][0], human, value, status))
    return pictures


def _items(run: BenchRun) -> dict[str, Item]:
    """Return the pictures of a run by what they are called in a file of ratings."""
    short = {case_id: (case_id, seed) for case_id, seed in run.items} if run.config.repeats == 1 else {}
    return short | {f"{case_id}/seed-{seed}": (case_id, seed) for case_id, seed in run.items}


def _means(table: Ratings) -> dict[str, float]:
    """Return the mean rating of each item that has one."""
    values: dict[str, list[float]] = {}
    for item, code in zip(table.item, table.code, strict=True):
        values.setdefault(table.items[item], []).append(float(str(table.domain[code])))
    return {name: fmean(found) for name, found in values.items()}
