"""BRISQUE's statistics on known distributions, its published regression on distorted pictures, and colourfulness."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter
from scipy.stats import gennorm
from sklearn.svm import SVR

from bench.evaluators.brisque import Regression, _asymmetric_fit, features
from bench.evaluators.offline import BRISQUE_RANGES, BRISQUE_SVM
from bench.evaluators.technical_quality import (
    COLOURFULNESS,
    TECHNICAL_QUALITY,
    TechnicalQualityJudge,
    colourfulness,
)
from tests.bench.evaluators.photographs import need, photograph
from tests.bench.evaluators.scenes import request


@pytest.mark.parametrize("shape", [0.8, 1.5, 2.0])
def test_the_fit_finds_the_shape_and_sides_of_a_generalised_gaussian(shape: float) -> None:
    drawn = gennorm.rvs(shape, size=100_000, random_state=0)
    # Twice as wide below 0, and twice as many there, so that the density has no step at 0.
    is_left = np.random.default_rng(0).random(len(drawn)) < 2 / 3
    found, left, right = _asymmetric_fit(np.where(is_left, -2, 1) * np.abs(drawn))
    symmetric, below, above = _asymmetric_fit(drawn)
    deviation = gennorm.std(shape)
    assert symmetric == pytest.approx(shape, rel=0.03)
    assert (below, above) == pytest.approx((deviation, deviation), rel=0.02)
    assert (left, right) == pytest.approx((2 * deviation, deviation), rel=0.02)
    assert found == pytest.approx(shape, rel=0.03)


def test_the_regression_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    inputs, targets = rng.normal(size=(40, 36)), rng.normal(size=40)
    machine = SVR(gamma=0.05, C=10).fit(inputs, targets)
    regression = Regression(
        machine.support_vectors_, machine.dual_coef_[0], 0.05, -machine.intercept_[0], -np.ones(36), np.ones(36)
    )
    assert regression(inputs[3]) == pytest.approx(machine.predict(inputs[3:4])[0])
    moved = regression._replace(low=np.full(36, -3.0), high=np.full(36, 1.0))  # the middle is -1 now, a step 2
    assert moved(2 * inputs[3] - 1) == pytest.approx(machine.predict(inputs[3:4])[0])


def test_neighbours_that_do_not_depend_on_each_other_have_products_around_nothing() -> None:
    pixels = np.random.default_rng(0).normal(128, 20, (256, 256)).clip(0, 255).astype(np.uint8)
    found = features(Image.fromarray(pixels))
    means, left, right = found[3:18:4], found[4:18:4], found[5:18:4]
    assert found.shape == (36,)
    # The local mean takes a share of each pixel from its neighbours, which makes products a little negative.
    assert (np.abs(means) < 0.2 * np.sqrt(left)).all()
    smooth = features(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(2)))
    assert (smooth[3:7:4] > 0).all()
    assert (smooth[5:9:4] > smooth[4:8:4]).all()  # neighbours are alike there
    assert right.min() > 0


def test_colourfulness_by_hand() -> None:
    assert colourfulness(Image.new("RGB", (8, 8), (90, 90, 90))) == 0
    # Half red, half green: red - green is 255 and -255, the other opponent 127.5 everywhere.
    halves = Image.new("RGB", (8, 8), (255, 0, 0))
    halves.paste((0, 255, 0), (0, 0, 8, 4))
    assert colourfulness(halves) == pytest.approx(255 + 0.3 * 127.5)


def test_distorted_photographs_are_below_what_they_were(tmp_path: Path) -> None:
    need(BRISQUE_SVM, BRISQUE_RANGES)
    judge = TechnicalQualityJudge()
    whole = photograph("china").resize((480, 320))
    buffer = io.BytesIO()
    whole.save(buffer, "JPEG", quality=8)
    noisy = np.asarray(whole) + np.random.default_rng(0).normal(0, 25, (320, 480, 3))
    pictures = [
        whole,
        whole.filter(ImageFilter.GaussianBlur(2)),
        Image.open(buffer).convert("RGB"),
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)),
    ]
    verdicts = judge.judge(
        [
            request(tmp_path, TECHNICAL_QUALITY, picture, [], case_id=f"case{place}")
            for place, picture in enumerate(pictures)
        ]
    )
    values = [verdict.value or 0.0 for verdict in verdicts]
    assert values[0] > 0.75 > 0.7 > max(values[1:])
    assert values[0] == pytest.approx(np.clip(1 - json.loads(verdicts[0].raw or "")["brisque"] / 100, 0, 1))


def test_what_has_no_statistics_is_out_of_range(tmp_path: Path) -> None:
    need(BRISQUE_SVM, BRISQUE_RANGES)
    judge = TechnicalQualityJudge()
    grey, small = Image.new("RGB", (64, 64), "grey"), photograph("china").resize((40, 8))
    verdicts = judge.judge(
        [
            request(tmp_path, TECHNICAL_QUALITY, small, [], case_id="small"),
            request(tmp_path, COLOURFULNESS, small, [], case_id="small"),
            request(tmp_path, COLOURFULNESS, grey, [], case_id="grey"),
            request(tmp_path, "aesthetic", grey, [], case_id="grey"),
        ]
    )
    assert [verdict.status for verdict in verdicts] == ["out_of_range", "ok", "ok", "not_applicable"]
