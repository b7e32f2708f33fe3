"""Correlations against scipy, on binary values against phi, and on input that leaves them undefined."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import matthews_corrcoef

from bench.statistics.correlations import kendall_tau_b, pearson, spearman
from bench.statistics.ratings import Agreement, Bootstrap

NO_INTERVAL = Bootstrap(num_resamples=0)
ORACLES: list[tuple[Callable[..., Agreement], Callable[..., Any]]] = [
    (pearson, stats.pearsonr),
    (spearman, stats.spearmanr),
    (kendall_tau_b, stats.kendalltau),
]
numbers = st.integers(-50, 50).map(lambda whole: whole / 8)
pairs = st.lists(st.tuples(numbers, numbers), min_size=2, max_size=30)


@pytest.mark.parametrize(("ours", "oracle"), ORACLES)
@given(rows=pairs)
@settings(max_examples=50)
def test_values_agree_with_scipy(
    ours: Callable[..., Agreement], oracle: Callable[..., Any], rows: list[tuple[float, float]]
) -> None:
    first, second = [row[0] for row in rows], [row[1] for row in rows]
    result = ours(first, second, NO_INTERVAL)
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert result.value is None
    else:
        assert result.value == pytest.approx(oracle(first, second).statistic, abs=1e-9)
        assert (result.n_items, result.n_raters, result.reason) == (len(rows), 2, None)


@given(rows=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40))
@settings(max_examples=50)
def test_on_binary_values_all_three_are_phi(rows: list[tuple[bool, bool]]) -> None:
    first, second = [float(row[0]) for row in rows], [float(row[1]) for row in rows]
    assume(len(set(first)) == len(set(second)) == 2)
    phi = matthews_corrcoef([row[0] for row in rows], [row[1] for row in rows])
    for correlation, _ in ORACLES:
        assert correlation(first, second, NO_INTERVAL).value == pytest.approx(phi, abs=1e-9)


@pytest.mark.parametrize(("ours", "oracle"), ORACLES)
def test_intervals_are_quantiles_of_the_correlation_of_drawn_items(
    ours: Callable[..., Agreement], oracle: Callable[..., Any]
) -> None:
    generator = np.random.default_rng(2)
    first = generator.integers(1, 6, 80)
    second = first + generator.integers(0, 4, 80)
    drawn = generator.integers(80, size=(1000, 80))
    quantiles = np.quantile([oracle(first[rows], second[rows]).statistic for rows in drawn], [0.025, 0.975])
    result = ours(first.tolist(), second.tolist())
    assert (result.ci_low, result.ci_high) == pytest.approx(tuple(quantiles), abs=0.02)


@pytest.mark.parametrize("correlation", [pearson, spearman, kendall_tau_b])
@pytest.mark.parametrize(
    ("first", "second", "n_items", "reason"),
    [
        ([], [], 0, "a correlation needs two items that both raters have numbers of, there is none"),
        ([1.0], [2.0], 1, "a correlation needs two items that both raters have numbers of, there is one"),
        ([1.0, None], [2.0, 3.0], 1, "a correlation needs two items that both raters have numbers of, there is one"),
        ([math.nan] * 3, [1.0] * 3, 0, "a correlation needs two items that both raters have numbers of, there is none"),
        ([0.1, 0.1, 0.1], [1.0, 2.0, 3.0], 3, "all numbers of the first rater are equal"),
        ([1.0, 2.0, None], [0.1, 0.1, 5.0], 2, "all numbers of the second rater are equal"),
    ],
)
def test_degenerate_input_has_no_value_and_a_reason(
    correlation: Callable[..., Agreement],
    first: list[float | None],
    second: list[float | None],
    n_items: int,
    reason: str,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert correlation(first, second) == Agreement(None, None, None, n_items, 2, reason)


@pytest.mark.parametrize("correlation", [pearson, spearman, kendall_tau_b])
def test_items_without_both_numbers_are_left_out(correlation: Callable[..., Agreement]) -> None:
    whole = correlation([1.0, 2.0, 4.0, 3.0], [1.0, 3.0, 2.0, 5.0], Bootstrap(clusters=["a", "b", "b", "c"]))
    holes = correlation(
        [1.0, None, 2.0, 4.0, math.nan, 3.0],
        [1.0, 9.0, 3.0, 2.0, 9.0, 5.0],
        Bootstrap(clusters=["a", "x", "b", "b", "y", "c"]),
    )
    assert holes == whole
    assert whole.value is not None


def test_numbers_of_any_size_are_correlated_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = pearson([1e308, -1e308, 0.0], [1e-308, 3e-308, 2e-308])
    assert result.value == pytest.approx(-1)


@pytest.mark.parametrize("correlation", [pearson, spearman, kendall_tau_b])
def test_infinity_and_unequal_lengths_are_refused(correlation: Callable[..., Agreement]) -> None:
    with pytest.raises(ValueError, match="finite"):
        correlation([1.0, math.inf], [1.0, 2.0])
    with pytest.raises(ValueError, match="two numbers per item, got 2 and 1"):
        correlation([1.0, 2.0], [1.0])
