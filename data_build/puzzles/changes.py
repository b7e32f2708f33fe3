"""What an edit changed, pixel by pixel, and in which colour: tolerant to compression, small shifts and re-rendering.

A pixel counts as changed when its brightness or its colour lies outside the range of its source's neighbourhood by more
than a tolerance. Edges that moved by a pixel, soft scaling and the noise of JPEG stay inside that range; a line, a fill
or another digit does not. Colour is looked at in half the resolution, as JPEG keeps it: thin coloured strokes lose it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Colour = tuple[int, int, int]
Mask = NDArray[np.bool_]

BRIGHTNESS_TOLERANCE = 48
COLOUR_TOLERANCE = 20
"""Levels out of 255 by which Y, or Cb and Cr, may leave the range of the source."""
GONE_TOLERANCE = 110
"""Levels of Y by which the source may leave the range of the edited picture."""
LEAST_SATURATION = 25
"""Distance from grey, in levels of Cb and Cr, of a pixel that counts as marked."""
HUE_TOLERANCE = 30
"""Degrees in the plane of Cb and Cr between a marker's hue and that of a pixel that counts as marked."""
MOST_OTHER = 0.25
"""Share of the picture that may change in other colours than the markers'; beyond it is another picture."""
MOST_STRETCH = 0.02
"""Relative difference of aspect ratios up to which an edited picture is scaled to its source's size."""


class UnreadableEditError(ValueError):
    """An edited picture that cannot be held against its source; the text says why."""


@dataclass(frozen=True)
class Change:
    """What an edit did.

    Attributes:
        marked: pixels that changed to a marker's colour, bool `[height, width]` by the marker's name.
        other: pixels that changed in another way, bool `[height, width]`; those at the very edge of marked ones, where
            colours mix, are left out.
    """

    marked: Mapping[str, Mask]
    other: Mask


