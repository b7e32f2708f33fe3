"""The answers to a case's checklist as a reward: how many are right, by dimension."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import torch
from PIL.Image import Image

from bench.questions import right_answers
from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.records import Case, Verdict
from rl.rewards.base import RewardOutput, checked_weights
from rl.rewards.judged import check_order
from rm.judge import Judge, asked_about, asks_questions
from rm.judge_requests import write_requests

UNANSWERED = "unanswered"
"""The part of the breakdown that counts a picture's questions without an answer."""


class ChecklistReward:
    """Asks all questions of a picture's case; the total is a weighted mean of the dimensions' shares of right answers.

    The mean is over the dimensions that the case has questions in, so a case without questions on minimality is not
    rewarded as if it were perfect, nor as if it failed. A question without an answer (refused, unparsable) is left out
    of its dimension and counted. Where a dimension with a weight has no answer left, the row has failed: a mean of the
    others would be a number on another scale. With its weights this is the overall score of MDMR-Bench.
    """

    def __init__(self, judge: Judge, *, weights: dict[str, float]) -> None:
        """Choose what counts how much.

        Args:
            judge: one that answers the questions of each case, such as `rm.protocols.checklist.ChecklistJudge`.
            weights: of the dimensions of questions, none below 0; 0 asks only to log. Every dimension that a case asks
                about needs one, so that a misspelt name is not a dimension that nobody has.

        Raises:
            UserError: for another kind of judge, and for weights that are none.
        """
        self.judge = judge
        self.name = f"the checklist judge {judge.name}"
        if not asks_questions(judge):
            raise UserError(
                f"expected a judge that answers the questions of each case, {self.name} has metrics of its own; use "
                "rl.rewards.JudgeReward with it"
            )
        # Not `weights`: GDPO would fail every case that has no question in one of them.
        self.dimension_weights = checked_weights(weights, default={}, owner=self.name)
        below = [name for name, weight in self.dimension_weights.items() if weight < 0]
        if below or UNANSWERED in self.dimension_weights:
            raise UserError(
                f"expected weights of at least 0 by dimension for {self.name}, got {self.dimension_weights}; "
                f"{UNANSWERED!r} is the name of a count and cannot be a dimension"
            )

    @property
    def fingerprint(self) -> str:
        """Hash of the judge's own fingerprint and the weights."""
        return stable_hash(["checklist", self.judge.fingerprint, self.dimension_weights])

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> RewardOutput:
        """Score `images`; all questions about all of them go to the judge in one call, side by side for each picture.

        Raises:
            UserError: for a case with questions in a dimension without a weight, and when the verdicts are not one per
                question, in their order.
        """
        for case in {case.id: case for case in cases}.values():
            self._check_dimensions(case)
        with tempfile.TemporaryDirectory(prefix="gnomon-checklist-") as folder:
            requests = write_requests(
                Path(folder), lambda case: asked_about(self.judge, case), cases, references, images
            )
            verdicts = self.judge.judge(requests)
        check_order(self.name, requests, verdicts)
        answers: list[dict[str, Verdict]] = [{} for _ in images]
        for verdict in verdicts:
            answers[verdict.seed][verdict.metric] = verdict  # requests are numbered by row
        rows = [
            score_checklist(case, found, self.dimension_weights) for case, found in zip(cases, answers, strict=True)
        ]
        columns = {name: [row.dimensions.get(name, math.nan) for row in rows] for name in self.dimension_weights}
        columns[UNANSWERED] = [float(row.num_unanswered) for row in rows]
        return RewardOutput(
            torch.tensor([row.total for row in rows], dtype=torch.float64),
            {name: torch.tensor(values, dtype=torch.float64) for name, values in columns.items()},
            torch.tensor([row.reason is not None for row in rows], dtype=torch.bool),
            {place: row.reason for place, row in enumerate(rows) if row.reason is not None},
        )

    def _check_dimensions(self, case: Case) -> None:
        unknown = sorted({question.dimension for question in case.questions} - set(self.dimension_weights))
        if unknown:
            raise UserError(
                f"expected a weight for every dimension of the questions of case {case.id!r}, got none for "
                f"{', '.join(unknown)} (of {', '.join(self.dimension_weights)}); give 0 to what should only be logged"
            )


@dataclass(frozen=True)
class ChecklistScore:
    """What one picture got.

    Attributes:
        total: 0..1; NaN where there is none.
        dimensions: share of right answers, for each dimension with an answered question.
        num_unanswered: questions without an answer.
        reason: why there is no total; None where there is one.
    """

    total: float
    dimensions: dict[str, float]
    num_unanswered: int
    reason: str | None = None


def score_checklist(case: Case, answers: Mapping[str, Verdict], weights: Mapping[str, float]) -> ChecklistScore:
    """Return what the answers to a case's questions are worth.

    Args:
        case: whose questions were asked.
        answers: one by the id of each question.
        weights: of the dimensions, at least 0.
    """
    right = right_answers(case.questions, {name: verdict.value for name, verdict in answers.items()})
    members: dict[str, list[str]] = {}
    for question in case.questions:
        members.setdefault(question.dimension, []).append(question.id)
    known = {name: [found for one in ids if (found := right[one]) is not None] for name, ids in members.items()}
    shares = {name: fmean(found) for name, found in known.items() if found}
    num_unanswered = sum(verdict.status != "ok" for verdict in answers.values())
    counting = [name for name in members if weights[name]]
    lost = [f"{name}: {_statuses([answers[one] for one in members[name]])}" for name in counting if name not in shares]
    if lost or not counting:
        reason = "; ".join(lost) or "the case has no question in a dimension with a weight"
        return ChecklistScore(math.nan, shares, num_unanswered, reason)
    weighed = math.fsum(weights[name] * shares[name] for name in counting)
    return ChecklistScore(weighed / math.fsum(weights[name] for name in counting), shares, num_unanswered)


def _statuses(verdicts: Sequence[Verdict]) -> str:
    return ", ".join(f"{count} {status}" for status, count in Counter(one.status for one in verdicts).most_common())
