"""Monitors against PIL, scipy and hand numbers; and the signs of a policy that games its reward."""

from __future__ import annotations

import colorsys
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageFilter, ImageStat
from scipy.ndimage import laplace
from scipy.stats import entropy

from gnomon.errors import UserError
from rl.monitors import (
    PICTURE_MONITORS,
    HackingSettings,
    HackingWatch,
    colour_entropy,
    hacking_signs,
    image_monitors,
    saturation,
    sharpness,
    source_distance,
    to_pixels,
)

Point = dict[str, float]


def noise(seed: int, size: tuple[int, int] = (24, 16)) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def test_monitors_of_plain_pictures() -> None:
    red = Image.new("RGB", (64, 64), (255, 0, 0))
    grey = Image.new("RGB", (64, 64), (128, 128, 128))
    board = Image.fromarray((np.indices((64, 64)).sum(axis=0) % 2 * 255).astype(np.uint8)).convert("RGB")
    monitors = image_monitors([red, grey, board], [[red], [red.resize((32, 32))], []])
    assert tuple(monitors) == PICTURE_MONITORS
    assert monitors["sharpness"][:2].tolist() == [0.0, 0.0]
    assert monitors["sharpness"][2].item() == pytest.approx(4.0)  # the sharpest picture there is
    assert monitors["saturation"].tolist() == [1.0, 0.0, 0.0]
    assert monitors["entropy"].tolist() == [0.0, 0.0, 1.0]  # one colour, one colour, two halves
    assert monitors["source_distance"][0].item() == 0.0
    assert monitors["source_distance"][1].item() == pytest.approx((127 + 128 + 128) / 3 / 255)
    assert math.isnan(monitors["source_distance"][2].item())


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (2, 50), (50, 2)])
def test_a_picture_without_an_inside_has_no_sharpness_and_stops_nothing(size: tuple[int, int]) -> None:
    picture = noise(0, size)
    monitors = image_monitors([picture], [[picture]])
    assert math.isnan(monitors["sharpness"].item())
    assert monitors["source_distance"].item() == 0.0


def test_no_pictures_give_no_values() -> None:
    assert [values.tolist() for values in image_monitors([], []).values()] == [[]] * len(PICTURE_MONITORS)


def test_sharpness_is_the_spread_of_scipys_laplacian_and_falls_with_blur() -> None:
    picture = noise(0)
    luma = to_pixels(picture) @ np.array([0.299, 0.587, 0.114])
    assert sharpness(to_pixels(picture)) == pytest.approx(laplace(luma)[1:-1, 1:-1].std())
    blurred = picture.filter(ImageFilter.GaussianBlur(1))
    assert sharpness(to_pixels(blurred)) < 0.3 * sharpness(to_pixels(picture))


def test_saturation_is_the_chroma_of_hsv() -> None:
    picture = noise(1)
    hsv = [colorsys.rgb_to_hsv(*pixel) for pixel in to_pixels(picture).reshape(-1, 3)]
    assert saturation(to_pixels(picture)) == pytest.approx(np.mean([s * v for _, s, v in hsv]))
    assert saturation(to_pixels(picture.convert("L"))) == 0.0