class Source:
    """A source, ready to be compared with any number of edits: the ranges of its neighbourhoods are found only once.

    Args:
        image: RGB, with an even number of pixels per side.
    """

    def __init__(self, image: Image.Image) -> None:
        self.size = image.size
        self.reach = neighbourhood(min(image.size))
        planes = _Planes.of(image)
        self.scale = planes.scale
        self.brightness = planes.brightness
        self.brightness_range = _Range(planes.brightness, self.reach, BRIGHTNESS_TOLERANCE)
        small_reach = -(-self.reach // planes.scale)
        # Half the resolution mixes a stroke with its ground or not, depending on which pixels make up a pair; after a
        # shift by one it is the other ones.
        paired_otherwise = _colours(image, planes.scale, offset=planes.scale - 1)
        self.colour_ranges = [
            _Range(plane, small_reach, COLOUR_TOLERANCE, other)
            for plane, other in zip(planes.colour, paired_otherwise, strict=True)
        ]


def find_change(source: Source, edited: Image.Image, markers: Mapping[str, Colour]) -> Change:
    """Compare an edited picture with its source.

    Args:
        source: what it is compared with.
        edited: RGB; is scaled to the source's size where it has the same shape.
        markers: colours that marks are drawn in, by name.

    Raises:
        UnreadableEditError: for a picture of another shape, and for one that shows something else.
    """
    after = _Planes.of(_fitted(edited, source.size))
    came = source.brightness_range.leaves_out(after.brightness)
    # Thin strokes that a blur made fainter have not gone.
    went = _Range(after.brightness, source.reach, GONE_TOLERANCE).leaves_out(source.brightness)
    blue, red = (bounds.leaves_out(plane) for bounds, plane in zip(source.colour_ranges, after.colour, strict=True))
    colour = blue | red
    masks = _marked(after.colour, colour, markers)
    anything = _enlarged(np.logical_or.reduce(list(masks.values())), source.scale)
    other = came | went | _enlarged(colour, source.scale)
    if anything.any():
        other &= ~widen(anything, source.reach + 1)
    if (share := np.count_nonzero(other) / other.size) > MOST_OTHER:
        raise UnreadableEditError(f"{share:.0%} of the picture changed in other ways than by marks; it is another one")
    return Change({name: _enlarged(mask, source.scale) for name, mask in masks.items()}, other)


def neighbourhood(resolution: int) -> int:
    """Return by how many pixels content may move without counting as changed."""
    return max(1, round(resolution / 256))


def widen(mask: Mask, reach: int) -> Mask:
    """Add all pixels within `reach` rows and columns of the mask's."""
    return _extreme(mask, reach, np.logical_or)


@dataclass(frozen=True)
class _Planes:
    """A picture as brightness (Y) `[height, width]` and colour (Cb, Cr) `[height / scale, width / scale]`, uint8."""

    brightness: NDArray[np.uint8]
    colour: tuple[NDArray[np.uint8], NDArray[np.uint8]]
    scale: int

    @classmethod
    def of(cls, image: Image.Image) -> _Planes:
        """Convert an RGB picture; a small one, whose marks are thin, keeps its colours in full."""
        scale = 2 if min(image.size) >= 256 else 1
        return cls(np.asarray(image.convert("L")), _colours(image, scale), scale)


def _colours(image: Image.Image, scale: int, *, offset: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return Cb and Cr of a smaller picture, which takes a quarter of the time, read `offset` pixels further on."""
    small = image.reduce(scale, box=(offset, offset, *image.size))
    _, blue, red = small.convert("YCbCr").split()
    return np.asarray(blue), np.asarray(red)


def _enlarged(mask: Mask, scale: int) -> Mask:
    """Return a mask with `scale` rows and columns for each of its own."""
    if scale == 1:
        return mask
    enlarged = np.empty((mask.shape[0], scale, mask.shape[1] * scale), dtype=bool)
    for column in range(scale):
        enlarged[:, 0, column::scale] = mask
    enlarged[:, 1:] = enlarged[:, :1]
    return enlarged.reshape(-1, enlarged.shape[2])


@dataclass(frozen=True)
class _Range:
    """What each pixel of a plane may be: what its neighbourhood holds, and a tolerance more on each side."""

    plane: NDArray[np.uint8]
    reach: int
    tolerance: int
    other: NDArray[np.uint8] | None = None
    """The same plane as it may be read as well."""

    @cached_property
    def ends(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The least and the largest value of each neighbourhood."""
        other = self.plane if self.other is None else self.other
        low, high = (function(self.plane, other) for function in (np.minimum, np.maximum))
        return _extreme(low, self.reach, np.minimum), _extreme(high, self.reach, np.maximum)

    def leaves_out(self, plane: NDArray[np.uint8]) -> Mask:
        """Return which pixels of another plane are outside."""
        # What is near the pixel itself is near its neighbourhood: mostly there is no need to look at any.
        found = _beyond(plane, self.plane, self.plane, self.tolerance)
        return _beyond(plane, *self.ends, self.tolerance) if found.any() else found


def _beyond(plane: NDArray[np.uint8], low: NDArray[np.uint8], high: NDArray[np.uint8], tolerance: int) -> Mask:
    """Return where a plane is below `low` or above `high` by more than the tolerance."""
    below, above = np.maximum(low, plane), np.minimum(high, plane)
    np.subtract(below, plane, out=below)
    np.subtract(plane, above, out=above)
    beyond: Mask = np.maximum(below, above, out=below) > tolerance
    return beyond


def _fitted(edited: Image.Image, size: tuple[int, int]) -> Image.Image:
    if edited.size == size:
        return edited
    stretch = (edited.width / edited.height) / (size[0] / size[1])
    if abs(stretch - 1) > MOST_STRETCH:
        raise UnreadableEditError(
            f"expected the shape of the source, {size[0]} x {size[1]}, got {edited.width} x {edited.height}"
        )
    return edited.resize(size, Image.Resampling.LANCZOS)


def _extreme(values: NDArray[Any], reach: int, function: np.ufunc) -> NDArray[Any]:
    """Return the least or largest value of every pixel's neighbourhood, 1 or more to each side, `[height, width]`."""
    for axis in (0, 1):
        height, width = values.shape
        padded = np.empty((height + 2 * reach, width) if axis == 0 else (height, width + 2 * reach), values.dtype)
        along, inner = (padded, values) if axis == 0 else (padded.T, values.T)
        # The edge's own value stands for what lies beyond it.
        along[:reach], along[reach:-reach], along[-reach:] = inner[0], inner, inner[-1]
        covered, window = 1, 2 * reach + 1
        while covered < window:
            # The extremes of two windows, one after the other or overlapping, are one of a longer window.
            step = min(covered, window - covered)
            along = function(along[:-step], along[step:])
            covered += step
        values = along if axis == 0 else along.T
    return values


def _marked(
    colour: tuple[NDArray[np.uint8], NDArray[np.uint8]], changed: Mask, markers: Mapping[str, Colour]
) -> dict[str, Mask]:
    """Give every changed pixel of a clear colour to the marker of the nearest hue, where that is near enough."""
    places = np.flatnonzero(changed)
    pixels = (colour[0].ravel()[places].astype(np.intp) << 8) | colour[1].ravel()[places]
    apart = np.stack([_hue_distances(marker)[pixels] for marker in markers.values()])
    nearest, near = apart.argmin(axis=0), apart.min(axis=0) <= HUE_TOLERANCE
    masks = {}
    for number, name in enumerate(markers):
        masks[name] = np.zeros_like(changed)
        masks[name].ravel()[places] = near & (nearest == number)
    return masks


@lru_cache(maxsize=32)
def _hue_distances(marker: Colour) -> NDArray[np.float32]:
    """Return degrees from a marker's hue to every colour's, at `256 * Cb + Cr`; infinity for what is nearly grey."""
    swatch = np.asarray(Image.new("RGB", (1, 1), marker).convert("YCbCr"))[0, 0]
    blue, red = np.divmod(np.arange(256 * 256), 256)
    pixels = _from_grey(blue, red)
    apart: NDArray[np.float32] = np.abs(np.angle(pixels / _from_grey(swatch[1:2], swatch[2:]), deg=True))
    apart[np.abs(pixels) < LEAST_SATURATION] = np.inf
    return apart


def _from_grey(blue: NDArray[np.integer[Any]], red: NDArray[np.integer[Any]]) -> NDArray[np.complex64]:
    """Return Cb and Cr as one number in the complex plane, grey at 0: its angle is the hue."""
    return (blue.astype(np.float32) - 128 + 1j * (red.astype(np.float32) - 128)).astype(np.complex64)
