"""Changes are told from re-rendering, and marks from other changes."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageChops, ImageDraw
from scipy import ndimage

from data_build.puzzles.changes import Mask, Source, UnreadableEditError, find_change, neighbourhood, widen

MARKERS = {"red": (220, 30, 40), "blue": (40, 80, 220)}


def page(resolution: int = 256) -> Image.Image:
    image = Image.new("RGB", (resolution, resolution), "white")
    ImageDraw.Draw(image).text((20, 20), "an unedited page", "black", font_size=24)
    return image


def with_box(colour: str | tuple[int, int, int], resolution: int = 256) -> Image.Image:
    image = page(resolution)
    ImageDraw.Draw(image).rectangle((100, 100, 139, 119), colour)
    return image


def area(mask: Mask) -> int:
    return int(np.count_nonzero(mask))


def test_an_unedited_picture_has_no_change() -> None:
    change = find_change(Source(page()), page(), MARKERS)

    assert not change.other.any()
    assert not any(mask.any() for mask in change.marked.values())


@pytest.mark.parametrize("colour", [(220, 30, 40), (170, 20, 30), (255, 120, 120)])
def test_marks_are_known_by_their_hue_in_any_shade(colour: tuple[int, int, int]) -> None:
    change = find_change(Source(page()), with_box(colour), MARKERS)

    assert area(change.marked["red"]) == 800
    assert not change.marked["blue"].any()
    assert not change.other.any()


def test_each_mark_belongs_to_the_marker_of_the_nearest_hue() -> None:
    image = with_box((40, 80, 220))
    ImageDraw.Draw(image).rectangle((20, 200, 39, 209), (200, 60, 40))

    change = find_change(Source(page()), image, MARKERS)

    assert area(change.marked["blue"]) == 800
    assert area(change.marked["red"]) == 200


@pytest.mark.parametrize("colour", ["black", (0, 160, 60), "grey"])
def test_another_colour_is_another_change(colour: str | tuple[int, int, int]) -> None:
    change = find_change(Source(page()), with_box(colour), MARKERS)

    assert not any(mask.any() for mask in change.marked.values())
    assert area(change.other) >= 700  # of 800; less the reach of what was there


def test_what_was_there_in_the_marker_s_colour_is_no_mark() -> None:
    change = find_change(Source(with_box((220, 30, 40))), with_box((220, 30, 40)), MARKERS)

    assert not change.marked["red"].any()


def test_a_removed_thing_is_another_change() -> None:
    change = find_change(Source(page()), Image.new("RGB", (256, 256), "white"), MARKERS)

    assert change.other.any()


def test_a_picture_of_the_same_shape_is_scaled_and_of_another_is_refused() -> None:
    change = find_change(Source(page(512)), with_box((220, 30, 40), 512).resize((400, 400)), MARKERS)
    assert area(change.marked["red"]) == pytest.approx(800, rel=0.15)
    find_change(Source(page(512)), page(512).resize((512, 505)), MARKERS)
    with pytest.raises(UnreadableEditError, match="expected the shape of the source, 512 x 512, got 512 x 400"):
        find_change(Source(page(512)), page(512).resize((512, 400)), MARKERS)


def test_another_picture_is_refused() -> None:
    with pytest.raises(UnreadableEditError, match="100% of the picture changed"):
        find_change(Source(Image.new("RGB", (64, 64), "white")), Image.new("RGB", (64, 64), "black"), MARKERS)


@pytest.mark.parametrize("shift", [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if (x, y) != (0, 0)])
@pytest.mark.parametrize("start", [60, 61])
def test_coloured_strokes_may_move_by_a_pixel_wherever_they_stand(start: int, shift: tuple[int, int]) -> None:
    image = page(512)
    pen = ImageDraw.Draw(image)
    pen.rectangle((start, 200, start + 1, 300), MARKERS["red"])  # two pixels wide, a pair in one reading only
    pen.rectangle((200, start, 300, start + 1), MARKERS["red"])
    pen.text((start, 400), "-13", MARKERS["red"], font_size=24)

    change = find_change(Source(image), ImageChops.offset(image, *shift), {"blue": MARKERS["blue"]})

    assert not change.other.any()


@pytest.mark.parametrize("shape", [(40, 30), (3, 2)])
@pytest.mark.parametrize("reach", [1, 2, 3, 4, 7])
def test_widening_equals_scipy_s_dilation(reach: int, shape: tuple[int, int]) -> None:
    mask = np.random.default_rng(0).random(shape) < 0.03
    mask[0, -1] = True
    square = np.ones((2 * reach + 1, 2 * reach + 1), dtype=bool)

    assert (widen(mask, reach) == ndimage.binary_dilation(mask, square)).all()


def test_content_may_move_by_more_pixels_in_larger_pictures() -> None:
    assert [neighbourhood(resolution) for resolution in (64, 256, 512, 1024)] == [1, 1, 2, 4]
