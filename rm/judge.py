"""What a judge is: requests in, as many verdicts out, and a failure is a status of one verdict."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.records import Candidate, Case, Status, Verdict
from rm.pictures import NoPictures, load_pictures

if TYPE_CHECKING:
    from PIL import Image

    from rm.reward_model import RewardModel


@dataclass(frozen=True)
class JudgeRequest:
    """One question to a judge: how good is this candidate in this metric?

    Attributes:
        case: the task.
        root: the folder below which the case's references are.
        candidate: the generated picture's record.
        image: the picture's file; None where the generator made none.
        metric: one of the judge's metrics.
    """

    case: Case
    root: Path
    candidate: Candidate
    image: Path | None
    metric: str


class Judge(Protocol):
    """Something that answers requests.

    Attributes:
        name: for people.
        metrics: what it can be asked.
        fingerprint: equal for judges that answer equally; it goes into every verdict.

    A judge that may be asked by several threads at once also has `max_concurrency`, the number of questions that its
    model can work on at once; without it, that is 1. A judge that is asked the questions of each case in place of
    metrics of its own says so by `asks_questions`; one that opens no picture, and is a yardstick for others, says so by
    `looks`, which is False there. One that puts every question in the same words has them in `texts`.
    """

    name: str
    metrics: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the answers depend on."""

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order; never raises for one bad item."""


def asks_questions(judge: Judge) -> bool:
    """Tell whether a judge is asked the questions of each case, by their ids, in place of metrics of its own."""
    return bool(getattr(judge, "asks_questions", False))


def looks(judge: Judge) -> bool:
    """Tell whether a judge opens the pictures that it answers about; one that does not is a control."""
    return bool(getattr(judge, "looks", True))


def texts_of(judge: Judge) -> dict[str, str]:
    """Return the words that a judge puts every question in, with places for what differs; empty where it has none."""
    return dict(getattr(judge, "texts", {}))


def asked_about(judge: Judge, case: Case) -> tuple[str, ...]:
    """Return what a judge is asked about a candidate of a case: ids of the case's questions, or its own metrics."""
    return tuple(question.id for question in case.questions) if asks_questions(judge) else judge.metrics


@dataclass(frozen=True)
class _Answer:
    """What came of one candidate: its scores, or why there are none."""

    scores: dict[str, float]
    status: Status = "ok"
    reason: str | None = None
    image_hashes: tuple[str, ...] = ()
    seconds: float | None = None


@dataclass(frozen=True)
class _Loaded:
    """Pictures of one candidate, ready to be scored."""

    instruction: str
    references: list[Image.Image]
    candidate: Image.Image
    image_hashes: tuple[str, ...]


_Key = tuple[str, str, str, int, str | None]


