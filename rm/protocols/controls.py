"""Judges of checklists that do not look: what they reach is what a judge's scores are to be held against.

Where nearly all expected answers are yes, a judge that always says yes reaches nearly everything. What the texts alone
give away, `look: false` of the other judges of questions shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.records import Verdict
from rm.judge import JudgeRequest
from rm.protocols.asking import Asked, Outcome, Shell
from rm.protocols.checklist import question_problem


class ConstantJudge:
    """Gives the same answer to every question of every case, and opens no picture.

    Args:
        answer: "yes" or "no".
        name: for people; "always-yes" or "always-no" by default.

    Raises:
        UserError: for another answer.
    """

    asks_questions = True
    looks = False
    metrics: tuple[str, ...] = ()

    def __init__(self, answer: Literal["yes", "no"] = "yes", *, name: str | None = None) -> None:
        if answer not in ("yes", "no"):
            raise UserError(f"expected the answer 'yes' or 'no', got {answer!r}")
        self.answer, self.name = answer, name or f"always-{answer}"

    @property
    def fingerprint(self) -> str:
        """Hash of the answer."""
        return stable_hash(["constant", self.answer])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order."""
        return Shell(
            self.fingerprint,
            problem=question_problem,
            prompt_hash=lambda _: self.fingerprint,
            answer=self._answer,
            question_id=lambda request: request.metric,
            looks=False,
        ).judge(requests)

    def _answer(self, asked: Sequence[Asked]) -> list[Outcome]:
        return [Outcome(float(self.answer == "yes")) for _ in asked]
