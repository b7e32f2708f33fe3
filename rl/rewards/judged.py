"""The verdicts of a judge (a rubric, a checklist, an oracle) as a reward."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL.Image import Image
from torch import Tensor

from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.records import Case, Verdict
from rl.rewards.base import RewardOutput, checked_weights, weighted_sum
from rm.judge import Judge, JudgeRequest, asks_questions
from rm.judge_requests import write_requests


class JudgeReward:
    """Asks a judge about each picture and each weighted metric; the total is the weighted sum of the values.

    A verdict whose status is not "ok" (unparsable, refused, out of range, not applicable) makes its row a failure with
    that status as the reason, unless its metric has weight 0. No verdict is ever read as 0.
    """

    def __init__(self, judge: Judge, *, weights: dict[str, float] | None = None) -> None:
        """Choose what is asked.

        Args:
            judge: any judge; the pictures are handed to it as files in a temporary folder.
            weights: weight of each metric in the total; 0 asks only to log it. Default: 1 for each of its metrics.

        Raises:
            UserError: when the judge has no such metric, or answers the questions of cases in place of metrics.
        """
        self.judge = judge
        self.name = f"the judge {judge.name}"
        if asks_questions(judge):
            raise UserError(
                f"expected a judge with metrics of its own, {self.name} answers the questions of each case; use "
                "rl.rewards.ChecklistReward with it"
            )
        self.weights = checked_weights(weights, default=dict.fromkeys(judge.metrics, 1.0), owner=self.name)
        unknown = sorted(set(self.weights) - set(judge.metrics))
        if unknown:
            raise UserError(
                f"expected weights for some of the metrics {', '.join(judge.metrics)} of {self.name}, got "
                f"{', '.join(unknown)}"
            )

    @property
    def fingerprint(self) -> str:
        """Hash of the judge's own fingerprint and the weights."""
        return stable_hash([self.judge.fingerprint, self.weights])

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> RewardOutput:
        """Score `images`.

        Raises:
            UserError: when the verdicts are not one per request, in the requests' order.
        """
        with tempfile.TemporaryDirectory(prefix="gnomon-judge-") as folder:
            requests = write_requests(Path(folder), lambda _: tuple(self.weights), cases, references, images)
            verdicts = self.judge.judge(requests)
        check_order(self.name, requests, verdicts)
        values = torch.full((len(self.weights), len(images)), torch.nan, dtype=torch.float64)
        reasons: dict[int, str] = {}
        for place, verdict in enumerate(verdicts):
            row, column = divmod(place, len(self.weights))
            if verdict.status == "ok" and verdict.value is not None:
                values[column, row] = verdict.value
            elif self.weights[verdict.metric]:
                why = f"{verdict.metric}: {verdict.status}" + (f" ({verdict.rationale})" if verdict.rationale else "")
                reasons[row] = "; ".join(filter(None, (reasons.get(row), why)))
        breakdown: dict[str, Tensor] = dict(zip(self.weights, values, strict=True))
        failed = torch.tensor([row in reasons for row in range(len(images))], dtype=torch.bool)
        return RewardOutput(weighted_sum(breakdown, self.weights), breakdown, failed, reasons)


def check_order(name: str, requests: Sequence[JudgeRequest], verdicts: Sequence[Verdict]) -> None:
    """Make sure that a judge answered what it was asked, in that order.

    Args:
        name: of the judge, for the message.
        requests: what was asked.
        verdicts: what was answered.

    Raises:
        UserError: where an answer is about something else, or their number differs.
    """
    asked = [(request.case.id, request.candidate.seed, request.metric) for request in requests]
    answered = [(verdict.case_id, verdict.seed, verdict.metric) for verdict in verdicts]
    if asked != answered:
        place = next((k for k, pair in enumerate(zip(asked, answered, strict=False)) if pair[0] != pair[1]), None)
        what = "" if place is None else f"; number {place} is about {answered[place]} instead of {asked[place]}"
        raise UserError(
            f"expected one verdict per request in the requests' order from {name}, got {len(answered)} verdicts for "
            f"{len(asked)} requests{what}"
        )
