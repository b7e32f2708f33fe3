"""A judge that says which of two pictures is better, and is asked in both orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from gnomon.hashing import stable_hash
from gnomon.records import Label, Reference, Status, Text
from rm.ahead import ask_ahead
from rm.judge import all_served
from rm.pictures import NoPictures, Pictures, load_pictures
from rm.protocols.asking import READING_VERSION, raw_text, read_reply
from rm.protocols.parsing import Parsed, Preference, read_pairwise
from rm.protocols.templates import compose, load_form, load_rubric, metrics, quoted, text_hash
from rm.vlm.conversation import VLM, Conversation, GenerationParameters, Reply

_LABELS: dict[Preference, Label] = {
    "A>B": "i",
    "B>A": "j",
    "A=B": "tie",
    "A=B=Good": "tie_good",
    "A=B=Bad": "tie_bad",
}


@dataclass(frozen=True)
class PairwiseRequest:
    """One question to a pairwise judge: which of two pictures is better in this metric?

    Attributes:
        instruction: what was asked for.
        root: the folder below which the references are.
        references: what the instruction refers to.
        first: file of the picture that a label calls i.
        second: file of the picture that a label calls j.
        metric: one of the judge's metrics.
    """

    instruction: Text
    root: Path
    references: tuple[Reference, ...]
    first: Path
    second: Path
    metric: str


@dataclass(frozen=True)
class PairwiseOutcome:
    """What a pairwise judge says.

    Attributes:
        label: which one is better, or what kind of tie it is; None exactly where `status` is not "ok".
        status: what went wrong in the first of the two orders that failed.
        inconsistent: the two orders disagree, and `label` is "tie" for that reason.
        raw: the replies, with the first picture as A and with the second as A; empty where nothing came.
        rationale: the reason given in the first order, or what went wrong.
        served_by: what a server calls the models that answered.
    """

    label: Label | None
    status: Status
    inconsistent: bool = False
    raw: tuple[str, str] = ("", "")
    rationale: str | None = None
    served_by: str | None = None


@dataclass(frozen=True)
class PairwiseQuestion:
    """The question of one metric about two pictures, called A and B.

    Attributes:
        metric: one of :func:`rm.protocols.templates.metrics`.
        language: of the texts, "en" or "zh".
    """

    metric: str
    language: str = "en"

    @property
    def prompt_hash(self) -> str:
        """A hash of all words of the question but the instruction."""
        return text_hash(load_form("pairwise", self.language), load_rubric(self.metric, self.language))

    def build(self, instruction: str, pictures: Pictures) -> Conversation:
        """Return the question about two pictures."""
        return compose(
            load_form("pairwise", self.language),
            language=self.language,
            references=pictures.references,
            candidates=pictures.candidates,
            values={**load_rubric(self.metric, self.language), "instruction": quoted(instruction)},
        )

    def read(self, reply: Reply) -> Parsed[Preference]:
        """Return the preference that a reply gives."""
        return read_reply(reply, read_pairwise)


class PairwiseJudge:
    """Asks which picture is better, once with each of them as A.

    Equal answers are the preference; one that changes with the order is a tie that is marked as inconsistent. A failure
    in one order is a failure: half an answer would hold the order's bias.

    Args:
        vlm: whom to ask.
        metrics: what to ask about; all metrics that there are rubrics of by default.
        parameters: how replies are drawn.
        language: of the texts and the instruction.
        name: for people.
        batch_size: pairs whose pictures are in memory together; not used where several questions are in flight.
    """

    def __init__(
        self,
        vlm: VLM,
        *,
        metrics: Sequence[str] = metrics(),
        parameters: GenerationParameters | None = None,
        language: str = "en",
        name: str | None = None,
        batch_size: int = 32,
    ) -> None:
        self.vlm, self.language, self.metrics = vlm, language, tuple(metrics)
        self.parameters = parameters or GenerationParameters()
        self.name, self.batch_size = name or f"pairwise ({vlm.name})", batch_size
        self.questions = {metric: PairwiseQuestion(metric, language) for metric in self.metrics}
        self._hashes = {metric: question.prompt_hash for metric, question in self.questions.items()}

    @property
    def max_concurrency(self) -> int:
        """How many questions the model can work on at once."""
        return self.vlm.max_concurrency

    @cached_property
    def fingerprint(self) -> str:
        """Hash of model, questions and sampling."""
        asked = [self._hashes, self.language, asdict(self.parameters)]
        return stable_hash(["pairwise", READING_VERSION, self.vlm.fingerprint, asked])

    def compare(self, requests: Sequence[PairwiseRequest]) -> list[PairwiseOutcome]:
        """Return one outcome per request, in order; never raises for one bad item."""
        if self.max_concurrency > 1:
            return list(ask_ahead(self._one, requests, max_concurrency=self.max_concurrency, questions=2))
        batches = [requests[start : start + self.batch_size] for start in range(0, len(requests), self.batch_size)]
        return [outcome for batch in batches for outcome in self._batch(batch)]

    def _one(self, request: PairwiseRequest) -> PairwiseOutcome:
        return self._batch([request])[0]

    def _batch(self, requests: Sequence[PairwiseRequest]) -> list[PairwiseOutcome]:
        prepared = [self._prepare(request) for request in requests]
        conversations = [turn for item in prepared if isinstance(item, tuple) for turn in item]
        replies = iter(self.vlm.generate(conversations, self.parameters) if conversations else [])
        return [
            combine_orders(self.questions[request.metric], next(replies), next(replies))
            if isinstance(item, tuple)
            else item
            for request, item in zip(requests, prepared, strict=True)
        ]

    def _prepare(self, request: PairwiseRequest) -> tuple[Conversation, Conversation] | PairwiseOutcome:
        if request.metric not in self.metrics:
            known = f"the judge's metrics are {', '.join(self.metrics)}"
            return PairwiseOutcome(None, "not_applicable", rationale=known)
        found = load_pictures(request.root, request.references, [request.first, request.second])
        if isinstance(found, NoPictures):
            return PairwiseOutcome(None, found.status, rationale=found.reason)
        question, instruction = self.questions[request.metric], request.instruction.get(self.language)
        swapped = replace(found, candidates=found.candidates[::-1])
        return question.build(instruction, found), question.build(instruction, swapped)


def combine_orders(question: PairwiseQuestion, forward: Reply, backward: Reply) -> PairwiseOutcome:
    """Return what the replies to both orders say together.

    Args:
        question: that was asked.
        forward: with the first picture as A.
        backward: with the second picture as A.
    """
    readings = question.read(forward), question.read(backward)
    raw = (raw_text(forward) or "", raw_text(backward) or "")
    served = all_served([forward.served_by, backward.served_by])
    for reading in readings:
        if reading.value is None:
            return PairwiseOutcome(None, reading.status, raw=raw, rationale=reading.problem, served_by=served)
    first, second = (_LABELS[reading.value] for reading in readings if reading.value is not None)
    label, inconsistent = agree(first, _EXCHANGED.get(second, second))
    return PairwiseOutcome(label, "ok", inconsistent, raw, readings[0].rationale, served)


def agree(forward: Label, backward: Label) -> tuple[Label, bool]:
    """Return the label of two that are about the same order, and whether they contradict each other.

    A tie without a kind does not contradict a good or a bad one; together they are a tie without a kind.
    """
    if forward == backward:
        return forward, False
    return "tie", "tie" not in (forward, backward) or "i" in (forward, backward) or "j" in (forward, backward)


def swap_outcome(outcome: PairwiseOutcome) -> PairwiseOutcome:
    """Return what an outcome becomes when the two pictures exchange their places."""
    label = None if outcome.label is None else _EXCHANGED.get(outcome.label, outcome.label)
    return replace(outcome, label=label, raw=outcome.raw[::-1])


_EXCHANGED: dict[Label, Label] = {"i": "j", "j": "i"}
