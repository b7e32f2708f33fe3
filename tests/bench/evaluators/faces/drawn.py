"""Faces that need no weights: squares of one colour on white, found by connected areas, told apart by their colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy.ndimage import find_objects, label

from bench.evaluators.cosine import cosines
from bench.evaluators.faces.alignment import ARCFACE
from bench.evaluators.faces.face import Face

Colour = tuple[int, int, int]
RED, GREEN, BLUE, YELLOW = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)
SIDE = 24


def draw(*colours: Colour, size: tuple[int, int] = (400, 60)) -> Image.Image:
    """Return a white picture with a square of each colour, from left to right."""
    image = Image.new("RGB", size, "white")
    for place, colour in enumerate(colours):
        left = 4 + place * (SIDE + 6)
        ImageDraw.Draw(image).rectangle((left, 10, left + SIDE - 1, 10 + SIDE - 1), fill=colour)
    return image


def face_at(rows: slice, columns: slice, score: float) -> Face:
    """A face in a box, with landmarks where ArcFace has them."""
    width, height = columns.stop - columns.start, rows.stop - rows.start
    points = [
        (columns.start + x / ARCFACE.size * width, rows.start + y / ARCFACE.size * height) for x, y in ARCFACE.points
    ]
    box = (float(columns.start), float(rows.start), float(columns.stop), float(rows.stop))
    return Face(box, (points[0], points[1], points[2], points[3], points[4]), score)


class ColourDetector:
    """Takes every connected area that is not white for a face, with landmarks where ArcFace has them."""

    name = "colours"
    fingerprint = "colours-1"

    def detect(self, image: Image.Image) -> list[Face]:
        areas, _ = label((np.asarray(image) < 250).any(axis=2))
        return [face_at(rows, columns, 1.0) for rows, columns in find_objects(areas)]


class ColourRecognizer:
    """The mean colour in the middle of a straightened face, as a vector from grey; cosines."""

    name = "mean colour"
    template = ARCFACE.scaled(16)
    fingerprint = "mean-colour-1"

    def embed(self, chips: Sequence[Image.Image]) -> NDArray[Any]:
        middles = [np.asarray(chip, dtype=np.float32)[5:11, 5:11].mean(axis=(0, 1)) - 127.5 for chip in chips]
        return np.array(middles, dtype=np.float32).reshape(len(chips), 3)

    def similarity(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        return cosines(first, second)
