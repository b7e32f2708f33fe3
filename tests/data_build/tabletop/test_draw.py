from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image

from data_build.tabletop.draw import coverage, draw, draw_array
from data_build.tabletop.world import COLOURS, GROUNDS, KINDS, SIZES, Scene, Shape

SCENE = Scene("grey", (Shape("circle", "red", "large", 0, 1), Shape("square", "blue", "small", 2, 3)))

# Areas of the four shapes in squared radii, by geometry: a disc; a square of half-width 0.88 r; a triangle of base 2 r
# and height 1.85 r; two bars of 2 r by 0.68 r less the square they share.
AREAS = {"circle": math.pi, "square": (2 * 0.88) ** 2, "triangle": 1.85, "cross": 2 * 2 * 0.68 - 0.68**2}


@pytest.mark.parametrize("resolution", [64, 200, 512])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_shape_covers_its_area_at_any_resolution(kind: str, size: str, resolution: int) -> None:
    radius = {"small": 0.25, "large": 0.42}[size] * resolution / 4

    covered = float(coverage(kind, size, 1, 2, resolution).sum())

    assert covered == pytest.approx(AREAS[kind] * radius**2, rel=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_a_shape_stays_inside_its_cell(kind: str) -> None:
    share = coverage(kind, "large", 1, 2, 64).copy()
    share[16:32, 32:48] = 0

    assert not share.any()


def test_pixels_have_the_colours_of_shape_and_ground() -> None:
    picture = np.asarray(draw(SCENE))

    assert tuple(picture[8, 24]) == COLOURS["red"]
    assert tuple(picture[40, 56]) == COLOURS["blue"]
    assert tuple(picture[0, 0]) == tuple(picture[63, 63]) == GROUNDS["grey"]


def test_edges_are_anti_aliased() -> None:
    share = coverage("circle", "large", 0, 0, 64)

    assert ((share > 0) & (share < 1)).sum() > 20


def test_a_large_drawing_reduced_is_the_small_drawing() -> None:
    small = draw_array(SCENE, 64)
    reduced = draw_array(SCENE, 512).reshape(64, 8, 64, 8, 3).mean(axis=(1, 3))

    assert np.abs(small - reduced).max() < 6
    assert np.abs(small - reduced).mean() < 0.05


def test_the_picture_is_rgb_of_the_wanted_size() -> None:
    picture = draw(SCENE, 100)

    assert isinstance(picture, Image.Image)
    assert (picture.mode, picture.size) == ("RGB", (100, 100))
