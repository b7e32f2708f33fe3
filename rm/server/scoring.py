"""What the server asks: pictures in, scores or a reason each out."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gnomon.errors import UserError
from gnomon.records import Case, Text, Verdict
from rm.devices import check_device, own_device
from rm.judge import Judge, JudgeRequest
from rm.judge_requests import write_requests

if TYPE_CHECKING:
    from PIL import Image

    from rm.reward_model import RewardModel


@dataclass(frozen=True, eq=False)
class Picture:
    """One picture to score, decoded.

    Attributes:
        instruction: what was asked for.
        references: RGB pictures that the instruction refers to.
        candidate: the RGB picture that was made.
        meta: what else the client said.
        dimensions: what is asked for; None for all.
    """

    instruction: str
    references: tuple[Image.Image, ...]
    candidate: Image.Image
    meta: dict[str, Any] = field(default_factory=dict)
    dimensions: tuple[str, ...] | None = None


Outcome = dict[str, float] | str
"""Scores by dimension, or the reason why there are none."""


class PictureScorer(Protocol):
    """Something that scores pictures.

    Attributes:
        name: for people.
        dimensions: what it says of each picture.
    """

    name: str
    dimensions: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """A hash that is equal for scorers that score equally."""

    def score(self, pictures: Sequence[Picture]) -> list[Outcome]:
        """Return one outcome per picture, in order; a picture that cannot be scored is a reason, or raises alone."""


class RewardModelScorer:
    """Scores of a reward model, several pictures in one forward pass.

    Args:
        model: the loaded reward model.
        name: for people.
        fingerprint: hash of the model.
    """

    def __init__(self, model: RewardModel, *, name: str, fingerprint: str) -> None:
        self.model, self.name, self.fingerprint = model, name, fingerprint
        self.dimensions = model.dimensions

    def score(self, pictures: Sequence[Picture]) -> list[Outcome]:
        """Return the scores of all pictures; raises ValueError when one has an impossible shape."""
        values = self.model.score_batch(
            instructions=[picture.instruction for picture in pictures],
            references=[picture.references for picture in pictures],
            candidates=[picture.candidate for picture in pictures],
            batch_size=len(pictures),
        ).values
        return [dict(zip(self.dimensions, row, strict=True)) for row in values.tolist()]


class JudgeScorer:
    """Verdicts of any judge of single pictures; a metric that fails makes its picture a failure.

    Args:
        judge: who judges.
    """

    def __init__(self, judge: Judge) -> None:
        self.judge, self.name, self.fingerprint = judge, judge.name, judge.fingerprint
        self.dimensions = tuple(judge.metrics)

    def score(self, pictures: Sequence[Picture]) -> list[Outcome]:
        """Ask about the dimensions that each picture is to be scored in."""
        with tempfile.TemporaryDirectory(prefix="gnomon-serve-") as folder:
            requests: list[JudgeRequest] = []
            for number, picture in enumerate(pictures):
                wanted = picture.dimensions or self.dimensions
                requests += _requests(Path(folder) / str(number), picture, wanted)
            answers = iter(self.judge.judge(requests))
        counts = [len(picture.dimensions or self.dimensions) for picture in pictures]
        return [_outcome(list(islice(answers, count))) for count in counts]


def _requests(folder: Path, picture: Picture, wanted: tuple[str, ...]) -> list[JudgeRequest]:
    case = Case(id=folder.name, benchmark="service", task="edit", instruction=Text(en=picture.instruction or " "))
    return write_requests(folder, lambda _: wanted, [case], [list(picture.references)], [picture.candidate])


def _outcome(verdicts: Sequence[Verdict]) -> Outcome:
    failures = [
        f"{verdict.metric}: {verdict.status}" + (f" ({verdict.rationale})" if verdict.rationale else "")
        for verdict in verdicts
        if verdict.value is None
    ]
    if failures:
        return "; ".join(failures)
    return {verdict.metric: verdict.value for verdict in verdicts if verdict.value is not None}


def load_scorer(
    *, model: str | None, judge: str | None, base: str | None = None, device: str = "cpu"
) -> PictureScorer | None:
    """Load what scores, a reward model or a judge of a file; None where neither is named.

    Args:
        model: folder of a reward model.
        judge: YAML file of a judge of single pictures.
        base: where the reward model's base is now, when it has moved.
        device: of the reward model, such as "cpu" or "cuda".

    Raises:
        UserError: when both are named, the judge compares pairs, or something cannot be loaded.
    """
    from rm.judge import RewardModelJudge
    from rm.judge_config import read_judge

    if model is not None and judge is not None:
        raise UserError("expected --model or --judge, got both; start two servers")
    if judge is not None:
        found = read_judge(judge)
        if not hasattr(found, "judge"):
            raise UserError(f"expected a judge of single pictures in {judge}, it compares pairs; name another class")
        return JudgeScorer(found)
    if model is None:
        return None
    loaded = RewardModelJudge(model, base=base, device=device)
    loaded.model.to(own_device(check_device(device)))
    return RewardModelScorer(loaded.model, name=loaded.name, fingerprint=loaded.fingerprint)


def checked_scores(scorer: PictureScorer, pictures: Sequence[Picture]) -> list[Outcome]:
    """Return what a scorer says, a score that is no finite number as a failure."""
    return [_checked(outcome) for outcome in scorer.score(pictures)]


def _checked(outcome: Outcome) -> Outcome:
    if isinstance(outcome, dict) and not all(math.isfinite(value) for value in outcome.values()):
        return "a score is not a finite number"
    return outcome
