"""Draw a scene with anti-aliasing at any resolution."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from data_build.tabletop.world import COLOURS, GRID, GROUNDS, Scene

RADIUS = {"small": 0.25, "large": 0.42}
"""Half the extent of a shape, in cells."""

ARM = 0.34
"""Half the width of a cross's arms, in radii."""


def _inside(kind: str, x: NDArray[np.float64], y: NDArray[np.float64], radius: float) -> NDArray[np.bool_]:
    """Say which points lie in a shape centred at the origin; x grows to the right and y downwards, in cells."""
    if kind == "circle":
        return np.asarray(x**2 + y**2 < radius**2)
    if kind == "square":
        return np.maximum(np.abs(x), np.abs(y)) < 0.88 * radius
    if kind == "triangle":
        height_share = (y + radius) / (1.85 * radius)  # 0 at the apex, 1 at the base
        return (height_share > 0) & (height_share < 1) & (np.abs(x) < radius * height_share)
    if kind == "cross":
        reach = np.maximum(np.abs(x), np.abs(y)) < radius
        return reach & (np.minimum(np.abs(x), np.abs(y)) < ARM * radius)
    raise ValueError(f"expected a kind of shape, got {kind!r}")


@lru_cache(maxsize=512)
def coverage(kind: str, size: str, row: int, column: int, resolution: int) -> NDArray[np.float32]:
    """Return the share of each pixel that the shape covers, [resolution, resolution] in 0..1."""
    samples = 8 if resolution <= 128 else 4
    points = (np.arange(resolution * samples) + 0.5) * GRID / (resolution * samples)
    x, y = np.meshgrid(points - column - 0.5, points - row - 0.5)
    inside = _inside(kind, x, y, RADIUS[size])
    blocks = inside.reshape(resolution, samples, resolution, samples)
    share: NDArray[np.float32] = blocks.mean(axis=(1, 3), dtype=np.float64).astype(np.float32)
    share.flags.writeable = False
    return share


def draw_array(scene: Scene, resolution: int = 64) -> NDArray[np.float32]:
    """Draw a scene as an array [resolution, resolution, 3] with values in 0..255."""
    picture = np.empty((resolution, resolution, 3), np.float32)
    picture[:] = GROUNDS[scene.ground]
    for shape in scene.shapes:
        share = coverage(shape.kind, shape.size, shape.row, shape.column, resolution)[..., None]
        picture += share * (np.asarray(COLOURS[shape.colour], np.float32) - picture)
    return picture


def draw(scene: Scene, resolution: int = 64) -> Image.Image:
    """Draw a scene as an RGB picture of resolution x resolution pixels."""
    return Image.fromarray(np.rint(draw_array(scene, resolution)).astype(np.uint8), "RGB")
