"""What stands out in a picture, by U2NetP: a foreground mask without words.

Source: Qin et al. 2020, U2-Net (arXiv 2005.09007), its small network. Conventions of the file: RGB of 320 x 320 divided
by its own maximum, ImageNet's mean and deviation; the first output, stretched to 0..1, is the mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from bench.evaluators.offline import U2NETP, locate
from bench.evaluators.onnx import OnnxModel
from gnomon.hashing import stable_hash

if TYPE_CHECKING:
    from bench.evaluators.vision.segmentation import Mask

SIZE = 320
THRESHOLD = 0.5
_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)


class SalienceSegmenter:
    """U2NetP as a segmenter: what stands out is the foreground, whatever it is.

    Args:
        path: of the weights; they are looked for where packages are by default.

    Raises:
        UserError: without onnxruntime, or when the weights are not there.
    """

    name = "u2netp"
    takes_words = False

    def __init__(self, path: str | Path | None = None) -> None:
        self._network = OnnxModel(locate(U2NETP, path))

    @property
    def fingerprint(self) -> str:
        """Hash of weights and preprocessing."""
        return stable_hash(["u2netp", U2NETP.sha256, SIZE, THRESHOLD])

    def salience(self, image: Image.Image) -> NDArray[np.float32]:
        """Return how far each of 320 x 320 cells stands out: 0 is the least in the picture, 1 the most."""
        pixels = np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BILINEAR), dtype=np.float32)
        scaled = (pixels / max(float(pixels.max()), 1.0) - _MEAN) / _DEVIATION
        raw = self._network.run(scaled.transpose(2, 0, 1)[None])[0, 0]
        low, high = float(raw.min()), float(raw.max())
        return np.zeros_like(raw) if high <= low else (raw - low) / (high - low)

    def foreground(self, image: Image.Image, concepts: Sequence[str]) -> Mask:
        """Return what stands out; the concepts are not looked at."""
        return self.salience(image) > THRESHOLD
