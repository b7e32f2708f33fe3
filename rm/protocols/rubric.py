"""Judges that give a score by a rubric: in words, with a reason, or as the expected value over the scale's digits."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Literal

from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.records import Verdict
from rm.judge import JudgeRequest
from rm.pictures import Pictures
from rm.protocols.asking import (
    READING_VERSION,
    Asked,
    Outcome,
    Shell,
    mean_of_samples,
    read_reply,
    single_outcome,
)
from rm.protocols.parsing import Parsed, Scale, read_rubric, read_score_list
from rm.protocols.templates import RUBRICS, compose, load_aspects, load_form, load_rubric, metrics, quoted, text_hash
from rm.vlm.conversation import VLM, ChoiceScores, Conversation, GenerationParameters, Reply

RubricForm = Literal["ours", "viescore-style"]
FORMS: dict[RubricForm, str] = {"ours": "rubric", "viescore-style": "score_list"}
"""Forms of question for the same metrics, by the name that a user chooses them by."""


@dataclass(frozen=True)
class Rubric:
    """The question of one metric.

    Attributes:
        metric: one of :func:`rm.protocols.templates.metrics`.
        scale: of the score.
        language: of the texts, "en" or "zh".
        form: "rubric" asks for a JSON object with a reason, "score_list" for two scores of which the lower one counts,
            "expected_score" for a number alone.
        example: a reply of the right form, where the form wants one.
        package: where the texts are.
    """

    metric: str
    scale: Scale
    language: str = "en"
    form: str = "rubric"
    example: str = ""
    package: str = RUBRICS

    @cached_property
    def _values(self) -> dict[str, str]:
        middle = (self.scale.minimum + self.scale.maximum) / 2
        numbers = {"minimum": self.scale.minimum, "middle_score": middle, "maximum": self.scale.maximum}
        if self.form == "score_list":
            texts = load_aspects(self.metric, self.language)
        else:
            texts = load_rubric(self.metric, self.language, self.package)
        return {**texts, **{name: f"{number:g}" for name, number in numbers.items()}, "example": self.example}

    @property
    def prompt_hash(self) -> str:
        """A hash of all words of the question but the instruction."""
        return text_hash(load_form(self.form, self.language, self.package), self._values)

    def build(self, instruction: str, pictures: Pictures) -> Conversation:
        """Return the question about one picture."""
        return compose(
            load_form(self.form, self.language, self.package),
            language=self.language,
            references=pictures.references,
            candidates=pictures.candidates,
            values={**self._values, "instruction": quoted(instruction)},
        )

    def read(self, reply: Reply) -> Parsed[float]:
        """Return the score that a reply gives."""
        scale, metric = self.scale, self.metric
        if self.form == "score_list":
            scores = read_reply(
                reply, lambda text, finish_reason: read_score_list(text, scale, count=2, finish_reason=finish_reason)
            )
            lowest = None if scores.value is None else min(scores.value)
            return Parsed(lowest, scores.status, scores.level, scores.rationale, scores.problem)
        return read_reply(
            reply, lambda text, finish_reason: read_rubric(text, scale, keys=(metric,), finish_reason=finish_reason)
        )


class RubricJudge:
    """Asks for a score and its reason.

    Several samples are drawn with the seeds seed, seed + 1, ... and their mean is the value. A sample that failed is
    not in the mean and is counted in the rationale; where all failed, the status is the commonest of theirs.

    Args:
        vlm: whom to ask.
        metrics: what to ask about; all metrics that there are rubrics of by default.
        scale: lowest and highest score.
        package: where our rubrics and their form are; those about edits by default.
        samples: how many replies are drawn for each request; more than one needs a temperature.
        parameters: how they are drawn; `seed` is that of the first.
        language: of the rubrics and the instruction.
        rubrics: "ours" asks by our rubrics; "viescore-style" asks two short questions per metric, whose lower score
            counts, as VIEScore does.
        name: for people; other rubrics than ours are added to it.
        batch_size: requests whose pictures are in memory together.
    """

    def __init__(
        self,
        vlm: VLM,
        *,
        metrics: Sequence[str] = metrics(),
        scale: tuple[float, float] = (0, 10),
        package: str = RUBRICS,
        samples: int = 1,
        parameters: GenerationParameters | None = None,
        language: str = "en",
        rubrics: RubricForm = "ours",
        name: str | None = None,
        batch_size: int = 64,
    ) -> None:
        self.vlm, self.samples, self.language = vlm, samples, language
        self.parameters = parameters or GenerationParameters()
        check_samples(samples, self.parameters)
        self.metrics, self.scale, self.package, self.batch_size = tuple(metrics), scale, package, batch_size
        self._plain_name = name or f"rubric ({vlm.name})"
        self.name = self._plain_name if rubrics == "ours" else f"{self._plain_name}, {rubrics}"
        self.rubrics = {
            metric: Rubric(metric, Scale(*scale), language, FORMS[rubrics], package=package) for metric in self.metrics
        }
        self._hashes = {metric: rubric.prompt_hash for metric, rubric in self.rubrics.items()}

    @property
    def max_concurrency(self) -> int:
        """How many questions the model can work on at once."""
        return self.vlm.max_concurrency

    @cached_property
    def fingerprint(self) -> str:
        """Hash of model, questions and sampling."""
        asked = [self._hashes, self.language, asdict(self.parameters), self.samples]
        return stable_hash(["rubric", READING_VERSION, self.vlm.fingerprint, asked])

    def with_rubrics(self, rubrics: RubricForm) -> RubricJudge:
        """Return the same judge, on the same model, asked in another form."""
        return RubricJudge(
            self.vlm,
            metrics=self.metrics,
            scale=self.scale,
            package=self.package,
            samples=self.samples,
            parameters=self.parameters,
            language=self.language,
            rubrics=rubrics,
            name=self._plain_name,
            batch_size=self.batch_size,
        )

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order."""
        return _shell(self, self._hashes, self._answer).judge(requests)

    def _answer(self, asked: Sequence[Asked]) -> list[Outcome]:
        rubrics = [self.rubrics[item.request.metric] for item in asked]
        conversations = [
            rubric.build(item.request.case.instruction.get(self.language), item.pictures)
            for rubric, item in zip(rubrics, asked, strict=True)
        ]
        drawn = [self.vlm.generate(conversations, seeded(self.parameters, number)) for number in range(self.samples)]
        return [combine(rubric, replies) for rubric, *replies in zip(rubrics, *drawn, strict=True)]


