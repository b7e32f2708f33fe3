from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from data_build.preferences.filters import FilterSettings, distance, noise_sigma, thumbnail, unclear_reason
from gnomon.errors import UserError


def drawing() -> Image.Image:
    """Edges and flat areas, no noise."""
    image = Image.new("RGB", (128, 128), (120, 140, 160))
    ImageDraw.Draw(image).rectangle((20, 30, 71, 90), fill=(200, 60, 40))
    return image


def noisy(image: Image.Image, sigma: float, seed: int = 0) -> Image.Image:
    """Add the same normal noise to all channels: noise of that deviation in grey."""
    pixels = np.asarray(image, dtype=np.float64)
    noise = np.random.default_rng(seed).normal(0, sigma, (*pixels.shape[:2], 1))
    return Image.fromarray(np.clip(np.rint(pixels + noise), 0, 255).astype(np.uint8))


@pytest.mark.parametrize("sigma", [5.0, 10.0, 20.0])
def test_the_noise_that_was_added_is_found(sigma: float) -> None:
    assert noise_sigma(noisy(drawing(), sigma)) == pytest.approx(sigma, rel=0.1)


def test_edges_are_no_noise() -> None:
    assert noise_sigma(drawing()) == 0
    assert noise_sigma(Image.new("RGB", (1, 1))) == 0


def test_a_candidate_as_noisy_as_its_reference_is_clear() -> None:
    candidate = noisy(drawing(), 10)

    assert unclear_reason(candidate, [noisy(drawing(), 9, seed=1)], FilterSettings()) is None
    reason = unclear_reason(candidate, [drawing()], FilterSettings())
    assert reason is not None
    assert "at most 4.00 (its references have 0.00)" in reason
    assert unclear_reason(candidate, [], FilterSettings()) is not None
    assert unclear_reason(noisy(drawing(), 3), [drawing()], FilterSettings()) is None


def test_the_noisiest_reference_counts() -> None:
    candidate = noisy(drawing(), 10)

    assert unclear_reason(candidate, [drawing(), noisy(drawing(), 9, seed=1)], FilterSettings()) is None


def test_a_small_change_is_further_than_a_copy_with_little_noise() -> None:
    changed = drawing()
    ImageDraw.Draw(changed).rectangle((96, 96, 111, 111), fill=(0, 0, 0))
    original = thumbnail(drawing())

    assert distance(original, original) == 0
    assert distance(original, thumbnail(noisy(drawing(), 1))) < FilterSettings().min_distance
    assert distance(original, thumbnail(changed)) > FilterSettings().min_distance


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 255), st.integers(0, 255))
def test_the_distance_of_flat_pictures_is_that_of_their_values(first: int, second: int) -> None:
    flat = [thumbnail(Image.new("RGB", (40, 30), (value,) * 3)) for value in (first, second)]

    assert distance(*flat) == pytest.approx(abs(first - second))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"noise_ratio": 0.5}, "noise_ratio >= 1"),
        ({"noise_floor": -1.0}, "noise_floor"),
        ({"min_distance": float("nan")}, "nan"),
    ],
)
def test_thresholds_out_of_range_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        FilterSettings(**arguments)
