"""What all judges that ask a vision-language model share: pictures are loaded, replies are read, verdicts are made."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from gnomon.records import Reference, Status, Verdict
from rm.ahead import ask_ahead
from rm.background import is_part_of_calls
from rm.judge import JudgeRequest, all_served
from rm.pictures import NoPictures, Pictures, load_pictures
from rm.protocols.parsing import Parsed
from rm.vlm.conversation import Reply

T = TypeVar("T")
_Shown = tuple[Path, tuple[str, ...], Path | None, Status]
"""What pictures are loaded for: the folder, references, the candidate's file, and how its generator did."""
READING_VERSION = 2  # part of every fingerprint; raised when equal replies are read differently


@dataclass(frozen=True)
class Asked:
    """A request and what is shown for it."""

    request: JudgeRequest
    pictures: Pictures


@dataclass(frozen=True)
class Outcome:
    """What came of one request; `value` is None exactly where `status` is not "ok"."""

    value: float | None
    status: Status = "ok"
    rationale: str | None = None
    raw: str | None = None
    seconds: float | None = None
    served_by: str | None = None


@dataclass(frozen=True)
class Shell:
    """Turns requests into verdicts around the question to the model.

    Attributes:
        fingerprint: of the judge.
        problem: says why a request cannot be asked, None where it can.
        prompt_hash: of the words that a request is asked with; None where there are none.
        answer: asks the model; one outcome per request, in order.
        question_id: of the checklist item that a request is about.
        batch_size: requests whose pictures are in memory together, or more where one candidate has more, since what is
            asked about the same pictures reads them once; not used where several questions are in flight.
        max_concurrency: how many questions the model can work on at once. With more than one, candidates are asked
            about by themselves and ahead, see :func:`rm.ahead.ask_ahead`.
        shown: the references that a request shows, in their order; all of the case's by default.
        looks: whether pictures are shown at all; those that are not are not loaded.
    """

    fingerprint: str
    problem: Callable[[JudgeRequest], str | None]
    prompt_hash: Callable[[JudgeRequest], str | None]
    answer: Callable[[Sequence[Asked]], list[Outcome]]
    question_id: Callable[[JudgeRequest], str | None] = lambda _: None
    batch_size: int = 64
    max_concurrency: int = 1
    shown: Callable[[JudgeRequest], Sequence[Reference]] = lambda request: request.case.references
    looks: bool = True

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order."""
        batches = [list(group) for _, group in groupby(requests, key=_candidate)]
        if self.max_concurrency == 1:
            batches = _joined(batches, self.batch_size)
        elif is_part_of_calls():  # whoever calls keeps the model busy
            batches = [list(requests)]
        if len(batches) < 2 or self.max_concurrency == 1:
            return [verdict for batch in batches for verdict in self._batch(batch)]
        questions = len(requests) / len(batches)
        asked = ask_ahead(self._batch, batches, max_concurrency=self.max_concurrency, questions=questions)
        return [verdict for verdicts in asked for verdict in verdicts]

    def _batch(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        loaded: dict[_Shown, Pictures | NoPictures] = {}
        prepared = [self._prepare(request, loaded) for request in requests]
        asked = [item for item in prepared if isinstance(item, Asked)]
        answers = iter(self.answer(asked) if asked else [])
        return [
            self._verdict(request, next(answers), item.pictures.hashes)
            if isinstance(item, Asked)
            else self._verdict(request, item, ())
            for request, item in zip(requests, prepared, strict=True)
        ]

    def _prepare(self, request: JudgeRequest, loaded: dict[_Shown, Pictures | NoPictures]) -> Asked | Outcome:
        """Load what is shown, once for all metrics: backends know equal pictures by their identity."""
        if (problem := self.problem(request)) is not None:
            return Outcome(None, "not_applicable", problem)
        references, status = self.shown(request), request.candidate.status
        if not self.looks and request.image is not None:
            return Asked(request, Pictures((), (), ()))
        key = (request.root, tuple(reference.path for reference in references), request.image, status)
        if key not in loaded:
            loaded[key] = load_pictures(request.root, references, [request.image], status=status)
        found = loaded[key]
        return Outcome(None, found.status, found.reason) if isinstance(found, NoPictures) else Asked(request, found)

    def _verdict(self, request: JudgeRequest, outcome: Outcome, hashes: tuple[str, ...]) -> Verdict:
        applies = self.problem(request) is None
        return Verdict(
            case_id=request.case.id,
            generator=request.candidate.generator,
            seed=request.candidate.seed,
            metric=request.metric,
            question_id=self.question_id(request),
            value=outcome.value,
            status=outcome.status,
            rationale=outcome.rationale,
            raw=outcome.raw,
            judge=self.fingerprint,
            prompt_hash=self.prompt_hash(request) if applies else None,
            image_hashes=list(hashes),
            seconds=outcome.seconds,
            served_by=outcome.served_by,
        )


def _joined(groups: Sequence[list[JudgeRequest]], size: int) -> list[list[JudgeRequest]]:
    """Put neighbouring groups together as long as they hold at most `size` requests; none is cut."""
    batches: list[list[JudgeRequest]] = []
    for group in groups:
        if batches and len(batches[-1]) + len(group) <= size:
            batches[-1] += group
        else:
            batches.append(group)
    return batches


def _candidate(request: JudgeRequest) -> tuple[object, ...]:
    return request.root, request.case.id, request.candidate.generator, request.candidate.seed, request.image


def read_reply(reply: Reply, reader: Callable[..., Parsed[T]]) -> Parsed[T]:
    """Read what a model said; where it said nothing, the reading has the reply's own status.

    A reply that reached its longest length is read as well: a complete answer may stand in it.
    """
    if reply.status not in ("ok", "truncated"):
        return Parsed(None, reply.status, problem=reply.error)
    cut = reply.status == "truncated"
    parsed = reader(reply.text, finish_reason="length" if cut else reply.finish_reason)
    return replace(parsed, problem=reply.error) if cut and parsed.status == "truncated" and reply.error else parsed


def applying(parsed: Parsed[T]) -> Parsed[T]:
    """Take "not applicable" for what it is where the case says what applies: no answer."""
    if parsed.status != "not_applicable":
        return parsed
    return replace(parsed, status="parse_error", problem="the reply says that the question does not apply")


def raw_text(reply: Reply) -> str | None:
    """Return a reply as it can be read again, thinking included; None where nothing came."""
    if not reply.thinking:
        return reply.text or None
    if not reply.text:
        return f"<think>{reply.thinking}"
    return f"<think>{reply.thinking}</think>{reply.text}"


def mean_of_samples(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the mean over those of several samples that succeeded; where none did, the commonest status."""
    if len(outcomes) == 1:
        return outcomes[0]
    raw = json.dumps([outcome.raw for outcome in outcomes], ensure_ascii=False)
    times = [outcome.seconds for outcome in outcomes if outcome.seconds is not None]
    seconds = sum(times) if times else None
    served = all_served([outcome.served_by for outcome in outcomes])
    failures = Counter(outcome.status for outcome in outcomes if outcome.status != "ok")
    words = ", ".join(f"{number} {status}" for status, number in failures.most_common())
    values = [outcome.value for outcome in outcomes if outcome.value is not None]
    if not values:
        return Outcome(None, failures.most_common(1)[0][0], f"all samples failed: {words}", raw, seconds, served)
    summary = f"mean of {len(values)} of {len(outcomes)} samples" + (f", failed: {words}" if words else "")
    reasons = [outcome.rationale for outcome in outcomes if outcome.value is not None and outcome.rationale]
    return Outcome(fmean(values), "ok", "\n".join([summary, *reasons[:1]]), raw, seconds, served)


def single_outcome(reply: Reply, parsed: Parsed[float]) -> Outcome:
    """Return the outcome of one reply."""
    reason = parsed.rationale if parsed.status == "ok" else parsed.problem
    return Outcome(parsed.value, parsed.status, reason, raw_text(reply), reply.seconds, reply.served_by)
