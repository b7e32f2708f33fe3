"""Small backends that measure something simple: colours and brightness; answers can be told by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

COLORS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1)}


class ColorVectors:
    """The mean colour of a picture, and of the colour that a text names; NaN for a text without one, and for black.

    Attributes:
        num_pictures: that it looked at.
    """

    def __init__(self, name: str = "colors") -> None:
        self.name, self.fingerprint, self.num_pictures = name, f"colors {name}", 0

    def embed(self, images: Sequence[Image.Image]) -> NDArray[Any]:
        self.num_pictures += len(images)
        means = np.stack([np.asarray(image, dtype=np.float64).reshape(-1, 3).mean(axis=0) for image in images])
        return np.where(means.any(axis=1, keepdims=True), means, np.nan)

    def embed_texts(self, texts: Sequence[str]) -> NDArray[Any]:
        named = [[color for word, color in COLORS.items() if word in text.split()] for text in texts]
        return np.array([found[0] if found else (np.nan,) * 3 for found in named], dtype=np.float64)


class Brightness:
    """How bright a picture is, 0 to 10: its own taste."""

    def __init__(self, name: str = "brightness") -> None:
        self.name, self.fingerprint = name, f"brightness {name}"

    def score(self, image: Image.Image) -> float:
        return float(np.asarray(image).mean()) / 25.5


class WhiteCorners:
    """Takes a white corner for a face."""

    def __init__(self, name: str = "corners") -> None:
        self.name, self.fingerprint = name, f"corners {name}"

    def detect(self, image: Image.Image) -> list[tuple[int, int]]:
        right, bottom = image.width - 1, image.height - 1
        corners = [(x, y) for x in (0, right) for y in (0, bottom)]
        return [corner for corner in corners if image.getpixel(corner) == (255, 255, 255)]
