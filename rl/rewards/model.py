"""The reward of a trained reward model that runs in this process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from PIL.Image import Image

from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.records import Case
from rl.rewards.base import RewardOutput, checked_weights, weighted_sum
from rm.devices import check_device, own_device
from rm.judge import check_language, model_fingerprint
from rm.reward_model import RewardModel


class RewardModelReward:
    """The reward of a trained reward model: a weighted sum of its dimensions."""

    def __init__(
        self,
        model: str,
        *,
        weights: dict[str, float] | None = None,
        language: str = "en",
        device: str = "cpu",
        batch_size: int = 32,
    ) -> None:
        """Load the model.

        Args:
            model: folder of a reward model (`model` in a run folder of `gnomon rm fit`).
            weights: weight of each dimension in the total; default `{"overall": 1.0}`.
            language: in which the judge reads the instruction, "en" or "zh".
            device: where the judge runs, such as "cpu" or "cuda" (this rank's device); it is moved there by the first
                pictures.
            batch_size: pictures per forward pass.

        Raises:
            UserError: when the folder holds no reward model or has no such dimension, or for a language or device that
                there is not.
        """
        self.weights = checked_weights(weights, default={"overall": 1.0}, owner=f"the reward model at {model}")
        self.language, self._device = check_language(language), check_device(device)
        self.batch_size = batch_size
        self.model = RewardModel.from_pretrained(model)
        missing = sorted(set(self.weights) - set(self.model.dimensions))
        if missing:
            raise UserError(
                f"expected weights for some of the dimensions {', '.join(self.model.dimensions)} of the reward model "
                f"at {model}, got {', '.join(missing)}"
            )

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the judge's weights, prompt and preprocessing, of the language and of the weights of dimensions."""
        return stable_hash([model_fingerprint(self.model, self.language), self.weights])

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> RewardOutput:
        """Score `images`; a picture of an impossible shape is a failed row and costs its neighbours nothing."""
        reasons: dict[int, str] = {}
        self.model.to(own_device(self._device))
        try:
            values = self._values(cases, references, images)
        except ValueError:
            rows = [
                self._value(row, case, pictures, image, reasons)
                for row, (case, pictures, image) in enumerate(zip(cases, references, images, strict=True))
            ]
            values = torch.cat(rows)
        breakdown = {name: values[:, column] for column, name in enumerate(self.model.dimensions)}
        failed = torch.tensor([row in reasons for row in range(len(images))], dtype=torch.bool)
        return RewardOutput(weighted_sum(breakdown, self.weights), breakdown, failed, reasons)

    def _values(
        self, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> torch.Tensor:
        return self.model.score_batch(
            instructions=[case.instruction.get(self.language) for case in cases],
            references=references,
            candidates=images,
            batch_size=self.batch_size,
        ).values

    def _value(
        self, row: int, case: Case, references: list[Image], image: Image, reasons: dict[int, str]
    ) -> torch.Tensor:
        try:
            return self._values([case], [references], [image])
        except ValueError as error:
            reasons[row] = str(error)
            return torch.full((1, len(self.model.dimensions)), torch.nan)
