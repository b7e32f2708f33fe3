"""A judge that answers the yes/no questions of a checklist by how likely "yes" is against "no"."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.records import Verdict
from rm.judge import JudgeRequest, check_language
from rm.protocols.asking import READING_VERSION, Asked, Outcome
from rm.protocols.checklist import ChecklistForm, build_all, checklist_shell
from rm.vlm.conversation import VLM, ChoiceScores

YES = {"en": ("Yes", "yes", " Yes", " yes", "YES"), "zh": ("是",)}
NO = {"en": ("No", "no", " No", " no", "NO"), "zh": ("否",)}


class YesNoJudge:
    """The value of a case's question is P(yes) / (P(yes) + P(no)), each summed over its spellings: one forward pass.

    Args:
        vlm: whom to ask.
        yes: spellings of yes, none of them the beginning of another; those of the language by default.
        no: spellings of no.
        language: of the questions and the instruction.
        look: False shows no picture, see :class:`rm.protocols.checklist.ChecklistJudge`.
        minimum_mass: a smaller P(yes) + P(no) is a `parse_error`: the model would answer something else.
        name: for people.
        batch_size: requests whose pictures are in memory together.
    """

    asks_questions = True
    metrics: tuple[str, ...] = ()

    def __init__(
        self,
        vlm: VLM,
        *,
        yes: Sequence[str] | None = None,
        no: Sequence[str] | None = None,
        language: str = "en",
        look: bool = True,
        minimum_mass: float = 0.0,
        name: str | None = None,
        batch_size: int = 64,
    ) -> None:
        self.vlm, self.form = vlm, ChecklistForm("yes_no", check_language(language), look)
        self.yes, self.no, self.minimum_mass = tuple(yes or YES[language]), tuple(no or NO[language]), minimum_mass
        check_spellings([*self.yes, *self.no])
        self.name, self.batch_size = name or f"yes or no{self.form.note} ({vlm.name})", batch_size

    @property
    def looks(self) -> bool:
        """Whether the pictures are shown."""
        return self.form.look

    @property
    def texts(self) -> dict[str, str]:
        """The words that questions are put in, with places for instruction and question."""
        return self.form.texts

    @property
    def max_concurrency(self) -> int:
        """How many questions the model can work on at once."""
        return self.vlm.max_concurrency

    @cached_property
    def fingerprint(self) -> str:
        """Hash of model, form and spellings; the question's own words are in a verdict's prompt hash."""
        asked = [self.form.texts, self.form.language, self.yes, self.no, self.minimum_mass]
        return stable_hash(["yes or no", READING_VERSION, self.vlm.fingerprint, asked])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order."""
        return checklist_shell(self, self._answer).judge(requests)

    def _answer(self, asked: Sequence[Asked]) -> list[Outcome]:
        choices = [*self.yes, *self.no]
        return [
            replace(self.read(scores), served_by=scores.served_by)
            for scores in self.vlm.choose(build_all(asked, self.form), choices)
        ]

    def read(self, scores: ChoiceScores) -> Outcome:
        """Return the probability of yes."""
        if scores.logprobs is None:
            return Outcome(None, scores.status, scores.error)
        yes, no = (_total([scores.logprobs[text] for text in texts]) for texts in (self.yes, self.no))
        mass = math.exp(yes) + math.exp(no)
        words = f"yes and no hold {mass:.3g} of the probability"
        if not math.isfinite(max(yes, no)) or mass < self.minimum_mass:
            return Outcome(None, "parse_error", f"{words}, expected at least {self.minimum_mass:g}")
        # 1 / (1 + exp(no - yes)), which stays exact where both probabilities are too small for a float.
        value = 1.0 / (1.0 + math.exp(no - yes)) if no <= yes else 1.0 - 1.0 / (1.0 + math.exp(yes - no))
        return Outcome(value, "ok", words, json.dumps(dict(scores.logprobs), ensure_ascii=False))


def _total(logprobs: Sequence[float]) -> float:
    """Return log(sum(exp(x)))."""
    highest = max(logprobs)
    if not math.isfinite(highest):
        return highest
    return highest + math.log(math.fsum(math.exp(logprob - highest) for logprob in logprobs))


def check_spellings(spellings: Sequence[str]) -> None:
    """Make sure that no spelling counts another one's probability.

    Raises:
        UserError: names two of them of which one begins the other.
    """
    for position, one in enumerate(spellings):
        for other in spellings[position + 1 :]:
            if one.startswith(other) or other.startswith(one):
                raise UserError(
                    f"expected spellings of yes and no of which none begins another, got {one!r} and {other!r}; "
                    "leave one of them out"
                )
