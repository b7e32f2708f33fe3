"""What the server asks: pictures in, scores or a reason each out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

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
    """

    instruction: str
    references: tuple[Image.Image, ...]
    candidate: Image.Image
    meta: dict[str, Any] = field(default_factory=dict)


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
        return [self._outcome(row) for row in values.tolist()]

    def _outcome(self, row: list[float]) -> Outcome:
        if not all(math.isfinite(value) for value in row):
            return "the model's score is not a finite number"
        return dict(zip(self.dimensions, row, strict=True))


def load_scorer(model: str, *, base: str | None = None, device: str = "cpu") -> RewardModelScorer:
    """Load a reward model for serving.

    Args:
        model: its folder.
        base: where its base model is now, when it has moved.
        device: such as "cpu" or "cuda".

    Raises:
        UserError: see :meth:`rm.reward_model.RewardModel.from_pretrained`.
    """
    from rm.judge import RewardModelJudge

    judge = RewardModelJudge(model, base=base, device=device)
    return RewardModelScorer(judge.model, name=judge.name, fingerprint=judge.fingerprint)
