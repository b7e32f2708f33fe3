"""Straightening faces: a turn, a scale and a shift move five landmarks to where a recogniser expects them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import map_coordinates

from bench.evaluators.faces.face import Point

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Template:
    """Where the five landmarks of a face lie in a straightened picture.

    Attributes:
        size: the side of the square picture, in pixels.
        points: in the order of :class:`bench.evaluators.faces.face.Face`; whole numbers are the middles of pixels.
    """

    size: int
    points: tuple[Point, Point, Point, Point, Point]

    def scaled(self, size: int) -> Template:
        """Return the same for a picture of another size."""
        factor = size / self.size
        left_eye, right_eye, nose, left_mouth, right_mouth = (
            ((x + 0.5) * factor - 0.5, (y + 0.5) * factor - 0.5) for x, y in self.points
        )
        return Template(size, (left_eye, right_eye, nose, left_mouth, right_mouth))


ARCFACE = Template(
    112,
    ((38.2946, 51.6963), (73.5318, 51.5014), (56.0252, 71.7366), (41.5493, 92.3655), (70.7299, 92.2041)),
)
"""What ArcFace and its kin were trained on (Deng et al., arXiv 1801.07698; the numbers are those of InsightFace)."""

DLIB = Template(150, ((44.6, 36.7), (105.4, 36.7), (75.0, 70.9), (46.2, 100.4), (103.8, 100.4)))
"""What dlib's ResNet was trained on: the mean of MTCNN's landmarks over faces that dlib had straightened, mirrored."""


def similarity_transform(source: Sequence[Point], target: Sequence[Point]) -> Matrix:
    """Return the turn, scale and shift [2, 3] that moves points nearest to others in the sense of least squares.

    Points as complex numbers make it a line `a z + b`, whose fit is that of Umeyama (1991) without reflection.

    Args:
        source: two points at least that are not all one.
        target: as many.

    Raises:
        ValueError: where all points of `source` are one, or any is not finite.
    """
    first, second = (np.asarray(points, dtype=np.float64) @ np.array([1, 1j]) for points in (source, target))
    centred = first - first.mean()
    spread = np.vdot(centred, centred).real
    if not (np.isfinite(spread) and spread > 0):
        raise ValueError(f"expected landmarks that differ from each other, got {list(source)}")
    a = np.vdot(centred, second) / spread
    b = second.mean() - a * first.mean()
    return np.array([[a.real, -a.imag, b.real], [a.imag, a.real, b.imag]])


def align(image: Image.Image, landmarks: Sequence[Point], template: Template) -> Image.Image:
    """Return the straightened face as an RGB picture of the template's size; beyond the border its pixels are repeated.

    A face that is larger than the template is averaged first, so that no fine pattern turns into a coarse one.

    Args:
        image: RGB.
        landmarks: five, see :class:`bench.evaluators.faces.face.Face`.
        template: where they go.

    Raises:
        ValueError: where the landmarks are all one point.
    """
    middles = [(x + 0.5, y + 0.5) for x, y in template.points]
    to_template = similarity_transform(landmarks, middles)
    turn = np.linalg.inv(to_template[:, :2])
    matrix = np.column_stack([turn, -turn @ to_template[:, 2]])
    factor = max(1, int(np.hypot(*turn[0])))
    source = np.asarray(image.reduce(factor) if factor > 1 else image, dtype=np.float32)
    y, x = np.mgrid[: template.size, : template.size] + 0.5
    places = np.tensordot(matrix, np.stack([x, y, np.ones_like(x)]), axes=1) / factor - 0.5
    channels = [
        map_coordinates(channel, places[::-1], order=1, mode="nearest") for channel in np.moveaxis(source, 2, 0)
    ]
    return Image.fromarray(np.stack(channels, axis=2).round().clip(0, 255).astype(np.uint8))
