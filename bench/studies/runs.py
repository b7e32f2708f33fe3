"""The runs of a study, and the judges that it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.comparable import refuse_unlike
from bench.folder import BenchRun, JudgeFile
from bench.report.examples import JudgedRun, labels
from bench.scores import headline_metric
from bench.selection import select
from gnomon.errors import UserError


def read_runs(paths: Sequence[str | Path], tasks: Sequence[str] | None = None) -> list[JudgedRun]:
    """Read finished runs on one dataset, with the names that pages of several runs show.

    Args:
        paths: run folders.
        tasks: take only cases of these; None for all.

    Raises:
        UserError: for a folder that is no run, tasks that no case of a run is of, and as
            :func:`bench.comparable.refuse_unlike`.
    """
    runs = [_of_tasks(BenchRun.read(path), tasks) for path in paths]
    refuse_unlike(runs)
    return [JudgedRun.read(run, label) for run, label in zip(runs, labels(runs), strict=True)]


def _of_tasks(run: BenchRun, tasks: Sequence[str] | None) -> BenchRun:
    """Return a run with the cases of some tasks alone."""
    if tasks is None:
        return run
    chosen = {case.id: case for case in select(list(run.cases.values()), tasks=tasks)}
    return replace(run, cases=chosen, items=[item for item in run.items if item[0] in chosen])


def judges_of_all(runs: Sequence[JudgedRun], names: Sequence[str] | None = None) -> list[JudgeFile]:
    """Return the judges of every run, by name.

    Args:
        runs: at least one, as :func:`read_runs` returns them.
        names: only these; None for all.

    Raises:
        UserError: for a name that is none of them, and where there is none.
    """
    shared = {judge.name: judge for judge in runs[0].judges}
    for one in runs[1:]:
        shared = {name: judge for name, judge in shared.items() if name in {other.name for other in one.judges}}
    unknown = [name for name in names or () if name not in shared]
    if unknown or not shared:
        known = ", ".join(shared) or "there is none"
        got = f", got {', '.join(unknown)}" if unknown else ""
        raise UserError(f"expected judges that judged every run ({known}){got}; run `gnomon bench judge` on the others")
    return [judge for name, judge in shared.items() if names is None or name in names]


def metrics_of(runs: Sequence[JudgedRun], judge: str) -> list[str]:
    """Return the metrics that there are scores of by a judge in every run, derived ones included, in their order."""
    found = [list(one.scores[judge]) for one in runs]
    return [metric for metric in found[0] if all(metric in others for others in found[1:])]


def headline_of(runs: Sequence[JudgedRun], judge: JudgeFile, metric: str | None) -> str:
    """Return the metric that a study of a judge is about: the chosen one, or the one that runs are ordered by.

    Raises:
        UserError: for a metric that the judge does not have in every run, and where it has none.
    """
    known = metrics_of(runs, judge.name)
    chosen = metric or headline_metric(judge, known)
    if chosen is None or chosen not in known:
        raise UserError(
            f"expected --metric out of those that {judge.name} has in every run ({', '.join(known) or 'there is none'})"
            f", got {chosen}"
        )
    return chosen
