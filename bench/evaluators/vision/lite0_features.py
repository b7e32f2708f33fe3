"""EfficientNet-Lite0 as an embedder of subjects and of cells, where no DINO can be had.

A reference's vector is the last map's mean over what stands out (U2NetP), less a fixed mean of such vectors: features
after a ReLU all point the same way, and without that mean different subjects look alike. In a crop that is all subject
little stands out, so crops are taken as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from bench.evaluators.offline import EFFICIENTNET_LITE0
from bench.evaluators.vision.lite0 import lite0_pixels, load_lite0
from bench.evaluators.vision.segmentation import shares_of_cells
from gnomon.hashing import file_hash, stable_hash

if TYPE_CHECKING:
    from PIL import Image

    from bench.evaluators.vision.embedding import Vectors
    from bench.evaluators.vision.salience import SalienceSegmenter

MEAN_FILE = Path(__file__).with_name("lite0_mean.npy")
"""Mean of 200 subjects' vectors, shape (1280,): cut-outs of tuxpaint-stamps on photographs; see docs/cogcanvas.md."""

CELLS_BLOCK = 4


def subject_mean() -> NDArray[np.float32]:
    """Return the fixed mean that is taken off subjects' vectors: shape (1280,)."""
    mean: NDArray[np.float32] = np.load(MEAN_FILE, allow_pickle=False).astype(np.float32)
    return mean


class Lite0Embedder:
    """One vector per picture: of what stands out in it, or of all of it.

    Args:
        segmenter: says what stands out, for pictures with surroundings, such as references. None takes pictures as a
            whole, such as what was cut out.
        path: of the weights; they are looked for where packages are by default.

    Raises:
        UserError: when the weights are not there.
    """

    name = "lite0"

    def __init__(self, segmenter: SalienceSegmenter | None = None, path: str | Path | None = None) -> None:
        self.segmenter, self.network, self.mean = segmenter, load_lite0(path), subject_mean()

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the networks' weights and of the mean."""
        files = [EFFICIENTNET_LITE0.sha256, file_hash(MEAN_FILE)]
        return stable_hash(["lite0 foreground", files, self.segmenter and self.segmenter.fingerprint])

    def embed(self, images: Sequence[Image.Image]) -> Vectors:
        """Return one vector per picture: shape (picture, 1280)."""
        found: Vectors = np.stack([self._vector(image) for image in images]) - self.mean
        return found

    @torch.inference_mode()
    def _vector(self, image: Image.Image) -> NDArray[np.float32]:
        if self.segmenter is not None:
            return subject_vector(self.network, self.segmenter, image)
        vector: NDArray[np.float32] = self.network.last_map(lite0_pixels([image]))[0].mean((1, 2)).numpy()
        return vector


@torch.inference_mode()
def subject_vector(network: torch.nn.Module, segmenter: SalienceSegmenter, image: Image.Image) -> NDArray[np.float32]:
    """Return the mean of the last map over what stands out in a picture, cut to it: shape (1280,).

    Where nothing stands out, it is the mean over the whole picture.
    """
    mask = segmenter.foreground(image, [])
    if not mask.any():
        mask = np.ones_like(mask)
    (top, bottom), (left, right) = (_range(np.flatnonzero(mask.any(axis))) for axis in (1, 0))
    height, width = mask.shape
    box = (
        left * image.width // width,
        top * image.height // height,
        max(-(-right * image.width // width), left * image.width // width + 1),
        max(-(-bottom * image.height // height), top * image.height // height + 1),
    )
    last = network.last_map(lite0_pixels([image.crop(box)]))[0].numpy()  # type: ignore[operator]
    weights = shares_of_cells(mask[top:bottom, left:right], *last.shape[1:])
    vector: NDArray[np.float32] = (last * weights).sum((1, 2)) / weights.sum()
    return vector


def _range(places: NDArray[np.intp]) -> tuple[int, int]:
    """Return where the first place is, and where the last one ends."""
    return int(places[0]), int(places[-1]) + 1


class Lite0Cells:
    """The features after block 4, 40 for each of 28 x 28 cells: texture and colour rather than what things are.

    Args:
        path: of the weights; they are looked for where packages are by default.

    Raises:
        UserError: when the weights are not there.
    """

    name = "lite0 block 4"

    def __init__(self, path: str | Path | None = None) -> None:
        self.network = load_lite0(path)

    @property
    def fingerprint(self) -> str:
        """Hash of the weights and the block."""
        return stable_hash(["lite0 cells", EFFICIENTNET_LITE0.sha256, CELLS_BLOCK])

    @torch.inference_mode()
    def cells(self, image: Image.Image) -> Vectors:
        """Return the features of all cells: shape (28, 28, 40)."""
        cells: Vectors = self.network.after_block(lite0_pixels([image]), CELLS_BLOCK)[0].permute(1, 2, 0).numpy()
        return cells
