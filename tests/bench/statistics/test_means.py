"""Correlations of systems' means: equal to scipy's on the means, with intervals from resampled cases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, pearsonr, spearmanr

from bench.statistics.means import KINDS, Kind, correlation_of_means
from bench.statistics.ratings import Bootstrap

NO_INTERVAL = Bootstrap(num_resamples=0)
OF_SCIPY: dict[str, Any] = {"pearson": pearsonr, "spearman": spearmanr, "kendall_tau_b": kendalltau}


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), systems=st.integers(2, 7), cases=st.integers(1, 9), missing=st.floats(0, 0.5))
def test_values_agree_with_scipy_on_the_means_of_what_both_have(
    kind: Kind, seed: int, systems: int, cases: int, missing: float
) -> None:
    generator = np.random.default_rng(seed)
    first, second = (generator.integers(1, 6, (systems, cases)).astype(float) for _ in range(2))
    first[generator.random(first.shape) < missing] = np.nan
    found = correlation_of_means(first, second, kind, NO_INTERVAL)
    means = [
        (row[both].mean(), other[both].mean())
        for row, other in zip(first, second, strict=True)
        if (both := np.isfinite(row)).any()
    ]
    columns = np.round(np.array(means).reshape(-1, 2), 12).T
    assert found.n_items == len(means)
    if len(means) < 2 or any(np.ptp(column) == 0 for column in columns):
        assert found.value is None
        assert found.reason
    else:
        assert found.value == pytest.approx(float(OF_SCIPY[kind](*columns).statistic), abs=1e-9)


def test_the_interval_is_over_cases_and_not_over_systems() -> None:
    """Two systems always correlate by plus or minus one; how surely they do depends on the cases."""
    apart = np.array([[1.0] * 40, [5.0] * 40])
    close = np.array([[1.0, 2.0] * 20, [2.0, 1.0] * 19 + [2.0, 2.0]])
    sure = correlation_of_means(apart, apart, "kendall_tau_b")
    assert (sure.value, sure.ci_low, sure.ci_high, sure.n_items) == (1, 1, 1, 2)
    doubtful = correlation_of_means(close, apart, "kendall_tau_b")
    assert (doubtful.value, doubtful.ci_low, doubtful.ci_high) == (1, -1, 1)


def test_one_case_has_a_value_and_no_interval() -> None:
    found = correlation_of_means([[1.0], [2.0], [4.0]], [[1.0], [3.0], [2.0]], "spearman")
    assert found.value == pytest.approx(0.5)
    assert (found.ci_low, found.ci_high) == (None, None)
    assert found.reason is not None


def test_tables_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="expected two tables"):
        correlation_of_means([[1.0]], [[1.0, 2.0]], "pearson")


def test_ranks_see_the_order_alone() -> None:
    """Equal orders are one, opposite ones minus one, whatever the values."""
    values = np.array([[1.0, 1.1], [2.0, 2.2], [3.9, 4.0]])
    for kind in ("spearman", "kendall_tau_b"):
        assert correlation_of_means(values, np.exp(values), kind, NO_INTERVAL).value == pytest.approx(1)
        assert correlation_of_means(values, -values, kind, NO_INTERVAL).value == pytest.approx(-1)
    assert not math.isclose(correlation_of_means(values, np.exp(values), "pearson", NO_INTERVAL).value or 1, 1)
