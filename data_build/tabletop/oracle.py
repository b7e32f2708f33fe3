"""The oracle: reads a scene from pixels and scores an edit against what the scene graph says.

It never sees how the picture was made. A cell is explained by the clean shape that leaves the smallest residual
(analysis by synthesis): for every kind, size and shift by at most one pixel the best colour is found by least
squares. Cells are compared as brightness at full and colour at half resolution, as the eye and JPEG see them, so that
what a viewer would not notice (a shift by one pixel, compression, a mild change of brightness or sharpness) changes
next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from data_build.tabletop.draw import coverage
from data_build.tabletop.world import COLOURS, GRID, GROUNDS, KINDS, SIZES, Scene

RESOLUTION = 64
"""Pixels per side at which pictures are analysed; larger ones are averaged down, smaller ones enlarged."""

CELL = RESOLUTION // GRID
NUM_CELLS = GRID * GRID
SHIFTS = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
LOOKS = [(kind, size) for kind in KINDS for size in SIZES]

EMPTY_RESIDUAL = 0.035
"""Distance from the bare ground below which a cell counts as empty; the faintest shape has twice as much."""

CLEAR_RESIDUAL, CLEAR_SHARE = 0.085, 0.5
"""Residual, and residual as a share of the distance from the ground, above which a cell's content is called unclear."""

COLOUR_TOLERANCE = 0.17
"""Largest Euclidean distance (0..1 a channel) from a named colour that bears its name; half-blends lie beyond."""

BLEND_SHARE, BLEND_GAIN = 0.3, 0.6
"""A cell is unclear, too, where a second look with at least this share explains this part of the residual energy."""

SHAPE_SLACK, SHAPE_SPAN = 0.045, 0.22
EMPTY_SLACK, EMPTY_SPAN = 0.03, 0.07
GROUND_SLACK, GROUND_SPAN = 0.05, 0.2
QUALITY_SLACK, QUALITY_SPAN = 0.04, 0.08
WAY_SLACK = 0.12
SMALLEST = 0.01
"""Distances below this count as none: a red shape on a ground that came out red can neither be kept nor removed."""

LUMA_CHROMA = np.array([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])
"""RGB to brightness and two colour differences (ITU-R BT.601, as in JPEG)."""

Array = NDArray[np.float64]
Look = tuple[str, str, str]

MISREAD = 0.5
"""What a part of an edit is worth that is near what was wanted but does not read as it."""

_NOTHING: Look = ("", "", "")


@dataclass(frozen=True)
class Reading:
    """What the oracle sees in a picture.

    `ground` is a name or None where no named ground is near; `cells` maps filled cells to the look of their shape or
    to None where something lies there that is no clean shape; `residuals` is [16], the unexplained part of each cell.
    """

    ground: str | None
    ground_colour: Array
    cells: dict[tuple[int, int], Look | None]
    residuals: Array


@dataclass(frozen=True)
class Score:
    """The oracle's scores of one candidate, each in 0..1, and whether the edit as a whole succeeded."""

    instruction: float
    consistency: float
    quality: float
    success: bool
    reading: Reading = field(repr=False)

    @property
    def overall(self) -> float:
        """Square root of quality times the lesser of instruction and consistency, as VIEScore combines its scores."""
        return float(np.sqrt(min(self.instruction, self.consistency) * self.quality))


def to_array(image: Image.Image) -> Array:
    """Return a picture as [64, 64, 3] in 0..1, averaged or enlarged to the analysis resolution."""
    rgb = image.convert("RGB")
    if rgb.size != (RESOLUTION, RESOLUTION):
        shrinks = min(rgb.size) >= RESOLUTION
        method = Image.Resampling.HAMMING if shrinks else Image.Resampling.BICUBIC
        rgb = rgb.resize((RESOLUTION, RESOLUTION), method)
    return np.asarray(rgb, np.float64) / 255


def read_scene(image: Image.Image) -> Reading:
    """Read ground and shapes from pixels."""
    return _read(_Seen.of(image))


