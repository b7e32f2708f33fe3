"""Calibration against torchmetrics, scikit-learn and judges whose calibration is known by construction."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from torchmetrics.functional.classification import binary_calibration_error

from rm.calibration import BINS, calibrate, expected_calibration_error, fit_temperature

Floats = NDArray[np.float64]


def _judge(scale: float, *, pairs: int = 4000, seed: int = 0) -> tuple[Floats, Floats, NDArray[np.generic]]:
    """Return a judge whose true log-odds are known and who says `scale` times as much, two pairs a group."""
    random = np.random.default_rng(seed)
    log_odds = random.normal(0, 1.5, pairs)
    labels = np.where(random.random(pairs) < expit(log_odds), 1.0, -1.0)
    return scale * log_odds, labels, np.arange(pairs) // 2


def test_the_error_is_that_of_torchmetrics() -> None:
    """torchmetrics bins [0, 1]; confidences are in its upper half, where 2 * BINS bins of [0, 1] are ours."""
    differences, labels, _ = _judge(1.7)
    right = torch.tensor(np.sign(differences) == labels).long()
    expected = binary_calibration_error(
        torch.tensor(expit(np.abs(differences))), right, n_bins=2 * BINS, norm="l1", validate_args=False
    )
    assert expected_calibration_error(differences, labels) == pytest.approx(float(expected), abs=1e-6)


def test_the_temperature_is_that_of_a_logistic_regression() -> None:
    """sigma(label * d / T) is a logistic regression without intercept, whose coefficient is 1 / T."""
    differences, labels, _ = _judge(3.0)
    model = LogisticRegression(C=np.inf, fit_intercept=False).fit(differences[:, None], labels)
    assert fit_temperature(differences, labels) == pytest.approx(1 / model.coef_[0, 0], rel=1e-3)


@pytest.mark.parametrize("scale", [0.25, 1.0, 4.0])
def test_the_temperature_undoes_what_a_judge_overstates(scale: float) -> None:
    found = calibrate(*_judge(scale))
    assert found.temperature == pytest.approx(scale, rel=0.1)
    assert found.ece_with_temperature is not None
    assert found.ece_with_temperature < 0.03
    assert (found.ece < 0.03) == (scale == 1.0)


def test_a_judge_who_says_nothing_is_perfectly_calibrated() -> None:
    assert expected_calibration_error(np.zeros(6), np.array([1.0, -1, 1, 1, 1, 1])) == 0


def test_always_sure_and_always_wrong_is_the_worst() -> None:
    labels = np.array([1.0, -1.0, 1.0])
    assert expected_calibration_error(-50 * labels, labels) == pytest.approx(1.0)


def test_no_pair_is_measured_with_a_temperature_of_its_own() -> None:
    """With noise alone a temperature of its own would make any error small; few pairs get none at all."""
    differences, labels, groups = _judge(1.0, pairs=10)
    assert calibrate(differences, labels, groups).ece_with_temperature is None
    differences, labels, groups = _judge(1.0, pairs=40)
    assert calibrate(differences, labels, np.zeros(40)).ece_with_temperature is None
    with pytest.raises(ValueError, match="got none"):
        calibrate(differences[:0], labels[:0], groups[:0])


@given(st.lists(st.tuples(st.floats(-30, 30), st.sampled_from([1.0, -1.0])), min_size=1, max_size=40))
def test_sides_do_not_matter(rows: list[tuple[float, float]]) -> None:
    differences, labels = (np.array(column) for column in zip(*rows, strict=True))
    assert expected_calibration_error(differences, labels) == pytest.approx(
        expected_calibration_error(-differences, -labels)
    )
    assert 0 <= expected_calibration_error(differences, labels) <= 1