class RewardModelJudge:
    """A reward model as a judge: its metrics are its dimensions, its values raw scores.

    Several metrics of one candidate cost one forward pass.

    Args:
        model: the reward model, or the folder of one.
        name: for people; the folder's name by default.
        base: where the base model is now, when it has moved.
        batch_size: candidates per forward pass.
        language: of the instructions, "en" or "zh".
        device: where to run, such as "cpu" or "cuda" (this rank's device); the model is moved there by the first
            request.

    Raises:
        UserError: when there is no such language or device, or no reward model in the folder.
    """

    def __init__(
        self,
        model: RewardModel | str | Path,
        *,
        name: str | None = None,
        base: str | Path | None = None,
        batch_size: int = 16,
        language: str = "en",
        device: str = "cpu",
    ) -> None:
        # Whoever only needs the protocol should not pay for transformers.
        from rm.devices import check_device
        from rm.reward_model import RewardModel

        self.language, self._device = check_language(language), check_device(device)
        loaded = model if isinstance(model, RewardModel) else RewardModel.from_pretrained(model, base=base)
        self.model = loaded.eval()
        self.name = name or ("reward-model" if isinstance(model, RewardModel) else Path(model).resolve().name)
        self.metrics = self.model.dimensions
        self.batch_size = batch_size

    @cached_property
    def fingerprint(self) -> str:
        """Hash of weights and how they are applied, template, preprocessing and language."""
        return model_fingerprint(self.model, self.language)

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order.

        Statuses: the candidate's own where there is no picture, `unreadable_image` for a file (or a reference) that
        cannot be read or has an impossible shape, `out_of_range` for a score that is not finite, `not_applicable` for
        a metric that is no dimension of the model.
        """
        from rm.devices import own_device

        self.model.to(own_device(self._device))
        unique = {_key(request): request for request in requests if request.metric in self.metrics}
        answers = self._answers(unique)
        unknown = _Answer({}, "not_applicable", f"the model's dimensions are {', '.join(self.metrics)}")
        return [
            self._verdict(request, answers[_key(request)] if request.metric in self.metrics else unknown)
            for request in requests
        ]

    def _answers(self, requests: dict[_Key, JudgeRequest]) -> dict[_Key, _Answer]:
        answers: dict[_Key, _Answer] = {}
        waiting: dict[_Key, _Loaded] = {}
        for key, request in requests.items():
            loaded = self._load(request)
            if isinstance(loaded, _Answer):
                answers[key] = loaded
            else:
                waiting[key] = loaded
            # Pictures are let go batch by batch: a benchmark's do not fit into memory together.
            if len(waiting) == self.batch_size:
                answers.update(self._score(waiting))
                waiting = {}
        return {**answers, **self._score(waiting)}

    def _load(self, request: JudgeRequest) -> _Loaded | _Answer:
        found = load_pictures(request.root, request.case.references, [request.image], status=request.candidate.status)
        if isinstance(found, NoPictures):
            return _Answer({}, found.status, found.reason)
        instruction = request.case.instruction.get(self.language)
        return _Loaded(instruction, list(found.references), found.candidates[0], found.hashes)

    def _score(self, waiting: dict[_Key, _Loaded]) -> dict[_Key, _Answer]:
        if not waiting:
            return {}
        start = time.perf_counter()
        items = list(waiting.values())
        try:
            output = self.model.score_batch(
                instructions=[item.instruction for item in items],
                references=[item.references for item in items],
                candidates=[item.candidate for item in items],
                batch_size=self.batch_size,
            )
        except ValueError as error:
            if len(waiting) > 1:  # one of them has an impossible shape; the others are not to suffer for it
                return {key: answer for key, item in waiting.items() for answer in self._score({key: item}).values()}
            return {
                key: _Answer({}, "unreadable_image", str(error), item.image_hashes) for key, item in waiting.items()
            }
        seconds = (time.perf_counter() - start) / len(items)
        return {
            key: _Answer(dict(zip(self.metrics, row, strict=True)), "ok", None, item.image_hashes, seconds)
            for (key, item), row in zip(waiting.items(), output.values.tolist(), strict=True)
        }

    def _verdict(self, request: JudgeRequest, answer: _Answer) -> Verdict:
        value = answer.scores.get(request.metric)
        status, reason = answer.status, answer.reason
        if value is not None and not math.isfinite(value):
            value, status, reason = None, "out_of_range", "the score is not a finite number"
        return Verdict(
            case_id=request.case.id,
            generator=request.candidate.generator,
            seed=request.candidate.seed,
            metric=request.metric,
            value=value,
            status=status,
            rationale=reason,
            judge=self.fingerprint,
            prompt_hash=self.model.encoder.template_hash,
            image_hashes=list(answer.image_hashes),
            seconds=answer.seconds,
        )


def check_language(language: str) -> str:
    """Return the language of instructions that a setting names.

    Raises:
        UserError: for another one than "en" and "zh".
    """
    if language not in ("en", "zh"):
        raise UserError(f"expected language 'en' or 'zh', got {language!r}")
    return language


def all_served(names: Iterable[str | None]) -> str | None:
    """Return which models answered several questions about one thing: one name as a rule, None where none is known."""
    return ", ".join(sorted({name for name in names if name})) or None


def model_fingerprint(model: RewardModel, language: str) -> str:
    """Hash weights and how they are applied, dimensions, template, preprocessing and language."""
    from rm.reward_model import weights_hash

    encoder = model.encoder
    weights = [weights_hash(model), model.dtype_name, None if model.lora is None else model.lora.alpha]
    prompts = [encoder.template_hash, encoder.preprocessing_hash, language]
    return stable_hash([weights, model.dimensions, prompts])


def _key(request: JudgeRequest) -> _Key:
    candidate = request.candidate
    image = None if request.image is None else str(request.image)
    return str(request.root), request.case.id, candidate.generator, candidate.seed, image