def score(image: Image.Image, source: Scene, target: Scene) -> Score:
    """Score a candidate for the edit that turns `source` into `target`.

    *Instruction* is the share of the way from source to target that the changed cells went, less what is neither; a
    changed ground counts as one more element. *Consistency* is how well every other shape, the empty cells and an
    unedited ground were kept: 0 for a shape that is gone. What does not read as it should counts half, and a score is
    half the mean and half the least of its parts, since one wrong thing spoils an edit for a viewer. *Quality* is how
    cleanly the picture consists of shapes on a ground at all. *Success* means that the reading is the target scene.
    """
    seen = _Seen.of(image)
    reading = _read(seen)
    before, wanted = _contents(source), _contents(target)
    changed = [index for index in range(NUM_CELLS) if before[index] != wanted[index]]
    read = [
        reading.cells.get(divmod(index, GRID), _NOTHING) == (wanted[index] or _NOTHING) for index in range(NUM_CELLS)
    ]
    ground_read = reading.ground == target.ground
    instruction = [_went(seen, index, before[index], wanted[index]) * _weight(read[index]) for index in changed]
    same = [index for index in range(NUM_CELLS) if before[index] == wanted[index]]
    kept = [
        _shape_kept(seen, index, look) * _weight(read[index]) for index in same if (look := wanted[index]) is not None
    ]
    empty = [index for index in same if wanted[index] is None]
    rest = max(seen.distance_to_ground[index] for index in empty)
    kept.append(_fading(rest, EMPTY_SLACK, EMPTY_SPAN) * _weight(all(read[index] for index in empty)))
    off = float(np.linalg.norm(seen.ground - _rgb(GROUNDS[target.ground]))) / np.sqrt(3)
    if source.ground == target.ground:
        kept.append(_fading(off, GROUND_SLACK, GROUND_SPAN) * _weight(ground_read))
    else:
        whole = float(np.linalg.norm(_rgb(GROUNDS[source.ground]) - _rgb(GROUNDS[target.ground]))) / np.sqrt(3)
        instruction.append(_fading(off, GROUND_SLACK, whole - GROUND_SLACK) * _weight(ground_read))
    quality = _fading(float(np.sort(reading.residuals)[-3:].mean()), QUALITY_SLACK, QUALITY_SPAN)
    success = ground_read and all(read)
    return Score(_combined(instruction), _combined(kept), quality, success, reading)


def _weight(reads_right: bool) -> float:
    return 1.0 if reads_right else MISREAD


def _combined(parts: list[float]) -> float:
    return (float(np.mean(parts)) + min(parts)) / 2


# ----------------------------------------------------------------------------------------------- cells as vectors


