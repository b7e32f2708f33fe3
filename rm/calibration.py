"""Whether a judge's confidence means what it says: expected calibration error and a temperature that mends it.

A difference d of two scores claims that the better-scored side is preferred with probability sigma(|d|). It is asked
of decided pairs only, and of the side that the judge prefers, so that nothing depends on which side came first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit

from gnomon.hashing import stable_seed

BINS = 10
# exp(-7) to exp(7): a judge that is always right wants 0, one that is right by chance wants infinity.
_LOG_TEMPERATURES = (-7.0, 7.0)
MIN_PAIRS = 20


class Calibration(NamedTuple):
    """How far to trust the confidence in one dimension.

    Attributes:
        n: decided pairs.
        ece: expected calibration error of sigma(|d|), in [0, 0.5] for a judge better than chance.
        temperature: T for which sigma(|d| / T) fits the labels best; below 1 for a judge that is too modest.
        ece_with_temperature: the error with T, each half of the groups measured with the T of the other half, so that
            no pair is measured with a T that it helped to choose; None below `MIN_PAIRS` pairs or with one half empty.
    """

    n: int
    ece: float
    temperature: float
    ece_with_temperature: float | None


def calibrate(
    differences: NDArray[np.float64], labels: NDArray[np.float64], groups: NDArray[np.generic], *, seed: int = 0
) -> Calibration:
    """Return the calibration of decided pairs.

    Args:
        differences: finite score differences, first minus second [pairs].
        labels: 1 or -1 [pairs].
        groups: the cluster of each pair [pairs].
        seed: of the cut into halves.

    Raises:
        ValueError: without pairs.
    """
    if len(differences) == 0:
        raise ValueError("expected decided pairs, got none")
    error = expected_calibration_error(differences, labels)
    return Calibration(
        n=len(differences),
        ece=error,
        temperature=fit_temperature(differences, labels),
        ece_with_temperature=_cross_fitted(differences, labels, groups, seed),
    )


def expected_calibration_error(differences: NDArray[np.float64], labels: NDArray[np.float64]) -> float:
    """Return sum over bins of (pairs in it / all) * |share right - mean confidence|.

    Guo et al. 2017 (arXiv 1706.04599, equation 3), on `BINS` bins of equal width over the confidences [0.5, 1]. A pair
    that the judge ties has confidence one half and is half right.

    Args:
        differences: finite [pairs].
        labels: 1 or -1 [pairs].
    """
    confidence = expit(np.abs(differences))
    right = np.where(differences == 0, 0.5, (np.sign(differences) == labels).astype(np.float64))
    bins = np.minimum(((confidence - 0.5) * 2 * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, weights=right - confidence, minlength=BINS)
    return float(np.abs(gaps).sum() / len(differences))


def fit_temperature(differences: NDArray[np.float64], labels: NDArray[np.float64]) -> float:
    """Return the T in [exp(-7), exp(7)] that minimises the mean of -log sigma(label * d / T).

    Guo et al. 2017 (arXiv 1706.04599, section 4.2). The mean is convex in 1 / T, so there is one minimum.

    Args:
        differences: finite [pairs].
        labels: 1 or -1 [pairs].
    """
    towards_better = differences * labels

    def negative_log_likelihood(log_temperature: float) -> float:
        return float(-log_expit(towards_better * np.exp(-log_temperature)).mean())

    found = minimize_scalar(negative_log_likelihood, bounds=_LOG_TEMPERATURES, method="bounded")
    return float(np.exp(found.x))


def _cross_fitted(
    differences: NDArray[np.float64], labels: NDArray[np.float64], groups: NDArray[np.generic], seed: int
) -> float | None:
    half = np.array([stable_seed("calibration", seed, str(group)) & 1 for group in groups], dtype=bool)
    if len(differences) < MIN_PAIRS or half.all() or not half.any():
        return None
    scaled = np.empty_like(differences)
    for part in (half, ~half):
        scaled[part] = differences[part] / fit_temperature(differences[~part], labels[~part])
    return expected_calibration_error(scaled, labels)
