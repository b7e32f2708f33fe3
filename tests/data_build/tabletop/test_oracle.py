from __future__ import annotations

import io
import random
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from data_build.tabletop.draw import draw
from data_build.tabletop.edits import EDIT_KINDS, TWO_REFERENCE_KINDS, Edit, apply_edit, sample_pair
from data_build.tabletop.oracle import read_scene, score, to_array
from data_build.tabletop.world import COLOURS, GROUNDS, KINDS, SIZES, Scene, Shape

ALL_KINDS = EDIT_KINDS + TWO_REFERENCE_KINDS
Change = Callable[[Image.Image], Image.Image]
RED = Shape("circle", "red", "large", 0, 1)
BLUE = Shape("square", "blue", "small", 2, 3)
GREEN = Shape("triangle", "green", "large", 3, 0)
SOURCE = Scene("white", (RED, BLUE, GREEN))
TARGET = apply_edit(SOURCE, Edit("recolour", subject=RED, value="purple"))


def pairs_of_scenes(per_kind: int, seed: int = 0) -> list[tuple[Scene, Scene]]:
    rng = random.Random(seed)
    drawn = [sample_pair(rng, "test", (kind,)) for kind in ALL_KINDS for _ in range(per_kind)]
    return [(scene, apply_edit(scene, edit)) for scene, edit in drawn]


SCENES = pairs_of_scenes(8)


def jpeg(image: Image.Image, quality: int = 85) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer)


def shift(image: Image.Image, down: int, right: int) -> Image.Image:
    padded = np.pad(np.asarray(image), ((1, 1), (1, 1), (0, 0)), mode="edge")
    return Image.fromarray(padded[1 - down : 65 - down, 1 - right : 65 - right].copy())


def brighten(image: Image.Image, factor: float) -> Image.Image:
    return from_values(np.asarray(image) * factor)


def there_and_back(image: Image.Image, size: int) -> Image.Image:
    return image.resize((size, size)).resize((64, 64))


def blur(image: Image.Image, sigma: float) -> Image.Image:
    return from_values(gaussian_filter(np.asarray(image, float), (sigma, sigma, 0), mode="nearest"))


def noise(image: Image.Image, sigma: float) -> Image.Image:
    return from_values(np.asarray(image) + np.random.default_rng(0).normal(0, sigma, (64, 64, 3)))


def from_values(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Image.Image:
    return Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8))


UNNOTICED: dict[str, Change] = {
    "nothing": lambda image: image,
    "JPEG of quality 85": jpeg,
    "JPEG of quality 95": lambda image: jpeg(image, 95),
    "one pixel down and left": lambda image: shift(image, 1, -1),
    "one pixel up": lambda image: shift(image, -1, 0),
    "one pixel right": lambda image: shift(image, 0, 1),
    "5 % darker": lambda image: brighten(image, 0.95),
    "5 % brighter": lambda image: brighten(image, 1.05),
    "resized to 200 and back": lambda image: there_and_back(image, 200),
    "resized to 512 and back": lambda image: there_and_back(image, 512),
    "blurred by 0.4": lambda image: blur(image, 0.4),
    "noise of 3": lambda image: noise(image, 3),
    "shifted and JPEG": lambda image: jpeg(shift(image, 1, 1)),
    "darker and JPEG": lambda image: jpeg(brighten(image, 0.95)),
}


@pytest.mark.parametrize("change", UNNOTICED.values(), ids=UNNOTICED.keys())
def test_what_a_viewer_would_not_notice_changes_next_to_nothing(change: Change) -> None:
    scores = [score(change(draw(target)), source, target) for source, target in SCENES]

    assert all(result.success for result in scores)
    assert min(result.overall for result in scores) >= 0.9
    assert np.mean([result.overall for result in scores]) >= 0.99


@pytest.mark.parametrize("resolution", [64, 65, 68, 72, 80, 100, 200, 512])
def test_any_resolution_is_read(resolution: int) -> None:
    for source, target in SCENES[::22]:
        assert score(draw(target, resolution), source, target).success


def test_the_true_edit_has_full_marks() -> None:
    for source, target in SCENES:
        result = score(draw(target), source, target)
        assert (result.instruction, result.consistency, result.quality) == (1, 1, 1)


def test_the_unedited_source_keeps_everything_and_does_nothing() -> None:
    for source, target in SCENES:
        result = score(draw(source), source, target)
        assert not result.success
        assert (result.instruction, result.consistency, result.quality) == pytest.approx((0, 1, 1), abs=5e-3)
        assert result.overall < 0.08


def changed(scene: Scene, shape: Shape, **values: str) -> Scene:
    fields = {"kind": shape.kind, "colour": shape.colour, "size": shape.size, **values}
    return scene.without(shape).with_shapes(Shape(**fields, row=shape.row, column=shape.column))


@pytest.mark.parametrize(
    "wrong",
    [
        *(changed(TARGET, BLUE, colour=colour) for colour in COLOURS if colour != "blue"),
        *(changed(TARGET, BLUE, kind=kind) for kind in KINDS if kind != "square"),
        *(changed(TARGET, GREEN, kind=kind) for kind in KINDS if kind != "triangle"),
        changed(TARGET, BLUE, size="large"),
        changed(TARGET, GREEN, size="small"),
        *(Scene(ground, TARGET.shapes) for ground in GROUNDS if ground != "white"),
        TARGET.without(BLUE).with_shapes(BLUE.at((2, 2))),
        TARGET.without(BLUE).with_shapes(BLUE.at((0, 0))),
        TARGET.without(GREEN),
        TARGET.with_shapes(Shape("cross", "yellow", "small", 1, 1)),
        changed(TARGET, TARGET.shapes[0], colour="green"),
    ],
    ids=lambda scene: " ".join([scene.ground, *(f"{'-'.join(s.look)}@{s.row}{s.column}" for s in scene.shapes)]),
)
def test_a_wrong_scene_is_a_failure_and_costs_points(wrong: Scene) -> None:
    result = score(draw(wrong), SOURCE, TARGET)

    assert not result.success
    assert min(result.instruction, result.consistency) < 0.97
    assert result.quality == 1


