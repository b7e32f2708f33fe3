"""A judge for Edit-Compass: a vision-language model asked by our own rubrics, in five metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any, TypeVar

from bench.editcompass.cases import METRICS
from bench.editcompass.questions import ALONE, DIFFERENCES, TWO_STAGES, all_words, ask, prompt_hash, shown_references
from gnomon.hashing import stable_hash
from gnomon.records import Verdict
from rm.judge import JudgeRequest, all_served, check_language
from rm.protocols.asking import (
    READING_VERSION,
    Asked,
    Outcome,
    Shell,
    applying,
    mean_of_samples,
    raw_text,
    read_reply,
    single_outcome,
)
from rm.protocols.parsing import Parsed, Scale, read_rubric
from rm.protocols.parsing.core import Grammar, failed, read, same
from rm.protocols.rubric import check_samples, seeded
from rm.vlm.conversation import VLM, GenerationParameters, Reply

T = TypeVar("T")

SCALE = Scale(1, 5)
MAX_TOKENS = 4096
_DIFFERENCE_KEYS = ("differences", "差异", "差异列表")


class EditCompassJudge:
    """Asks for an analysis and a score from 1 to 5 in each metric that a case lists.

    How the question is put depends on the case: one source, several input images, an instruction of many parts, or a
    source with marks drawn on it. The consistency of the unedited region takes two questions: which differences there
    are, without the instruction; and which of them nobody asked for, without the pictures. Visual quality is judged
    with nothing but the edited image.

    Several samples are drawn with the seeds seed, seed + 1, ... as :class:`rm.protocols.rubric.RubricJudge` does.

    Args:
        vlm: whom to ask.
        language: of the questions and the instruction, "en" or "zh".
        samples: how many replies are drawn for each question; more than one needs a temperature.
        parameters: how they are drawn; `seed` is that of the first. Greedy, of at most 4096 tokens, by default.
        name: for people.
        batch_size: requests whose pictures are in memory together.

    Raises:
        UserError: for another language, and for samples that could not differ.
    """

    metrics: tuple[str, ...] = tuple(METRICS.values())

    def __init__(
        self,
        vlm: VLM,
        *,
        language: str = "en",
        samples: int = 1,
        parameters: GenerationParameters | None = None,
        name: str | None = None,
        batch_size: int = 64,
    ) -> None:
        self.vlm, self.language, self.samples = vlm, check_language(language), samples
        self.parameters = parameters or GenerationParameters(max_tokens=MAX_TOKENS)
        check_samples(samples, self.parameters)
        self.name, self.batch_size = name or f"edit-compass ({vlm.name})", batch_size

    @property
    def max_concurrency(self) -> int:
        """How many questions the model can work on at once."""
        return self.vlm.max_concurrency

    @cached_property
    def fingerprint(self) -> str:
        """Hash of model, questions and sampling."""
        asked = [all_words(self.language), self.language, asdict(self.parameters), self.samples]
        return stable_hash(["edit-compass", READING_VERSION, self.vlm.fingerprint, asked])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order.

        A metric that the case does not list does not apply; a case that lists none has all of them.
        """
        return Shell(
            self.fingerprint,
            problem=_problem,
            prompt_hash=lambda request: prompt_hash(request.case, request.metric, self.language),
            answer=self._answer,
            batch_size=self.batch_size,
            max_concurrency=self.max_concurrency,
            shown=lambda request: shown_references(request.case, request.metric),
        ).judge(requests)

    def _answer(self, asked: Sequence[Asked]) -> list[Outcome]:
        drawn = [self._sample(asked, seeded(self.parameters, number)) for number in range(self.samples)]
        return [mean_of_samples(outcomes) for outcomes in zip(*drawn, strict=True)]

    def _sample(self, asked: Sequence[Asked], parameters: GenerationParameters) -> list[Outcome]:
        first = [DIFFERENCES if item.request.metric == TWO_STAGES else item.request.metric for item in asked]
        questions = [
            ask(question, item.request.case, item.pictures, self.language)
            for question, item in zip(first, asked, strict=True)
        ]
        replies = self.vlm.generate(questions, parameters)
        listed = {
            place: read_differences(replies[place]) for place, question in enumerate(first) if question == DIFFERENCES
        }
        scores = self._second_stage(asked, listed, parameters)
        return [
            _of_two_stages(reply, listed[place], scores.get(place))
            if place in listed
            else single_outcome(reply, read_score(reply, first[place]))
            for place, reply in enumerate(replies)
        ]

    def _second_stage(
        self, asked: Sequence[Asked], listed: Mapping[int, Parsed[str]], parameters: GenerationParameters
    ) -> dict[int, Reply]:
        """Ask about the lists that could be read; by place."""
        found = {place: parsed.value for place, parsed in listed.items() if parsed.value is not None}
        questions = [
            ask(TWO_STAGES, asked[place].request.case, asked[place].pictures, self.language, differences=differences)
            for place, differences in found.items()
        ]
        replies = self.vlm.generate(questions, parameters) if questions else []
        return dict(zip(found, replies, strict=True))


def _problem(request: JudgeRequest) -> str | None:
    metrics = request.case.metrics or list(METRICS.values())
    if request.metric not in METRICS.values():
        return f"the judge's metrics are {', '.join(METRICS.values())}"
    if request.metric not in metrics:
        return f"the case's metrics are {', '.join(metrics)}"
    if request.metric != ALONE and not request.case.references:
        return "the case has no source image"
    return None


def read_score(reply: Reply, metric: str) -> Parsed[float]:
    """Return the score that a reply gives."""
    return applying(
        read_reply(
            reply, lambda text, finish_reason: read_rubric(text, SCALE, keys=(metric,), finish_reason=finish_reason)
        )
    )


def read_differences(reply: Reply) -> Parsed[str]:
    """Return the list of differences that a reply gives, as JSON; an empty list is one, no list is a failure."""
    grammar = Grammar(_DIFFERENCE_KEYS, _listed, lambda text: None, bare=(list,))

    def whole(text: str, finish_reason: str | None) -> Parsed[str]:
        # A list that is not closed may lack entries, even where the model says that it stopped by itself.
        return read(text, grammar, finish_reason=finish_reason if reply.status == "truncated" else None)

    return applying(read_reply(reply, whole))


def _listed(values: list[Any]) -> Parsed[str]:
    return same([_as_list(value) for value in values], "the reply gives several lists that differ")


def _as_list(value: Any) -> Parsed[str]:
    if not isinstance(value, list) or not all(isinstance(item, dict | str) and item for item in value):
        return failed("parse_error", f"expected a list of differences, got {str(value)[:80]}")
    return Parsed(json.dumps(value, ensure_ascii=False, default=str))


def _of_two_stages(listing: Reply, listed: Parsed[str], scoring: Reply | None) -> Outcome:
    """Return what came of both questions; the list of differences stays with it."""
    if scoring is None:
        raw = json.dumps({"differences": raw_text(listing)}, ensure_ascii=False)
        problem = f"no list of differences: {listed.problem}"
        return Outcome(None, listed.status, problem, raw, listing.seconds, listing.served_by)
    outcome = single_outcome(scoring, read_score(scoring, TWO_STAGES))
    times = [reply.seconds for reply in (listing, scoring) if reply.seconds is not None]
    return replace(
        outcome,
        rationale="\n".join(filter(None, [f"differences: {listed.value}", outcome.rationale])),
        raw=json.dumps({"differences": raw_text(listing), "score": raw_text(scoring)}, ensure_ascii=False),
        seconds=sum(times) if times else None,
        served_by=all_served([listing.served_by, scoring.served_by]),
    )
