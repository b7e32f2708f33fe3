"""Which questions of a checklist their words alone answer: they measure nothing of a picture.

A model that sees no picture is asked each question in four ways: told that the picture follows the instruction, and
told that it does nothing of it; and whether the answer is yes, and whether it is no. Only where all four give the
expected answer with confidence, the words alone give it. Without these contrasts it would be no test, for nearly every
expected answer is yes: a model that says yes to everything contradicts itself when it is asked for the opposite, and a
question about the picture ("is there a cat?" after "show a cat") has another answer where the picture ignores the
instruction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from data_build.answers import Answer
from data_build.mdmr.asking import PROBES, ask_blindly
from data_build.mdmr.replies import DraftQuestion
from gnomon.hashing import stable_hash
from gnomon.records import Text
from rm.protocols.yes_no import NO, YES, YesNoJudge
from rm.vlm.conversation import VLM


class BlindAnswer(Answer):
    """How likely the expected answer is to a model that sees no picture, in each of :data:`PROBES`, in 0..1.

    `about` is a hash of the question; `expected` is empty exactly where `status` is not "ok".
    """

    expected: list[float] = Field(default_factory=list)

    def is_blind(self, confidence: float) -> bool:
        """Say whether the words alone give the expected answer."""
        return bool(self.expected) and min(self.expected) >= confidence


@dataclass(frozen=True)
class BlindQuestion:
    """A question to be asked without a picture, and the instruction that it belongs to."""

    instruction: Text
    question: DraftQuestion

    @property
    def key(self) -> str:
        """Hash of all that it is asked from."""
        question = self.question
        return stable_hash([self.instruction.get("en"), question.text.get("en"), question.expected])


def ask_all_blindly(vlm: VLM, questions: Sequence[BlindQuestion]) -> list[BlindAnswer]:
    """Return one answer per question, in order, by the probabilities of yes and no.

    A question is asked in English. It has the status of the first of its four ways that failed.
    """
    conversations = [
        ask_blindly(item.instruction.get("en"), item.question.text.get("en"), frame, side)
        for item in questions
        for frame, side in PROBES
    ]
    judge = YesNoJudge(vlm)
    outcomes = [judge.read(scores) for scores in vlm.choose(conversations, [*YES["en"], *NO["en"]])]
    answers = []
    for place, item in enumerate(questions):
        own = outcomes[place * len(PROBES) : (place + 1) * len(PROBES)]
        failure = next((outcome for outcome in own if outcome.value is None), None)
        if failure is not None:
            answers.append(BlindAnswer(about=item.key, asked=item.key, status=failure.status, reason=failure.rationale))
            continue
        yes = dict(zip(PROBES, (outcome.value or 0.0 for outcome in own), strict=True))
        answers.append(BlindAnswer(about=item.key, asked=item.key, expected=_expected(yes, item.question.expected)))
    return answers


def _expected(yes: Mapping[tuple[str, str], float], expected: bool) -> list[float]:
    """Return the probability of the expected answer in each way from that of "yes": of the opposite, it is "no"."""
    return [value if (side == "plain") == expected else 1.0 - value for (_, side), value in yes.items()]