def check_samples(samples: int, parameters: GenerationParameters) -> None:
    """Refuse several samples that could not differ.

    Raises:
        UserError: for fewer than one sample, and for several at temperature 0.
    """
    if samples < 1 or (samples > 1 and parameters.temperature == 0):
        raise UserError(
            f"expected samples=1, or more at a temperature above 0, got samples={samples} at "
            f"{parameters.temperature:g}: at 0 all replies are the same"
        )


def seeded(parameters: GenerationParameters, number: int) -> GenerationParameters:
    """Return how the sample `number` (from 0) is drawn: as the first, with a later seed."""
    return replace(parameters, seed=None if parameters.seed is None else parameters.seed + number)


def _shell(
    judge: RubricJudge | ExpectedScoreJudge,
    hashes: Mapping[str, str],
    answer: Callable[[Sequence[Asked]], list[Outcome]],
) -> Shell:
    """Return what both judges put around their question; `hashes` are those of the prompts by metric."""
    return Shell(
        judge.fingerprint,
        problem=lambda request: unknown_metric(request, list(hashes)),
        prompt_hash=lambda request: hashes[request.metric],
        answer=answer,
        batch_size=judge.batch_size,
        max_concurrency=judge.max_concurrency,
    )


def unknown_metric(request: JudgeRequest, known: Sequence[str]) -> str | None:
    """Say that a request is about a metric that the judge does not have."""
    return None if request.metric in known else f"the judge's metrics are {', '.join(known)}"


def combine(rubric: Rubric, replies: Sequence[Reply]) -> Outcome:
    """Return the mean of the scores that several replies to one question give."""
    return mean_of_samples([single_outcome(reply, rubric.read(reply)) for reply in replies])