@dataclass(frozen=True)
class _Seen:
    """A picture cut into cells; a cell is a vector of 256 brightness values and twice 64 colour differences.

    Scaled so that the Euclidean norm of a difference is a root mean square over the cell; a change of all channels by
    d is d. `difference` is [16, 384], cell minus ground.
    """

    ground: Array
    difference: Array
    distance_to_ground: Array

    @staticmethod
    def of(image: Image.Image) -> _Seen:
        """Look at a picture."""
        picture = to_array(image).reshape(GRID, CELL, GRID, CELL, 3).transpose(0, 2, 1, 3, 4)
        picture = picture.reshape(NUM_CELLS, CELL, CELL, 3)
        ground = np.median(picture.reshape(NUM_CELLS, CELL * CELL, 3)[:, _gap_pixels()].reshape(-1, 3), axis=0)
        channels = (picture - ground) @ LUMA_CHROMA.T
        halved = channels[..., 1:].reshape(NUM_CELLS, CELL // 2, 2, CELL // 2, 2, 2).mean(axis=(2, 4))
        colours = halved.reshape(NUM_CELLS, -1, 2).transpose(0, 2, 1).reshape(NUM_CELLS, -1)
        brightness = channels[..., 0].reshape(NUM_CELLS, -1)
        difference = np.concatenate([brightness / CELL, colours / (CELL // 2)], axis=1)
        return _Seen(ground, difference, np.sqrt((difference**2).sum(axis=1)))

    def clean(self, look: Look | None) -> Array:
        """Return what a cell would be with a shape of this look, in all nine shifts [9, 384]."""
        if look is None:
            return np.zeros((len(SHIFTS), self.difference.shape[1]))
        kind, colour, size = look
        brightness, colours = _templates()
        chosen = LOOKS.index((kind, size)) * len(SHIFTS) + np.arange(len(SHIFTS))
        y, u, v = LUMA_CHROMA @ (_rgb(COLOURS[colour]) - self.ground)
        return np.concatenate([y * brightness[chosen], u * colours[chosen], v * colours[chosen]], axis=1)


@lru_cache(maxsize=1)
def _templates() -> tuple[Array, Array]:
    """Return the share of each pixel that a look in a shift covers: [72, 256], at half resolution [72, 64]."""
    full, half = [], []
    for kind, size in LOOKS:
        share = coverage(kind, size, 1, 1, RESOLUTION)
        for shift in SHIFTS:
            mask = np.roll(share, shift, axis=(0, 1))[CELL : 2 * CELL, CELL : 2 * CELL].astype(np.float64)
            full.append(mask.reshape(-1) / CELL)
            half.append(mask.reshape(CELL // 2, 2, CELL // 2, 2).mean(axis=(1, 3)).reshape(-1) / (CELL // 2))
    return np.stack(full), np.stack(half)


@lru_cache(maxsize=1)
def _overlaps() -> tuple[Array, Array]:
    """Return the inner products of all templates, [72, 72] at full and at half resolution."""
    full, half = _templates()
    return full @ full.T, half @ half.T


@lru_cache(maxsize=1)
def _gap_pixels() -> NDArray[np.bool_]:
    """Say which of a cell's 256 pixels no shape covers: there the ground shows."""
    covered = sum(coverage(kind, size, 0, 0, RESOLUTION)[:CELL, :CELL] for kind, size in LOOKS)
    return np.asarray(np.asarray(covered).reshape(-1) == 0)


# -------------------------------------------------------------------------------------------------------- reading


def _read(seen: _Seen) -> Reading:
    residuals = seen.distance_to_ground.copy()
    found: dict[tuple[int, int], Look | None] = {}
    for index in np.flatnonzero(residuals >= EMPTY_RESIDUAL):
        look, residuals[index] = _read_cell(seen.difference[index], seen.ground)
        found[divmod(int(index), GRID)] = look
    return Reading(_nearest(seen.ground, GROUNDS), seen.ground, found, residuals)


def _read_cell(difference: Array, ground: Array) -> tuple[Look | None, float]:
    """Explain a cell [384] by one template in one colour; return the look, if it is a clear one, and the residual."""
    full, half = _templates()
    brightness, colours = difference[: CELL * CELL], difference[CELL * CELL :].reshape(2, -1)
    # Least squares of `difference = template * (colour - ground)` for all templates and channels at once.
    products = np.stack([full @ brightness, *(half @ channel for channel in colours)])  # [3, 72]
    power = np.stack([(full**2).sum(axis=1), (half**2).sum(axis=1), (half**2).sum(axis=1)])
    left = np.maximum((difference**2).sum() - (products**2 / power).sum(axis=0), 0)
    best = int(left.argmin())
    contrast = products[:, best] / power[:, best]
    name = _nearest(ground + np.linalg.solve(LUMA_CHROMA, contrast), COLOURS)
    residual = float(np.sqrt(left[best]))
    limit = min(CLEAR_RESIDUAL, CLEAR_SHARE * float(np.linalg.norm(difference)))
    if name is None or residual >= limit or _is_blend(products, contrast, best, float(left[best])):
        return None, residual
    kind, size = LOOKS[best // len(SHIFTS)]
    return (kind, name, size), residual


def _is_blend(products: Array, contrast: Array, best: int, left: float) -> bool:
    """Say whether the best template and one of another look in the same place and colour shine through each other."""
    full, half = _overlaps()
    others = np.array([place for place in range(best % len(SHIFTS), len(full), len(SHIFTS)) if place != best])
    weights = contrast[0] ** 2, contrast[1] ** 2 + contrast[2] ** 2
    overlap = weights[0] * full + weights[1] * half
    goal = contrast @ products
    # Two-by-two least squares of the cell by a * best + b * other, for every other look.
    own, cross, other = overlap[best, best], overlap[best, others], overlap[others, others]
    determinant = own * other - cross**2
    a = (other * goal[best] - cross * goal[others]) / determinant
    b = (own * goal[others] - cross * goal[best]) / determinant
    gain = a * goal[best] + b * goal[others] - goal[best] ** 2 / own
    return bool(np.any((b > BLEND_SHARE * (a + b)) & (gain > BLEND_GAIN * left)))


def _nearest(colour: Array, palette: dict[str, tuple[int, int, int]]) -> str | None:
    """Name the palette colour nearest to `colour` (0..1), or None where none is within the tolerance."""
    distances = {name: float(np.linalg.norm(colour - _rgb(rgb))) for name, rgb in palette.items()}
    best = min(distances, key=lambda name: distances[name])
    return best if distances[best] <= COLOUR_TOLERANCE else None


# -------------------------------------------------------------------------------------------------------- scoring


def _contents(scene: Scene) -> list[Look | None]:
    cells = scene.cells()
    return [cells.get(divmod(index, GRID)) for index in range(NUM_CELLS)]


def _went(seen: _Seen, index: int, before: Look | None, wanted: Look | None) -> float:
    """Return the share of the way from `before` to `wanted` that a cell went, in the shift that fits it best."""
    cell = seen.difference[index]
    starts, ends = seen.clean(before), seen.clean(wanted)
    nearer = np.minimum(np.linalg.norm(cell - starts, axis=1), np.linalg.norm(cell - ends, axis=1))
    shift = int(nearer.argmin())
    start, way = starts[shift], ends[shift] - starts[shift]
    length = float(np.linalg.norm(way))
    if length < SMALLEST:
        return 0.0
    share = float((cell - start) @ way) / length**2
    aside = float(np.linalg.norm(cell - start - share * way))
    return _fading(abs(1 - share), WAY_SLACK, 1 - WAY_SLACK) * _fading(aside, SHAPE_SLACK, length)


def _shape_kept(seen: _Seen, index: int, look: Look) -> float:
    clean = seen.clean(look)
    distance = float(np.linalg.norm(seen.difference[index] - clean, axis=1).min())
    presence = float(np.linalg.norm(clean[len(SHIFTS) // 2]))
    return _fading(distance, SHAPE_SLACK, min(SHAPE_SPAN, presence - SHAPE_SLACK)) if presence > SHAPE_SLACK else 0.0


def _fading(distance: float, slack: float, span: float) -> float:
    """Map a distance to 1 (within the slack) .. 0 (a span beyond it)."""
    return float(np.clip(1 - (distance - slack) / span, 0, 1))


def _rgb(colour: tuple[int, int, int]) -> Array:
    return np.asarray(colour, np.float64) / 255
