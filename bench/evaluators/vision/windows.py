"""Where slots may be without a detector: windows that look like their references.

No detector of things by their names comes inside an ordinary package. So each slot's reference is compared with square
windows of three sizes all over the picture, and the window that looks most like it is taken for the slot. Such a search
is not independent of the likeness that it is to measure: it finds the most similar thing there is, whatever it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import ImageStat
from torch.nn.functional import avg_pool2d

from bench.evaluators.cosine import cosines
from bench.evaluators.offline import EFFICIENTNET_LITE0
from bench.evaluators.slots import Regions
from bench.evaluators.vision.boxes import Boxes, crop, suppressed
from bench.evaluators.vision.lite0 import DIMENSION, lite0_pixels, load_lite0
from bench.evaluators.vision.lite0_features import MEAN_FILE, subject_mean
from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_hash

if TYPE_CHECKING:
    from PIL import Image

    from bench.evaluators.vision.embedding import Vectors

CELL, WINDOW, STEP = 32, 7, 2
"""Pixels of a cell of the last map; cells of a window's side, 224 pixels as a reference has; cells between windows."""

LONGER_SIDES = (256, 448, 736)
"""The sizes at which a picture is looked at; the smaller, the larger a window is in it."""

MAX_OVERLAP = 0.3

MIN_CONTRAST = 8.0
"""Deviation of a window's luminance, of 255, below which nothing is in it: features of plain grey are far from the mean
as well, hence like one reference or another."""


class WindowLocalizer:
    """Takes for each slot the window whose features, by Lite0, are most like the reference's.

    To be used beside :class:`bench.evaluators.vision.lite0_features.Lite0Embedder`, whose vectors it compares.

    Args:
        threshold: cosine below which a window is not the slot.
        path: of the weights; they are looked for where packages are by default.

    Raises:
        UserError: when the weights are not there.
    """

    name = "lite0 windows"

    def __init__(self, *, threshold: float = 0.15, path: str | Path | None = None) -> None:
        if not 0 <= threshold <= 1:
            raise UserError(f"expected threshold in 0..1, got {threshold}")
        self.threshold, self.network, self.mean = threshold, load_lite0(path), subject_mean()

    @property
    def fingerprint(self) -> str:
        """Hash of weights, mean and settings."""
        files = [EFFICIENTNET_LITE0.sha256, file_hash(MEAN_FILE)]
        return stable_hash(
            ["lite0 windows", files, WINDOW, STEP, LONGER_SIDES, MAX_OVERLAP, MIN_CONTRAST, self.threshold]
        )

    def locate(self, image: Image.Image, names: Sequence[str], references: Vectors) -> Regions:
        """Return the windows that do not overlap a better one, and how alike each slot's reference is to them.

        Raises:
            UserError: for embeddings of another embedder.
        """
        if references.shape[-1] != DIMENSION:
            raise UserError(
                f"expected WindowLocalizer beside Lite0Embedder, got embeddings of {references.shape[-1]} dimensions"
            )
        boxes, vectors = self._windows(image)
        alike = np.nan_to_num(cosines(references, vectors))
        alike[alike < self.threshold] = 0
        alike[:, [not _has_contrast(image, box) for box in boxes]] = 0
        kept = [place for place in suppressed(boxes, alike.max(0), MAX_OVERLAP) if alike[:, place].any()]
        return Regions(boxes[kept], alike[:, kept])

    @torch.inference_mode()
    def _windows(self, image: Image.Image) -> tuple[Boxes, NDArray[np.float32]]:
        """Return all windows as boxes in the picture's pixels, and their centred features."""
        boxes, vectors = [], []
        for longer_side in LONGER_SIDES:
            scale = longer_side / max(image.size)
            rows, columns = (max(WINDOW, round(side * scale / CELL)) for side in (image.height, image.width))
            last = self.network.last_map(lite0_pixels([image], (columns * CELL, rows * CELL)))
            means = avg_pool2d(last, WINDOW, STEP)[0].permute(1, 2, 0).numpy()
            vectors.append(means.reshape(-1, DIMENSION) - self.mean)
            # Rows and columns are rounded, so a cell need not be a square in the picture.
            height, width = image.height / rows, image.width / columns
            boxes += [
                [left * width, top * height, (left + WINDOW) * width, (top + WINDOW) * height]
                for top in range(0, STEP * means.shape[0], STEP)
                for left in range(0, STEP * means.shape[1], STEP)
            ]
        return np.array(boxes), np.concatenate(vectors)


def _has_contrast(image: Image.Image, box: Boxes) -> bool:
    return ImageStat.Stat(crop(image, box, 0).convert("L")).stddev[0] >= MIN_CONTRAST