class ExpectedScoreJudge:
    """Reads the expected score off the probabilities of the scale's numbers as the reply, without sampling.

    The value is sum(p_s * s) / sum(p_s) over the whole numbers s of the scale. The denominator, the mass, is what the
    model gives to answers of the right form; it is in every rationale, and a small one says that the value means
    little.

    A scale on which one number begins with another ("1" and "10") is asked with a full stop after the number: whether
    "1" alone counts replies that go on to "10" depends on the tokenizer, "1." never does. Such choices are several
    tokens long, which a server that shows only the first token's probabilities cannot score; it says so by its status.

    Args:
        vlm: whom to ask.
        metrics: what to ask about; all metrics that there are rubrics of by default.
        scale: lowest and highest score, whole numbers.
        language: of the rubrics and the instruction.
        minimum_mass: a smaller mass is a `parse_error`.
        name: for people.
        batch_size: requests whose pictures are in memory together.
    """

    def __init__(
        self,
        vlm: VLM,
        *,
        metrics: Sequence[str] = metrics(),
        scale: tuple[int, int] = (1, 5),
        language: str = "en",
        minimum_mass: float = 0.0,
        name: str | None = None,
        batch_size: int = 64,
    ) -> None:
        low, high = scale
        if low != int(low) or high != int(high) or low < 0:
            raise UserError(f"expected a scale of whole numbers from 0 on, got {low:g} to {high:g}; mend scale")
        self.vlm, self.language, self.minimum_mass = vlm, language, minimum_mass
        self.choices = score_choices(int(low), int(high))
        self.name, self.metrics, self.batch_size = name or f"expected score ({vlm.name})", tuple(metrics), batch_size
        example = list(self.choices)[len(self.choices) // 2]
        self.rubrics = {
            metric: Rubric(metric, Scale(low, high), language, "expected_score", example) for metric in self.metrics
        }
        self._hashes = {metric: rubric.prompt_hash for metric, rubric in self.rubrics.items()}

    @property
    def max_concurrency(self) -> int:
        """How many questions the model can work on at once."""
        return self.vlm.max_concurrency

    @cached_property
    def fingerprint(self) -> str:
        """Hash of model, questions and choices."""
        asked = [self._hashes, self.language, list(self.choices), self.minimum_mass]
        return stable_hash(["expected score", READING_VERSION, self.vlm.fingerprint, asked])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order."""
        return _shell(self, self._hashes, self._answer).judge(requests)

    def _answer(self, asked: Sequence[Asked]) -> list[Outcome]:
        conversations = [
            self.rubrics[item.request.metric].build(item.request.case.instruction.get(self.language), item.pictures)
            for item in asked
        ]
        return [
            replace(self.read(scores), served_by=scores.served_by)
            for scores in self.vlm.choose(conversations, list(self.choices))
        ]

    def read(self, scores: ChoiceScores) -> Outcome:
        """Return the expected score."""
        if scores.logprobs is None:
            return Outcome(None, scores.status, scores.error)
        return expected_value({self.choices[text]: scores.logprobs[text] for text in self.choices}, self.minimum_mass)


def score_choices(low: int, high: int) -> dict[str, float]:
    """Return the replies that are scored, with the number that each stands for."""
    texts = {str(number): float(number) for number in range(low, high + 1)}
    clash = any(one != other and other.startswith(one) for one in texts for other in texts)
    return {f"{text}." if clash else text: number for text, number in texts.items()}


def expected_value(logprobs: dict[float, float], minimum_mass: float = 0.0) -> Outcome:
    """Return sum(p v) / sum(p) over values v with the natural logarithms of p, and the mass sum(p) in words."""
    highest = max(logprobs.values())
    if not math.isfinite(highest):
        return Outcome(None, "parse_error", "no choice has any probability")
    weights = {value: math.exp(logprob - highest) for value, logprob in logprobs.items()}
    total = math.fsum(weights.values())
    mass = math.exp(highest) * total
    words = f"the choices hold {mass:.3g} of the probability"
    if mass < minimum_mass:
        return Outcome(None, "parse_error", f"{words}, expected at least {minimum_mass:g}")
    value = math.fsum(weight * value for value, weight in weights.items()) / total
    return Outcome(value, "ok", words, json.dumps({f"{value:g}": logprob for value, logprob in logprobs.items()}))
