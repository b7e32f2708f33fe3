"""Monitors: plain measures of pictures that no reward should move, and the signs of a policy that games its reward.

Nothing here is ever rewarded. A policy that is rewarded by a judge finds the judge's blind spots: sharpness and colours
go while the reward climbs. The measures below cost milliseconds and need no model, so they are always on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from PIL.Image import Image, Resampling
from scipy.stats import linregress
from torch import Tensor

from gnomon.errors import UserError

Pixels = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]

PICTURE_MONITORS = ("sharpness", "saturation", "entropy", "source_distance")
_LUMA = np.array([0.299, 0.587, 0.114])  # of ITU-R BT.601


def image_monitors(images: Sequence[Image], references: Sequence[list[Image]]) -> dict[str, Tensor]:
    """Measure pictures, each beside the references of its case (the first one is the source).

    Returns:
        float64 `[batch]` for each of :data:`PICTURE_MONITORS`; `source_distance` is NaN without a reference.
    """
    rows = []
    for image, pictures in zip(images, references, strict=True):
        pixels = to_pixels(image)
        distance = source_distance(pixels, pictures[0]) if pictures else math.nan
        rows.append((sharpness(pixels), saturation(pixels), colour_entropy(image), distance))
    columns = torch.tensor(rows, dtype=torch.float64).reshape(-1, len(PICTURE_MONITORS)).T
    return dict(zip(PICTURE_MONITORS, columns, strict=True))


def to_pixels(image: Image) -> Pixels:
    """Return RGB in 0..1, float64 `[height, width, 3]`."""
    return np.asarray(image.convert("RGB"), dtype=np.float64) / 255


def sharpness(pixels: Pixels) -> float:
    """Return the standard deviation of the 4-neighbour Laplacian of the luma, without the border; 0..4.

    Blur lowers it, grids and noise raise it. A picture that is all border, below 3 x 3, has none: NaN.
    """
    luma = pixels @ _LUMA
    laplacian = 4 * luma[1:-1, 1:-1] - luma[:-2, 1:-1] - luma[2:, 1:-1] - luma[1:-1, :-2] - luma[1:-1, 2:]
    return float(laplacian.std()) if laplacian.size else math.nan


def saturation(pixels: Pixels) -> float:
    """Return the mean of the largest minus the smallest colour channel; 0 (grey) to 1."""
    return float((pixels.max(axis=2) - pixels.min(axis=2)).mean())


def colour_entropy(image: Image) -> float:
    """Return the entropy of the colours in bits, each channel cut to 8 levels; 0 (one colour) to 9 (all 512 alike).

    It falls when a background is wiped to one colour, which sharpness sees only in part.
    """
    levels = np.asarray(image.convert("RGB")) >> 5
    codes = (levels[..., 0].astype(np.int64) << 6) | (levels[..., 1].astype(np.int64) << 3) | levels[..., 2]
    counts = np.bincount(codes.ravel(), minlength=512)
    shares = counts[counts > 0] / codes.size
    return float(-(shares * np.log2(shares)).sum()) + 0.0  # -0.0 is no entropy either


def source_distance(pixels: Pixels, source: Image) -> float:
    """Return the mean absolute difference to a source, scaled to the picture's size first; 0 (a copy) to 1."""
    size = (pixels.shape[1], pixels.shape[0])
    scaled = source if source.size == size else source.resize(size, Resampling.BOX)
    return float(np.abs(pixels - to_pixels(scaled)).mean())


@dataclass(frozen=True)
class HackingSettings:
    """When to warn that the reward climbs at the cost of what nobody rewards."""

    window: int = 8
    """How many of the latest validations are looked at; nothing is said before half of them (at least 5) are there."""

    p_value: float = 0.02
    """How sure the trends must be: the one-sided p-value of the slope, of the reward and of what falls, each."""

    min_fall: float = 0.1
    """Share that a picture statistic must have lost over the window. A judge's scale is its own, so none is asked."""

    def __post_init__(self) -> None:
        if self.window < 5 or not 0 < self.p_value < 1 or not 0 <= self.min_fall < 1:
            raise UserError(
                "expected hacking.window >= 5, hacking.p_value between 0 and 1 and hacking.min_fall from 0 to below 1, "
                f"got {self.window}, {self.p_value} and {self.min_fall}"
            )


