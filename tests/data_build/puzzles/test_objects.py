from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from PIL import Image, ImageChops

from data_build.puzzles.changes import Source, find_change
from data_build.puzzles.grid import RED
from data_build.puzzles.objects import FILLS, SHAPES, draw_object


def picture(shape: str, fill: str = "blue") -> Image.Image:
    image = Image.new("RGB", (96, 96), "white")
    draw_object(image, (48, 48), 36, shape, fill)
    return image


@pytest.mark.parametrize("fill", FILLS)
def test_no_fill_is_taken_for_a_red_mark(fill: str) -> None:
    blank = Image.new("RGB", (96, 96), "white")

    assert not find_change(Source(blank), picture("star", fill), {"red": RED}).marked["red"].any()


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_stay_within_their_radius_and_fill_a_good_part_of_it(shape: str) -> None:
    drawn = np.asarray(picture(shape)).min(axis=2) < 255
    rows, columns = drawn.nonzero()

    assert np.hypot(rows - 48, columns - 48).max() <= 36 + 3
    assert 0.2 < drawn.sum() / (np.pi * 36**2) < 1


def test_shapes_differ() -> None:
    for first, second in combinations(SHAPES, 2):
        difference = ImageChops.difference(picture(first), picture(second)).convert("L").point([0] + [255] * 255)
        assert np.asarray(difference).mean() / 255 > 0.03, (first, second)