@pytest.mark.parametrize("opacity", [0.3, 0.5])
def test_an_edit_that_is_half_done_is_a_failure(opacity: float) -> None:
    for source, target in SCENES:
        result = score(Image.blend(draw(source), draw(target), opacity), source, target)
        assert not result.success
        assert result.instruction < 0.85


def test_the_old_shape_shining_through_at_forty_percent_is_nearly_always_seen() -> None:
    taken_in = [score(Image.blend(draw(a), draw(b), 0.6), a, b).success for a, b in SCENES]
    assert sum(taken_in) <= 0.05 * len(taken_in)


def test_a_shape_that_is_half_transparent_is_a_failure() -> None:
    for source, target in SCENES:
        if target.shapes:
            faded = Image.blend(draw(target), draw(target.without(target.shapes[0])), 0.5)
            assert not score(faded, source, target).success


@pytest.mark.parametrize("opacity", [0.45, 0.5, 0.6])
@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("kind", KINDS)
def test_two_sizes_that_shine_through_each_other_are_neither(kind: str, ground: str, opacity: float) -> None:
    small, large = (draw(Scene(ground, (Shape(kind, "red", size, 1, 1),))) for size in SIZES)

    assert read_scene(Image.blend(small, large, opacity)).cells == {(1, 1): None}


def test_a_part_of_the_way_counts_and_counts_half_until_it_reads_as_wanted() -> None:
    results = [score(Image.blend(draw(SOURCE), draw(TARGET), share), SOURCE, TARGET) for share in (0.25, 0.5, 0.75)]

    assert [result.instruction for result in results] == pytest.approx([0.125, 0.25, 0.75], abs=0.12)
    assert all(result.consistency == 1 for result in results)


def test_every_lost_shape_costs_its_share_of_consistency() -> None:
    # Four things are to be kept: two shapes, the empty cells and the ground. Half the score is the least of them: 0.
    assert score(draw(TARGET.without(BLUE)), SOURCE, TARGET).consistency == pytest.approx(3 / 8)
    assert score(draw(TARGET.without(BLUE, GREEN)), SOURCE, TARGET).consistency == pytest.approx(2 / 8)


def test_the_faintest_shape_counts_as_much_as_the_brightest() -> None:
    for kind, colour, ground in (("triangle", "red", "brown"), ("square", "yellow", "black")):
        kept, edited = Shape(kind, colour, "small", 1, 1), Shape("cross", "cyan", "large", 3, 3)
        source, target = Scene(ground, (kept, edited)), Scene(ground, (kept,))
        assert score(draw(Scene(ground, ())), source, target).consistency == pytest.approx(1 / 3)


def test_quality_falls_with_blur_and_noise_and_not_with_mistakes() -> None:
    picture = draw(TARGET)

    qualities = [score(blur(picture, sigma), SOURCE, TARGET).quality for sigma in (0, 0.4, 1.5, 3)]
    assert qualities[:2] == [1, 1]
    assert qualities[1] > qualities[2] > qualities[3]
    assert score(noise(picture, 40), SOURCE, TARGET).quality < 0.5
    assert score(Image.new("RGB", (64, 64)), SOURCE, TARGET).quality == 1


@pytest.mark.parametrize("colour", [(0, 0, 0), (128, 0, 128), COLOURS["red"], COLOURS["purple"]])
def test_a_picture_of_one_colour_is_scored_low(colour: tuple[int, int, int]) -> None:
    result = score(Image.new("RGB", (64, 64), colour), SOURCE, TARGET)

    assert not result.success
    assert result.overall < 0.6


def test_random_pixels_are_scored_low() -> None:
    random_pixels = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))

    for source, target in SCENES:
        result = score(random_pixels, source, target)
        assert not result.success
        assert result.overall < 0.3


def test_scores_are_between_0_and_1_and_overall_follows_from_them() -> None:
    rng = np.random.default_rng(0)
    for source, target in SCENES:
        other = SCENES[int(rng.integers(len(SCENES)))][1]
        result = score(Image.blend(draw(target), draw(other), float(rng.random())), source, target)
        parts = (result.instruction, result.consistency, result.quality)
        assert all(0 <= part <= 1 for part in parts)
        assert result.overall == pytest.approx((min(parts[:2]) * parts[2]) ** 0.5)


def test_reading_a_scene_gives_ground_and_cells() -> None:
    for _, target in SCENES:
        reading = read_scene(draw(target))
        assert reading.ground == target.ground
        assert reading.cells == target.cells()
        assert reading.residuals.shape == (16,)


def test_pictures_of_any_mode_and_size_become_the_analysis_array() -> None:
    assert to_array(Image.new("L", (10, 20), 51)).shape == (64, 64, 3)
    assert to_array(Image.new("RGBA", (300, 200), (51, 102, 255, 255)))[5, 5] == pytest.approx([0.2, 0.4, 1.0])