def test_entropy_is_that_of_scipy_over_512_colours_and_of_pillow_for_greys() -> None:
    picture = noise(2)
    cells, _ = np.histogramdd(np.asarray(picture).reshape(-1, 3), bins=[np.arange(0, 257, 32)] * 3)
    assert colour_entropy(picture) == pytest.approx(entropy(cells.ravel(), base=2))
    levels = picture.convert("L").point(lambda value: value // 32 * 32)
    assert colour_entropy(levels) == pytest.approx(levels.entropy())
    assert 8.5 < colour_entropy(noise(3, (256, 256))) <= 9.0


def test_a_wiped_background_lowers_the_entropy() -> None:
    wiped = noise(4)
    wiped.paste((200, 200, 200), (0, 0, 24, 10))
    assert colour_entropy(wiped) < 0.7 * colour_entropy(noise(4))


def test_the_distance_is_that_of_pillow() -> None:
    one, other = noise(5), noise(6)
    expected = np.mean(ImageStat.Stat(ImageChops.difference(one, other)).mean) / 255
    assert source_distance(to_pixels(one), other) == pytest.approx(expected)


# --------------------------------------------------------------------------------------------------- signs of hacking


def history(length: int = 8, wobble: float = 0.0, **slopes: float) -> list[Point]:
    """Straight lines that start at 1, with the slopes given; the reward wobbles as much as the others."""
    rng = np.random.default_rng(0)
    return [
        {name: 1 + slope * place + wobble * rng.normal() for name, slope in {"reward": 0.1, **slopes}.items()}
        for place in range(length)
    ]


def signs(points: list[Point], judges: tuple[str, ...] = (), **changes: Any) -> list[str]:
    return [sign.name for sign in hacking_signs(points, judges=judges, settings=HackingSettings(**changes))]


def test_a_statistic_that_falls_while_the_reward_climbs_is_a_sign_with_its_numbers() -> None:
    (sign,) = hacking_signs(history(sharpness=-0.05, entropy=0.02, saturation=0.0))
    assert (sign.name, sign.num_points) == ("sharpness", 8)
    assert (sign.before, sign.after) == pytest.approx((1.0, 0.65))
    assert sign.reward_gain == pytest.approx(0.7)
    assert "reward climbed by 0.7 while sharpness fell from 1 to 0.65 (over 8 points)" in str(sign)


def test_a_held_out_judge_that_falls_at_all_is_a_sign_but_a_statistic_must_fall_by_a_share() -> None:
    points = history(oracle=-0.005, entropy=-0.005)
    assert signs(points, judges=("oracle",)) == ["oracle"]
    assert signs(points, judges=("oracle",), min_fall=0.03) == ["oracle", "entropy"]
    below_zero = [{**point, "oracle": point["oracle"] - 5} for point in points]  # a judge's scale is its own
    assert signs(below_zero, judges=("oracle",)) == ["oracle"]


@pytest.mark.parametrize("reward", [0.0, -0.1])
def test_without_a_climbing_reward_there_is_no_sign(reward: float) -> None:
    assert signs(history(reward=reward, sharpness=-0.05)) == []


def test_what_rises_or_stands_is_no_sign() -> None:
    assert signs(history(sharpness=0.05, saturation=0.0, entropy=0.1), judges=("oracle",)) == []


def test_a_trend_within_the_noise_is_no_sign_and_one_beyond_it_is() -> None:
    assert signs(history(wobble=0.02, sharpness=-0.05)) == ["sharpness"]
    assert signs(history(wobble=0.5, sharpness=-0.05)) == []


def test_only_the_window_counts_and_it_must_be_half_full() -> None:
    fell_long_ago = history(8, sharpness=-0.05) + [{"reward": 2 + 0.1 * k, "sharpness": 0.6} for k in range(8)]
    assert signs(fell_long_ago) == []
    assert signs(history(4, sharpness=-0.1)) == []
    assert signs(history(5, sharpness=-0.1)) == ["sharpness"]
    assert signs(history(5, sharpness=-0.1), window=12) == []
    assert signs(history(6, sharpness=-0.1), window=12) == ["sharpness"]


def test_a_monitor_without_a_value_in_some_point_is_left_out() -> None:
    points = history(sharpness=-0.05, source_distance=-0.05)
    points[3]["source_distance"] = math.nan
    assert signs(points) == ["sharpness"]
    del points[3]["sharpness"]
    assert signs(points) == []
    points[2]["reward"] = math.nan
    assert signs(points, judges=("oracle",)) == []


def test_noise_is_hardly_ever_a_sign() -> None:
    # Both trends must beat chance at p = .02: one look in 2500.
    rng = np.random.default_rng(0)
    looks = [[{"reward": r, "sharpness": 10 + s} for r, s in rng.normal(size=(8, 2))] for _ in range(150)]
    assert sum(len(hacking_signs(points)) for points in looks) <= 1


@settings(max_examples=20)
@given(st.floats(0.5, 100), st.floats(-10, 10))
def test_the_scale_of_the_reward_does_not_matter(scale: float, shift: float) -> None:
    points = [{**point, "reward": scale * point["reward"] + shift} for point in history(wobble=0.02, sharpness=-0.05)]
    assert signs(points) == ["sharpness"]


def test_the_watch_says_a_sign_once_until_it_has_gone_and_come_again() -> None:
    watch = HackingWatch(judges=("oracle",))
    said = [watch.update(point) for point in history(8, oracle=-0.05, sharpness=-0.05)]
    assert [[sign.name for sign in new] for new in said] == [[]] * 4 + [["oracle", "sharpness"]] + [[]] * 3
    for _ in range(8):
        assert watch.update({"reward": 2.0, "oracle": 1.0, "sharpness": 0.5}) == []
    assert watch.shown == []
    again = [watch.update({"reward": 2 + k, "oracle": 1 - k, "sharpness": 0.5}) for k in range(8)]
    assert [sign.name for new in again for sign in new] == ["oracle"]


def test_a_resumed_watch_goes_on_as_if_it_had_not_stopped() -> None:
    points = history(8, oracle=-0.05)
    whole, first = HackingWatch(judges=("oracle",)), HackingWatch(judges=("oracle",))
    expected = [[str(sign) for sign in whole.update(point)] for point in points]
    for point in points[:4]:
        first.update(point | {"not watched": 1.0})
    state = json.loads(json.dumps(first.state_dict()))
    resumed = HackingWatch(judges=("oracle",))
    resumed.load_state_dict(state)
    assert [[str(sign) for sign in resumed.update(point)] for point in points[4:]] == expected[4:]
    assert resumed.state_dict() == whole.state_dict()


@pytest.mark.parametrize("change", [{"window": 4}, {"p_value": 0.0}, {"p_value": 1.0}, {"min_fall": 1.0}])
def test_settings_out_of_range_are_named(change: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"hacking.{next(iter(change))}"):
        HackingSettings(**change)
