"""Faces are straightened as least squares would have it, and their pixels are where landmarks say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from bench.evaluators.faces.alignment import ARCFACE, DLIB, Template, align, similarity_transform
from bench.evaluators.faces.face import Point

coordinates = st.floats(-500, 500)
points = st.lists(st.tuples(coordinates, coordinates), min_size=5, max_size=5)


def spread(of: list[Point]) -> float:
    return float(np.ptp(np.asarray(of), axis=0).max())


@given(source=points.filter(lambda some: spread(some) > 1), target=points)
def test_no_other_turn_scale_and_shift_is_nearer(source: list[Point], target: list[Point]) -> None:
    rows, values = [], []
    for (x, y), (u, v) in zip(source, target, strict=True):
        rows += [[x, -y, 1, 0], [y, x, 0, 1]]
        values += [u, v]
    a, b, tx, ty = np.linalg.lstsq(np.array(rows), np.array(values), rcond=None)[0]
    np.testing.assert_allclose(similarity_transform(source, target), [[a, -b, tx], [b, a, ty]], atol=1e-4)


@pytest.mark.parametrize("bad", [[(3.0, 3.0)] * 5, [(float("nan"), 0.0), (1.0, 1.0)]])
def test_points_that_are_one_have_no_transform(bad: list[Point]) -> None:
    with pytest.raises(ValueError, match="landmarks that differ"):
        similarity_transform(bad, [(0.0, 0.0)] * len(bad))


def marked(template: Template, turn: float, scale: float, shift: Point) -> tuple[Image.Image, list[Point]]:
    """Return a black picture with a white disc on each landmark of a turned, scaled and shifted template."""
    matrix = scale * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    landmarks = [tuple(matrix @ np.array(point) + np.array(shift)) for point in template.points]
    image, radius = Image.new("RGB", (900, 900)), 3 * scale
    for x, y in landmarks:
        ImageDraw.Draw(image).ellipse((x - radius, y - radius, x + radius, y + radius), fill="white")
    return image, [(float(x), float(y)) for x, y in landmarks]


@pytest.mark.parametrize("template", [ARCFACE, DLIB, ARCFACE.scaled(256)])
@pytest.mark.parametrize(("turn", "scale", "shift"), [(0.0, 1.0, (80.0, 90.0)), (0.6, 2.4, (300.0, 90.0))])
def test_landmarks_end_where_the_template_has_them(template: Template, turn: float, scale: float, shift: Point) -> None:
    chip = np.asarray(align(*marked(template, turn, scale, shift), template))[..., 0].astype(float)
    assert chip.shape == (template.size, template.size)
    for x, y in template.points:
        rows, columns = np.mgrid[: template.size, : template.size]
        near = chip * (np.hypot(columns - x, rows - y) < 5)
        assert near.sum() > 0
        np.testing.assert_allclose(
            [(near * columns).sum() / near.sum(), (near * rows).sum() / near.sum()], [x, y], atol=0.6
        )


def test_beyond_the_border_pixels_are_repeated() -> None:
    image = Image.new("RGB", (40, 40), (10, 200, 30))
    landmarks = [(x - 60, y - 50) for x, y in ARCFACE.points]
    assert align(image, landmarks, ARCFACE).getcolors() == [(112 * 112, (10, 200, 30))]


def test_a_large_face_is_averaged_and_not_sampled() -> None:
    fine = np.indices((1120, 1120)).sum(axis=0) % 2 * 255
    image = Image.fromarray(np.repeat(fine[..., None].astype(np.uint8), 3, axis=2))
    chip = np.asarray(align(image, [(10 * x, 10 * y) for x, y in ARCFACE.points], ARCFACE))
    assert np.abs(chip[2:-2, 2:-2].astype(int) - 127).max() <= 2


def test_a_scaled_template_keeps_the_middles_of_pixels_apart() -> None:
    assert ARCFACE.scaled(112) == ARCFACE
    doubled = ARCFACE.scaled(224)
    np.testing.assert_allclose(np.asarray(doubled.points) + 0.5, 2 * (np.asarray(ARCFACE.points) + 0.5))
