"""What an edit changed, pixel by pixel, and in which colour: tolerant to compression, small shifts and re-rendering.

A pixel counts as changed when its brightness or its colour lies outside the range of its source's neighbourhood by more
than a tolerance. Edges that moved by a pixel, soft scaling and the noise of JPEG stay inside that range; a line, a fill
or another digit does not. Colour is looked at in half the resolution, as JPEG keeps it: thin coloured strokes lose it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    """A source, ready to be compared with any number of edits: the ranges of its neighbourhoods are found once.

    Args:
        image: RGB, with an even number of pixels per side.
    """

    def __init__(self, image: Image.Image) -> None:
        self.size = image.size
        self.reach = neighbourhood(min(image.size))
        planes = _Planes.of(image)
        self.scale = planes.scale
        self.brightness = planes.brightness
        self.brightness_range = _Range.of(planes.brightness, self.reach, BRIGHTNESS_TOLERANCE)
        small_reach = -(-self.reach // planes.scale)
        self.colour_ranges = [_Range.of(plane, small_reach, COLOUR_TOLERANCE) for plane in planes.colour]


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
    went = _Range.of(after.brightness, source.reach, GONE_TOLERANCE).leaves_out(source.brightness)
    blue, red = (bounds.leaves_out(plane) for bounds, plane in zip(source.colour_ranges, after.colour, strict=True))
    colour = blue | red
    marked = {name: _enlarged(mask, source.scale) for name, mask in _marked(after.colour, colour, markers).items()}
    anything = np.zeros_like(came)
    for mask in marked.values():
        anything |= mask
    other = (came | went | _enlarged(colour, source.scale)) & ~widen(anything, source.reach + 1)
    if (share := float(other.mean())) > MOST_OTHER:
        raise UnreadableEditError(f"{share:.0%} of the picture changed in other ways than by marks; it is another one")
    return Change(marked, other)


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
        # Colours of the smaller picture, which takes a quarter of the time.
        _, blue, red = image.reduce(scale).convert("YCbCr").split()
        return cls(np.asarray(image.convert("L")), (np.asarray(blue), np.asarray(red)), scale)


def _enlarged(mask: Mask, scale: int) -> Mask:
    return mask if scale == 1 else mask.repeat(scale, axis=0).repeat(scale, axis=1)


@dataclass(frozen=True)
class _Range:
    """What each pixel of a plane may be: what its neighbourhood holds, and a tolerance more on each side."""

    low: NDArray[np.uint8]
    high: NDArray[np.uint8]

    @classmethod
    def of(cls, plane: NDArray[np.uint8], reach: int, tolerance: int) -> _Range:
        """Find the range of each pixel's neighbourhood."""
        low = np.maximum(_extreme(plane, reach, np.minimum), tolerance) - np.uint8(tolerance)
        high = np.minimum(_extreme(plane, reach, np.maximum), 255 - tolerance) + np.uint8(tolerance)
        return cls(low, high)

    def leaves_out(self, plane: NDArray[np.uint8]) -> Mask:
        """Return which pixels of another plane are outside."""
        outside: Mask = (plane < self.low) | (plane > self.high)
        return outside


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
    """Return the least or largest value of every pixel's square neighbourhood, `[height, width]`."""
    for axis in (0, 1):
        result = values.copy()
        along, out = (values, result) if axis == 0 else (values.T, result.T)
        for step in range(1, reach + 1):
            function(out[step:], along[:-step], out=out[step:])
            function(out[:-step], along[step:], out=out[:-step])
        values = result
    return values


def _marked(
    colour: tuple[NDArray[np.uint8], NDArray[np.uint8]], changed: Mask, markers: Mapping[str, Colour]
) -> dict[str, Mask]:
    """Give every changed pixel of a clear colour to the marker of the nearest hue, where that is near enough."""
    names = list(markers)
    swatches = Image.new("RGB", (len(names), 1))
    swatches.putdata([markers[name] for name in names])
    wanted = _from_grey(*np.moveaxis(np.asarray(swatches.convert("YCbCr"))[0, :, 1:], 1, 0))
    pixels = _from_grey(colour[0][changed], colour[1][changed])
    apart = np.abs(np.angle(pixels[:, None] / wanted, deg=True))
    near = (apart.min(axis=1) <= HUE_TOLERANCE) & (np.abs(pixels) >= LEAST_SATURATION)
    masks = {}
    for number, name in enumerate(names):
        masks[name] = np.zeros_like(changed)
        masks[name][changed] = near & (apart.argmin(axis=1) == number)
    return masks


def _from_grey(blue: NDArray[np.uint8], red: NDArray[np.uint8]) -> NDArray[np.complex64]:
    """Return Cb and Cr as one number in the complex plane, grey at 0: its angle is the hue."""
    return (blue.astype(np.float32) - 128 + 1j * (red.astype(np.float32) - 128)).astype(np.complex64)
