"""Rewards: what a judge thinks of pictures, as numbers with failures kept apart; and monitors that reward nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from PIL.Image import Image, Resampling
from torch import Tensor

from gnomon.errors import UserError
from gnomon.records import Case
from rm.reward_model import RewardModel


@dataclass(frozen=True, eq=False)
class RewardOutput:
    """Rewards of a batch.

    Attributes:
        total: what is maximised, float `[batch]`; NaN where it failed.
        breakdown: values by dimension, each `[batch]`, for metrics.
        failed: boolean `[batch]`. A failure is masked out of training; it is never a low reward.
        reasons: why rows failed, as far as the judge can say.
    """

    total: Tensor
    breakdown: dict[str, Tensor]
    failed: Tensor
    reasons: dict[int, str] = field(default_factory=dict)


class Reward(Protocol):
    """Anything that scores pictures; set by `class_path` in a config.

    `cases` is a `Sequence[Case]`, `references` a `Sequence[list[Image]]` and `images` a `Sequence[Image]`, one per
    row; the result is a :class:`RewardOutput`. The annotations are open because the config parser compares them
    literally, and a reward in a user's own file need not repeat them; `apply_reward` checks what matters.
    """

    def __call__(self, *, cases: Any, references: Any, images: Any) -> Any:
        """Score `images`."""
        ...


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
            device: where the judge runs.
            batch_size: pictures per forward pass.

        Raises:
            UserError: when the folder holds no reward model, or has no such dimension.
        """
        self.weights = {"overall": 1.0} if weights is None else dict(weights)
        self.language = language
        self.batch_size = batch_size
        self.model = RewardModel.from_pretrained(model).to(device)
        missing = sorted(set(self.weights) - set(self.model.dimensions))
        if missing or not self.weights:
            raise UserError(
                f"expected weights for some of the dimensions {', '.join(self.model.dimensions)} of the reward model "
                f"at {model}, got {', '.join(missing) or 'none'}"
            )

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> RewardOutput:
        """Score `images`."""
        scores = self.model.score_batch(
            instructions=[case.instruction.get(self.language) for case in cases],
            references=references,
            candidates=images,
            batch_size=self.batch_size,
        )
        breakdown = {name: scores.values[:, column] for column, name in enumerate(scores.dimensions)}
        total = weighted_sum(breakdown, self.weights)
        return RewardOutput(total, breakdown, torch.zeros(len(images), dtype=torch.bool))


def weighted_sum(breakdown: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """Combine dimensions `[batch]` to one total, float64 so that no order of summation shows."""
    return torch.stack([weight * breakdown[name].double() for name, weight in weights.items()]).sum(dim=0)


def apply_reward(
    reward: Reward,
    *,
    cases: Sequence[Case],
    references: Sequence[list[Image]],
    images: Sequence[Image],
    max_failed_share: float,
) -> RewardOutput:
    """Call a reward and hold it to its contract.

    A total that is not finite counts as a failure, whatever the reward says.

    Raises:
        UserError: when more than `max_failed_share` of the rows failed, with reasons.
        ValueError: when a length is wrong, since rows would then be scored for their neighbours.
    """
    output: RewardOutput = reward(cases=cases, references=references, images=images)
    if not isinstance(output, RewardOutput):
        raise UserError(f"expected a RewardOutput from {_name(reward)}, got {type(output).__name__}")
    lengths = {"total": output.total, "failed": output.failed, **output.breakdown}
    wrong = {name: list(values.shape) for name, values in lengths.items() if values.shape != (len(images),)}
    if wrong:
        raise ValueError(f"expected one value for each of {len(images)} pictures from {_name(reward)}, got {wrong}")
    failed = output.failed.cpu() | ~torch.isfinite(output.total.cpu())
    checked = RewardOutput(
        torch.where(failed, math.nan, output.total.detach().cpu().double()),
        {name: values.detach().cpu().double() for name, values in output.breakdown.items()},
        failed,
        {row: output.reasons.get(row, "not finite") for row in failed.nonzero().flatten().tolist()},
    )
    share = failed.double().mean().item()
    if share > max_failed_share:
        shown = "; ".join(f"{cases[row].id}: {reason}" for row, reason in list(checked.reasons.items())[:3])
        raise UserError(
            f"{_name(reward)} failed on {len(checked.reasons)} of {len(images)} pictures, more than the allowed share "
            f"of {max_failed_share:g} ({shown}); mend the judge, or raise max_failed_share"
        )
    return checked


def _name(reward: Reward) -> str:
    return type(reward).__name__


def image_monitors(images: Sequence[Image], references: Sequence[list[Image]]) -> dict[str, Tensor]:
    """Measure pictures in ways that no reward should move: a look at what a policy trades for its reward.

    Returns:
        float64 `[batch]` each: `sharpness` (standard deviation of the 4-neighbour Laplacian of the luma, 0..4),
        `saturation` (mean of max - min over the colour channels, 0..1) and `source_distance` (mean absolute
        difference to the first reference scaled to the picture's size, 0..1; NaN without a reference).
    """
    rows = []
    for image, pictures in zip(images, references, strict=True):
        pixels = _pixels(image)
        luma = pixels @ np.array([0.299, 0.587, 0.114])
        laplacian = 4 * luma[1:-1, 1:-1] - luma[:-2, 1:-1] - luma[2:, 1:-1] - luma[1:-1, :-2] - luma[1:-1, 2:]
        saturation = (pixels.max(axis=2) - pixels.min(axis=2)).mean()
        distance = math.nan
        if pictures:
            source = pictures[0] if pictures[0].size == image.size else pictures[0].resize(image.size, Resampling.BOX)
            distance = float(np.abs(pixels - _pixels(source)).mean())
        rows.append((float(laplacian.std()), float(saturation), distance))
    columns = torch.tensor(rows, dtype=torch.float64).T
    return dict(zip(("sharpness", "saturation", "source_distance"), columns, strict=True))


def _pixels(image: Image) -> np.ndarray[tuple[int, int, int], np.dtype[np.float64]]:
    return np.asarray(image.convert("RGB"), dtype=np.float64) / 255
