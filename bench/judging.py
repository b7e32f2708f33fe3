"""One batch of verdicts: those that need no judge, and those that a judge was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from bench.benchmarks import benchmark_of
from bench.folder import BenchRun, needs_work
from bench.generators import CONTENT_HASH
from bench.pictures import picture_failure
from gnomon.datasets import resolve
from gnomon.records import Candidate, Status, Verdict
from rm.judge import Judge, JudgeRequest

VerdictKey = tuple[str, int, str, str]
"""What a verdict is known by: case id, seed, metric, judge fingerprint."""

Question = tuple[Candidate, str]
"""What is asked: a candidate and a metric."""

_Failure = tuple[Status, str | None]
"""Why there is no picture to judge: status and reason."""


def open_questions(
    run: BenchRun, judge: Judge, wanted: Sequence[Question], listed: Set[str], known: Mapping[VerdictKey, Verdict]
) -> list[Question]:
    """Return the questions to ask: all where one was never answered, else those whose failure may be mended.

    A batch that was cut short is asked as a whole, because a value's last bits may depend on its neighbours. A failure
    that needs no judge, such as a missing picture, is asked about again only when it is no longer the same.
    """
    waiting = []
    for candidate, metric in wanted:
        verdict = known.get(key_of(candidate, metric, judge.fingerprint))
        if verdict is None:
            return list(wanted)
        if needs_work(verdict):
            failure = _failure(run, candidate)
            if _without_judge(run, judge, (candidate, metric), listed, failure) != verdict:
                waiting.append((candidate, metric))
    return waiting


def judge_batch(run: BenchRun, judge: Judge, wanted: Sequence[Question], listed: Set[str]) -> list[Verdict]:
    """Return a verdict for each wanted (candidate, metric), in their order.

    Args:
        run: the run that the candidates belong to.
        judge: asked for what needs a judge, in one call.
        wanted: candidates and metrics.
        listed: metrics that at least one case of the dataset lists; they apply only to the cases that list them. Which
            of its own metrics apply to a case, a benchmark knows even where none of the cases lists them.

    Raises:
        ValueError: when the judge answers something else than it was asked.
    """
    candidates = {(candidate.case_id, candidate.seed): candidate for candidate, _ in wanted}
    failures = {item: _failure(run, candidate) for item, candidate in candidates.items()}
    verdicts = [
        _without_judge(run, judge, question, listed, failures[question[0].case_id, question[0].seed])
        for question in wanted
    ]
    requests = [
        JudgeRequest(
            case=run.cases[candidate.case_id],
            root=run.root,
            candidate=candidate,
            image=resolve(run.path, candidate.path),
            metric=metric,
        )
        for (candidate, metric), verdict in zip(wanted, verdicts, strict=True)
        if verdict is None and candidate.path is not None
    ]
    answers = iter(_ask(judge, requests))
    return [next(answers) if verdict is None else verdict for verdict in verdicts]


def key_of(candidate: Candidate, metric: str, fingerprint: str) -> VerdictKey:
    """Return the key of the verdict that would answer this question."""
    return (candidate.case_id, candidate.seed, metric, fingerprint)


def key_of_verdict(verdict: Verdict) -> VerdictKey:
    """Return the key of a verdict."""
    return (verdict.case_id, verdict.seed, verdict.metric, verdict.judge)


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
    return [_about(request.candidate, answer) for request, answer in zip(requests, answers, strict=True)]


def _about(candidate: Candidate, verdict: Verdict) -> Verdict:
    """Return a verdict that names the picture it is about, so that it does not count for one made later."""
    picture = candidate.sampling.get(CONTENT_HASH)
    if picture is None or picture in verdict.image_hashes:
        return verdict
    return verdict.model_copy(update={"image_hashes": [*verdict.image_hashes, picture]})


def _without_judge(
    run: BenchRun, judge: Judge, question: Question, listed: Set[str], failure: _Failure | None
) -> Verdict | None:
    """Return the verdict that needs no judge; None where there is a picture to look at."""
    candidate, metric = question
    case = run.cases[candidate.case_id]
    if (metric in listed and metric not in case.metrics) or not benchmark_of(case).applies(case, metric):
        failure = ("not_applicable", None)
    if failure is None:
        return None
    status, reason = failure
    return Verdict(
        case_id=candidate.case_id,
        generator=candidate.generator,
        seed=candidate.seed,
        metric=metric,
        value=None,
        status=status,
        rationale=reason,
        judge=judge.fingerprint,
    )


def _failure(run: BenchRun, candidate: Candidate) -> _Failure | None:
    """Return why there is no picture of a candidate that could be judged."""
    if candidate.status != "ok":
        return candidate.status, candidate.sampling.get("reason")
    if candidate.path is None:
        return "missing_output", None
    failure = picture_failure(run.path, candidate, run.looked_at)
    return None if failure is None else (failure.status, failure.reason)
