"""One batch of verdicts: those that need no judge, and those that a judge was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.folder import BenchRun
from gnomon.datasets import resolve
from gnomon.images import UnreadableImageError, load_image
from gnomon.records import Candidate, Status, Verdict
from rm.judge import Judge, JudgeRequest

VerdictKey = tuple[str, int, str, str]
"""What a verdict is known by: case id, seed, metric, judge fingerprint."""


def judge_batch(
    run: BenchRun, judge: Judge, wanted: Sequence[tuple[Candidate, str]], listed: set[str]
) -> list[Verdict]:
    """Return a verdict for each wanted (candidate, metric), in their order.

    Args:
        run: the run that the candidates belong to.
        judge: asked for what needs a judge, in one call.
        wanted: candidates and metrics.
        listed: metrics that at least one case of the run lists; they apply only to the cases that list them.

    Raises:
        ValueError: when the judge answers something else than it was asked.
    """
    images = {candidate.path: _checked_image(run.path, candidate) for candidate, _ in wanted}
    verdicts: list[Verdict | None] = []
    requests: list[JudgeRequest] = []
    for candidate, metric in wanted:
        image, case = images[candidate.path], run.cases[candidate.case_id]
        if metric in listed and metric not in case.metrics:
            verdicts.append(_without_judge(candidate, metric, judge.fingerprint, "not_applicable"))
        elif candidate.status != "ok":
            verdicts.append(_without_judge(candidate, metric, judge.fingerprint, candidate.status))
        elif not isinstance(image, Path):
            verdicts.append(_without_judge(candidate, metric, judge.fingerprint, image))
        else:
            verdicts.append(None)
            requests.append(JudgeRequest(case=case, root=run.root, candidate=candidate, image=image, metric=metric))
    answers = iter(_ask(judge, requests))
    return [next(answers) if verdict is None else verdict for verdict in verdicts]


def key_of(candidate: Candidate, metric: str, fingerprint: str) -> VerdictKey:
    """Return the key of the verdict that would answer this question."""
    return (candidate.case_id, candidate.seed, metric, fingerprint)


def key_of_verdict(verdict: Verdict) -> VerdictKey:
    """Return the key of a verdict."""
    return (verdict.case_id, verdict.seed, verdict.metric, verdict.judge)


def key_of_line(line: Mapping[str, Any]) -> VerdictKey:
    """Return the key of a verdict as it stands in a file."""
    return (line["case_id"], line["seed"], line["metric"], line["judge"])


def _ask(judge: Judge, requests: Sequence[JudgeRequest]) -> list[Verdict]:
    """Return the judge's verdicts after checking that each is about its request."""
    answers = judge.judge(requests) if requests else []
    asked = [key_of(request.candidate, request.metric, judge.fingerprint) for request in requests]
    got = [key_of_verdict(answer) for answer in answers]
    if asked != got:
        first = next((pair for pair in zip(asked, got, strict=False) if pair[0] != pair[1]), (len(asked), len(got)))
        raise ValueError(
            f"expected one verdict for each request, in their order and under the judge's fingerprint, from judge "
            f"{judge.name!r}: asked for {first[0]}, got {first[1]} (case id, seed, metric, fingerprint; or how many)"
        )
    return answers


def _checked_image(path: Path, candidate: Candidate) -> Path | Status:
    """Return the path of a readable picture, or the status that stands in for a score."""
    if candidate.path is None:
        return "missing_output"
    image = resolve(path, candidate.path)
    if not image.is_file():
        return "missing_output"
    try:
        load_image(image)
    except UnreadableImageError:
        return "unreadable_image"
    return image


def _without_judge(candidate: Candidate, metric: str, fingerprint: str, status: Status) -> Verdict:
    return Verdict(
        case_id=candidate.case_id,
        generator=candidate.generator,
        seed=candidate.seed,
        metric=metric,
        value=None,
        status=status,
        judge=fingerprint,
    )