@dataclass(frozen=True)
class HackingSign:
    """Something that fell while the reward climbed; the numbers are those of straight lines through the window.

    Attributes:
        name: of what fell.
        before: where its line starts.
        after: where its line ends.
        reward_gain: by how much the reward's line rose.
        num_points: how many points the lines run through.
    """

    name: str
    before: float
    after: float
    reward_gain: float
    num_points: int

    def __str__(self) -> str:
        return (
            f"the reward climbed by {self.reward_gain:.3g} while {self.name} fell from {self.before:.3g} to "
            f"{self.after:.3g} (over {self.num_points} points): the policy may be gaming its judge. Look at its "
            "pictures; a KL weight, a second judge or fewer iterations help"
        )


@dataclass(frozen=True)
class _Trend:
    """A straight line through a series: its ends, and how likely a slope like this is without a trend."""

    start: float
    end: float
    p_up: float
    p_down: float


def _trend(values: Sequence[float]) -> _Trend:
    line = linregress(np.arange(len(values)), values)
    slope, start = float(line.slope), float(line.intercept)
    # A constant series has no correlation to speak of: no trend.
    p_value = float(line.pvalue) if math.isfinite(float(line.pvalue)) else 1.0
    upwards = p_value / 2 if slope > 0 else 1 - p_value / 2
    return _Trend(start, start + slope * (len(values) - 1), upwards, 1 - upwards if slope else 1.0)


def hacking_signs(
    history: Sequence[Mapping[str, float]],
    *,
    reward: str = "reward",
    statistics: Sequence[str] = PICTURE_MONITORS,
    judges: Sequence[str] = (),
    settings: HackingSettings | None = None,
) -> list[HackingSign]:
    """Look for monitors that fall while the reward climbs.

    Over the latest `settings.window` points a straight line is laid through the reward and through each monitor. There
    is a sign where the reward's slope is up and the monitor's slope is down, both beyond chance (t-test of the slope);
    a picture statistic must also have lost a share of `settings.min_fall`, since small changes are what an edit does.

    Args:
        history: one point per validation, the oldest first, values by name.
        reward: the name of what is maximised.
        statistics: names of measures of pictures, which are positive.
        judges: names of held-out rewards.
        settings: window and thresholds.

    Returns:
        A sign per monitor that fell, in the order of `judges` and `statistics`. None while the reward does not climb or
        there are too few points; a monitor that has no finite value in each of them is left out.
    """
    settings = settings or HackingSettings()
    points = list(history)[-settings.window :]
    if len(points) < max(5, (settings.window + 1) // 2):
        return []
    rewards = _finite(points, reward)
    if rewards is None or (climb := _trend(rewards)).p_up > settings.p_value:
        return []
    signs = []
    for name in (*judges, *statistics):
        values = _finite(points, name)
        if values is None or (line := _trend(values)).p_down > settings.p_value:
            continue
        enough = name in judges or line.start - line.end >= settings.min_fall * abs(line.start)
        if enough:
            signs.append(HackingSign(name, line.start, line.end, climb.end - climb.start, len(points)))
    return signs


def _finite(points: Sequence[Mapping[str, float]], name: str) -> list[float] | None:
    values = [point.get(name, math.nan) for point in points]
    return values if all(math.isfinite(value) for value in values) else None


@dataclass
class HackingWatch:
    """Remembers validations and says each sign once, until it has gone and come again.

    Attributes:
        judges: names of held-out rewards.
        settings: window and thresholds.
        history: the points of the window, plain numbers: they belong into the checkpoint.
        shown: monitors whose sign stands.
    """

    judges: tuple[str, ...] = ()
    settings: HackingSettings = field(default_factory=HackingSettings)
    history: list[dict[str, float]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    def update(self, values: Mapping[str, float]) -> list[HackingSign]:
        """Take up the means of a validation and return the signs that are new.

        Args:
            values: by name, `reward` among them; what is not watched is not kept.
        """
        watched = ("reward", *self.judges, *PICTURE_MONITORS)
        self.history.append({name: float(values[name]) for name in watched if name in values})
        self.history = self.history[-self.settings.window :]
        signs = hacking_signs(self.history, judges=self.judges, settings=self.settings)
        new = [sign for sign in signs if sign.name not in self.shown]
        self.shown = [sign.name for sign in signs]
        return new

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run must know."""
        return {"history": list(self.history), "shown": list(self.shown)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what a checkpoint knew."""
        self.history, self.shown = [dict(point) for point in state["history"]], list(state["shown"])
