"""BRISQUE: how far the statistics of a picture's pixels are from those of undistorted photographs.

Source: Mittal, Moorthy and Bovik 2012, No-Reference Image Quality Assessment in the Spatial Domain (IEEE TIP 21(12)),
and its published regression. At two scales, the luminance less its local mean and over its local deviation is described
by a generalised Gaussian, and the products of neighbours by asymmetric ones: 36 numbers, of which a support vector
regression makes one. Lower is better; 0 to 100 mostly, and a little beyond on either side.
"""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import correlate1d
from scipy.spatial.distance import cdist
from scipy.special import gamma

from bench.evaluators.offline import BRISQUE_RANGES, BRISQUE_SVM, locate

Pixels = NDArray[np.float64]

_RADIUS, _DEVIATION = 3, 7 / 6
_SHAPES = np.arange(0.2, 10, 0.001)
"""Of the distributions that are tried."""

SMALLEST = 16
"""Pixels of the shorter side, below which the half-size picture has no statistics."""


class Regression(NamedTuple):
    """An epsilon support vector regression with a Gaussian kernel, and the ranges that features are scaled from.

    Attributes:
        vectors: the support vectors, of shape (vector, feature).
        weights: of the vectors.
        gamma: of the kernel.
        rho: what is taken off the sum.
        low: of each feature; becomes -1.
        high: of each feature; becomes 1.
    """

    vectors: Pixels
    weights: Pixels
    gamma: float
    rho: float
    low: Pixels
    high: Pixels

    def __call__(self, features: Pixels) -> float:
        """Return the regression's value for one vector of features."""
        scaled = 2 * (features - self.low) / (self.high - self.low) - 1
        kernel = np.exp(-self.gamma * cdist(scaled[None], self.vectors, "sqeuclidean")[0])
        return float(kernel @ self.weights - self.rho)


def load_regression(svm: str | Path | None = None, ranges: str | Path | None = None) -> Regression:
    """Return the published regression.

    Args:
        svm: path of the regression in LIBSVM's format; it is looked for where packages are by default.
        ranges: path of the features' ranges, likewise.

    Raises:
        UserError: when they are not there.
    """
    head, _, body = locate(BRISQUE_SVM, svm).read_text(encoding="utf-8").partition("SV\n")
    settings = dict(line.split(maxsplit=1) for line in head.splitlines() if " " in line)
    rows = [line.split() for line in body.splitlines() if line.strip()]
    vectors = np.zeros((len(rows), 36))
    for row, (_, *entries) in zip(vectors, rows, strict=True):  # zeros are left out in the file
        for entry in entries:
            place, value = entry.split(":")
            row[int(place) - 1] = float(value)
    # A pickle runs what is in it: this one's bytes are known by their hash.
    known = pickle.loads(locate(BRISQUE_RANGES, ranges).read_bytes())
    return Regression(
        vectors,
        np.array([float(row[0]) for row in rows]),
        float(settings["gamma"]),
        float(settings["rho"]),
        np.array(known["min_"], dtype=np.float64),
        np.array(known["max_"], dtype=np.float64),
    )


def features(image: Image.Image) -> Pixels:
    """Return the 36 numbers that describe a picture.

    Raises:
        ValueError: for a picture that is too small, or all of one colour.
    """
    if min(image.size) < SMALLEST:
        raise ValueError(f"expected a picture of {SMALLEST} pixels a side at least, got {image.width} x {image.height}")
    grey = _luminance(image)
    half = grey.resize((-(-grey.width // 2), -(-grey.height // 2)), Image.Resampling.BICUBIC)
    return np.concatenate([_of_scale(np.asarray(each, dtype=np.float64)) for each in (grey, half)])


def _luminance(image: Image.Image) -> Image.Image:
    weights = np.array([0.2989, 0.5870, 0.1140])
    return Image.fromarray((np.asarray(image.convert("RGB"), dtype=np.float64) @ weights).astype(np.float32))


def _of_scale(grey: Pixels) -> Pixels:
    normalized = _normalized(grey)
    shape, left, right = _asymmetric_fit(normalized)
    found = [shape, (left**2 + right**2) / 2]
    for rows, columns in ((0, 1), (1, 0), (1, 1), (1, -1)):
        neighbours = np.roll(normalized, (rows, columns), (0, 1))
        shape, left, right = _asymmetric_fit(normalized * neighbours)
        mean = (right - left) * gamma(2 / shape) / np.sqrt(gamma(1 / shape) * gamma(3 / shape))
        found += [shape, mean, left**2, right**2]
    return np.array(found)


def _normalized(grey: Pixels) -> Pixels:
    """Return the luminance less its local mean, over its local deviation."""
    mean = _blurred(grey)
    deviation = np.sqrt(np.abs(_blurred(grey**2) - mean**2))
    found: Pixels = (grey - mean) / (deviation + 1)
    return found


def _blurred(grey: Pixels) -> Pixels:
    places = np.arange(-_RADIUS, _RADIUS + 1)
    weights = np.exp(-(places**2) / (2 * _DEVIATION**2))
    weights /= weights.sum()
    blurred: Pixels = correlate1d(correlate1d(grey, weights, 0, mode="constant"), weights, 1, mode="constant")
    return blurred


def _asymmetric_fit(values: Pixels) -> tuple[float, float, float]:
    """Fit an asymmetric generalised Gaussian by its moments (Lasmar et al. 2009).

    Returns:
        Its shape, and the root mean squares of the values below and above 0.
    """
    below, above = values[values < 0], values[values > 0]
    if not (len(below) and len(above)):
        raise ValueError("expected a picture of more than one colour")
    left, right = np.sqrt((below**2).mean()), np.sqrt((above**2).mean())
    balance = left / right
    ratio = np.abs(values).mean() ** 2 / (values**2).mean()
    ratio *= (balance**3 + 1) * (balance + 1) / (balance**2 + 1) ** 2
    return float(_SHAPES[np.argmin((_ratios() - ratio) ** 2)]), float(left), float(right)


@cache
def _ratios() -> Pixels:
    """Return the ratio of squared mean and mean square for each shape."""
    ratios: Pixels = gamma(2 / _SHAPES) ** 2 / (gamma(1 / _SHAPES) * gamma(3 / _SHAPES))
    return ratios
