"""Which candidates are not worth an annotator's time: those with noise left in them, and near copies of another.

The thresholds and what they were chosen by are in docs/preferences.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gnomon.errors import UserError

_MAD_OF_NORMAL = 0.6744897501960817  # median of |x| for a standard normal x
_THUMBNAIL = 64


@dataclass(frozen=True)
class FilterSettings:
    """What is left out before pairs are proposed. Grey values and distances are in 0..255.

    Attributes:
        noise_ratio: a candidate is unclear when its noise is more than so many times that of its noisiest reference...
        noise_floor: ...and more than this.
        min_distance: a candidate nearer than this to an earlier one of its case is a near copy; 0 drops equal pictures
            only.
    """

    noise_ratio: float = 2.0
    noise_floor: float = 4.0
    min_distance: float = 1.0

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        for name, least in (("noise_ratio", 1.0), ("noise_floor", 0.0), ("min_distance", 0.0)):
            value = getattr(self, name)
            if not least <= value < math.inf:
                raise UserError(f"expected a finite {name} >= {least:g}, got {value}")


def noise_sigma(image: Image.Image) -> float:
    """Estimate the standard deviation of the noise in a picture, robustly: edges and texture hardly count.

    It is the median size of the finest diagonal details (of 2 x 2 pixels, in grey) over what that is for normal noise
    of deviation 1 (Donoho and Johnstone, Biometrika 81 (1994) 425). A picture of flat areas has 0.
    """
    grey = _grey(image)
    height, width = grey.shape[0] // 2 * 2, grey.shape[1] // 2 * 2
    if not height or not width:
        return 0.0
    blocks = grey[:height, :width]
    diagonal = (blocks[::2, ::2] - blocks[::2, 1::2] - blocks[1::2, ::2] + blocks[1::2, 1::2]) / 2
    return float(np.median(np.abs(diagonal)) / _MAD_OF_NORMAL)


def unclear_reason(candidate: Image.Image, references: Sequence[Image.Image], settings: FilterSettings) -> str | None:
    """Say why a candidate is unclear, None where it is not.

    Args:
        candidate: the picture.
        references: of its case; without any, `noise_floor` alone decides.
        settings: the thresholds.
    """
    noise = noise_sigma(candidate)
    of_references = max((noise_sigma(reference) for reference in references), default=0.0)
    limit = max(settings.noise_floor, settings.noise_ratio * of_references)
    if noise <= limit:
        return None
    return f"noise of {noise:.2f} grey values, at most {limit:.2f} (its references have {of_references:.2f})"


def thumbnail(image: Image.Image) -> NDArray[np.float32]:
    """Return a picture as 64 x 64 RGB values, whatever its shape."""
    small = image.resize((_THUMBNAIL, _THUMBNAIL), Image.Resampling.BOX)
    return np.asarray(small, dtype=np.float32)


def distance(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    """Return the root mean square difference of two thumbnails."""
    return float(np.sqrt(np.mean((first - second) ** 2)))


def _grey(image: Image.Image) -> NDArray[np.float64]:
    grey: NDArray[np.float64] = np.asarray(image.convert("RGB"), dtype=np.float64) @ np.array([0.299, 0.587, 0.114])
    return grey
