"""The cluster bootstrap against scipy, closed forms and invariants."""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gnomon.statistics import (
    DRAWS_AT_ONCE,
    Estimate,
    McNemar,
    Resampling,
    WeightedStatistic,
    cluster_bootstrap,
    cluster_bootstrap_statistic,
    mcnemar,
    mean_of_means,
    paired_difference,
    resample_columns,
)

numbers = st.floats(-1e3, 1e3, allow_nan=False, width=32)
samples = st.lists(st.tuples(numbers, st.integers(0, 6)), min_size=1, max_size=30)


def test_unclustered_interval_agrees_with_scipys_percentile_bootstrap() -> None:
    values = np.random.default_rng(3).normal(2.0, 1.0, 80)
    ours = cluster_bootstrap(values, np.arange(80), num_resamples=20_000)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1), vectorized=True
    ).confidence_interval
    assert ours.value == pytest.approx(values.mean())
    assert ours.ci_low == pytest.approx(theirs.low, abs=0.01)
    assert ours.ci_high == pytest.approx(theirs.high, abs=0.01)


def test_width_of_the_mean_agrees_with_the_normal_closed_form() -> None:
    values = np.tile([0.0, 1.0], 500)  # standard error of the mean: sqrt(.25 / 1000)
    estimate = cluster_bootstrap(values, np.arange(1000), num_resamples=20_000)
    assert estimate.ci_low is not None
    assert estimate.ci_high is not None
    half_width = (estimate.ci_high - estimate.ci_low) / 2
    assert half_width == pytest.approx(1.959964 * np.sqrt(0.25 / 1000), rel=0.03)


def test_two_clusters_take_the_three_values_that_can_be_drawn() -> None:
    # Resamples: both A (1/4): mean 0; A and B (1/2): mean 3/4; both B (1/4): mean 1.
    estimate = cluster_bootstrap([0.0, 1.0, 1.0, 1.0], ["A", "B", "B", "B"], level=0.4)
    assert estimate == Estimate(value=0.75, ci_low=0.75, ci_high=0.75, n=4, num_clusters=2)
    wide = cluster_bootstrap([0.0, 1.0, 1.0, 1.0], ["A", "B", "B", "B"], level=0.95)
    assert (wide.ci_low, wide.ci_high) == (0.0, 1.0)


def test_repeating_every_value_inside_its_cluster_narrows_nothing() -> None:
    values = np.random.default_rng(0).normal(size=40)
    once = cluster_bootstrap(values, np.arange(40))
    repeated = cluster_bootstrap(np.repeat(values, 10), np.repeat(np.arange(40), 10))
    naive = cluster_bootstrap(np.repeat(values, 10), np.arange(400))
    assert (repeated.ci_low, repeated.ci_high) == pytest.approx((once.ci_low, once.ci_high))
    assert naive.ci_low is not None
    assert once.ci_low is not None
    assert naive.ci_low > once.ci_low
    assert (repeated.n, repeated.num_clusters) == (400, 40)


def test_one_cluster_has_a_mean_and_no_interval() -> None:
    assert cluster_bootstrap([1.0, 3.0], ["a", "a"]) == Estimate(2.0, None, None, n=2, num_clusters=1)


def test_resamples_in_blocks_are_as_many_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(5).normal(size=50)
    whole = cluster_bootstrap(values, np.arange(50))
    monkeypatch.setattr("gnomon.statistics.DRAWS_AT_ONCE", 333)
    blocks = cluster_bootstrap(values, np.arange(50))
    assert (blocks.ci_low, blocks.ci_high) == pytest.approx((whole.ci_low, whole.ci_high), abs=1e-12)


@pytest.mark.parametrize(
    ("values", "clusters", "message"),
    [
        ([], [], "at least one number"),
        ([1.0, float("nan")], [0, 1], "finite"),
        ([1.0, 2.0], [0], "one cluster per value"),
        ([[1.0]], [[0]], "shape"),
    ],
)
def test_what_has_no_mean_is_refused(values: list[float], clusters: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cluster_bootstrap(values, clusters)


def test_level_and_number_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="level"):
        cluster_bootstrap([1.0, 2.0], [0, 1], level=95)
    with pytest.raises(ValueError, match="num_resamples"):
        cluster_bootstrap([1.0, 2.0], [0, 1], num_resamples=0)


def test_paired_difference_cancels_what_both_share() -> None:
    difficulty = np.random.default_rng(2).normal(0, 10, 200)
    estimate = paired_difference(difficulty, difficulty + 0.5, np.arange(200))
    assert (estimate.value, estimate.ci_low, estimate.ci_high) == pytest.approx((0.5, 0.5, 0.5))


def test_pairs_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 values before and 1 after"):
        paired_difference([1.0, 2.0], [1.0], [0, 1])


@settings(deadline=None, max_examples=60)
@given(samples, st.integers(0, 5))
def test_interval_contains_the_point_estimate(sample: list[tuple[float, int]], seed: int) -> None:
    values, clusters = zip(*sample, strict=True)
    estimate = cluster_bootstrap(values, clusters, seed=seed, num_resamples=500)
    if estimate.num_clusters < 2:
        assert estimate.ci_low is None
        assert estimate.ci_high is None
    else:
        assert estimate.ci_low is not None
        assert estimate.ci_high is not None
        assert estimate.ci_low - 1e-9 <= estimate.value <= estimate.ci_high + 1e-9


@settings(deadline=None, max_examples=60)
@given(samples, numbers)
def test_adding_a_constant_moves_the_interval_by_it(sample: list[tuple[float, int]], shift: float) -> None:
    values, clusters = (np.array(column) for column in zip(*sample, strict=True))
    here = cluster_bootstrap(values, clusters, num_resamples=200)
    there = cluster_bootstrap(values + shift, clusters, num_resamples=200)
    assert there.value == pytest.approx(here.value + shift, abs=1e-6)
    if here.ci_low is not None and here.ci_high is not None:
        expected = (here.ci_low + shift, here.ci_high + shift)
        assert (there.ci_low, there.ci_high) == pytest.approx(expected, abs=1e-6)


@settings(deadline=None, max_examples=30)
@given(samples, st.integers(0, 1000))
def test_same_seed_gives_the_same_estimate(sample: list[tuple[float, int]], seed: int) -> None:
    values, clusters = zip(*sample, strict=True)
    first = cluster_bootstrap(values, clusters, seed=seed, num_resamples=100)
    assert cluster_bootstrap(values, clusters, seed=seed, num_resamples=100) == first


def test_mcnemar_is_the_exact_test_by_hand() -> None:
    """Eight items differ, one of them in the first one's favour: p = 2 * (1 + 8) / 2^8."""
    first = [True] * 5 + [True] + [False] * 7 + [False] * 3
    second = [True] * 5 + [False] + [True] * 7 + [False] * 3
    found = mcnemar(first, second)
    assert (found.only_first, found.only_second) == (1, 7)
    assert found.p_value == pytest.approx(18 / 256)


def test_mcnemar_of_equal_answers_says_nothing() -> None:
    assert mcnemar([True, False], [True, False]) == McNemar(0, 0, None)
    with pytest.raises(ValueError, match="pairs"):
        mcnemar([True], [True, False])


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_mcnemar_does_not_depend_on_who_is_first(rows: list[tuple[bool, bool]]) -> None:
    first, second = zip(*rows, strict=True)
    ours, theirs = mcnemar(first, second), mcnemar(second, first)
    assert (ours.only_first, ours.only_second) == (theirs.only_second, theirs.only_first)
    assert ours.p_value == pytest.approx(theirs.p_value) if ours.p_value is not None else theirs.p_value is None


def weighted_mean(values: np.ndarray) -> WeightedStatistic:
    return lambda weights: np.asarray(weights @ values / weights.sum(axis=1))


def test_a_resampled_statistic_that_is_a_mean_has_the_interval_of_the_mean() -> None:
    values = np.random.default_rng(1).normal(size=90)
    clusters = [f"c{k % 30}" for k in range(90)]
    ours = cluster_bootstrap_statistic(weighted_mean(values), clusters, num_resamples=4000)
    mean = cluster_bootstrap(values, clusters, num_resamples=4000)
    assert (ours.n, ours.num_clusters) == (90, 30)
    # The same draws in the same order.
    assert (ours.value, ours.ci_low, ours.ci_high) == pytest.approx((mean.value, mean.ci_low, mean.ci_high))


def test_a_resampled_median_agrees_with_scipys_percentile_bootstrap() -> None:
    values = np.sort(np.random.default_rng(3).normal(size=61))

    def median(weights: np.ndarray) -> np.ndarray:
        return np.asarray(values[(np.cumsum(weights, axis=1) >= 31).argmax(axis=1)])

    ours = cluster_bootstrap_statistic(median, np.arange(61), num_resamples=10_000)
    theirs = stats.bootstrap(
        (values,), np.median, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1)
    )
    assert ours.value == np.median(values)
    assert (ours.ci_low, ours.ci_high) == pytest.approx(tuple(theirs.confidence_interval), abs=0.05)


def test_the_width_of_a_statistic_bounds_the_rows_and_changes_nothing() -> None:
    values = np.random.default_rng(1).normal(size=40)
    rows: list[int] = []

    def watched(weights: np.ndarray) -> np.ndarray:
        rows.append(len(weights))
        return weighted_mean(values)(weights)

    narrow = cluster_bootstrap_statistic(watched, np.arange(40), num_resamples=100, width=DRAWS_AT_ONCE // 7)
    assert set(rows) == {1, 7, 2}
    whole = cluster_bootstrap_statistic(weighted_mean(values), np.arange(40), num_resamples=100)
    # Matrix products of fewer rows add up in another order on some processors.
    assert astuple(narrow) == pytest.approx(astuple(whole), rel=1e-12)


def test_undefined_resamples_are_left_out_until_most_are() -> None:
    values = np.arange(10.0)

    def defined_where(share: float) -> WeightedStatistic:
        def statistic(weights: np.ndarray) -> np.ndarray:
            defined = (weights[:, 0] == 1) | (len(weights) * share > np.arange(len(weights)))
            return np.where(defined, weighted_mean(values)(weights), np.nan)

        return statistic

    assert cluster_bootstrap_statistic(defined_where(0.4), np.arange(10)).ci_low is not None
    rare = cluster_bootstrap_statistic(defined_where(0.0), np.arange(10))
    assert (rare.value, rare.ci_low, rare.ci_high) == (4.5, None, None)
    assert cluster_bootstrap_statistic(weighted_mean(values), ["same"] * 10).ci_low is None


def test_a_statistic_without_values_or_a_value_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        cluster_bootstrap_statistic(weighted_mean(np.ones(0)), [])
    with pytest.raises(ValueError, match="defined on all values, got nan"):
        cluster_bootstrap_statistic(lambda weights: np.full(len(weights), np.nan), [1, 2])
    with pytest.raises(ValueError, match="num_resamples >= 1"):
        cluster_bootstrap_statistic(weighted_mean(np.ones(2)), [1, 2], num_resamples=0)
    with pytest.raises(ValueError, match="0 < level < 1"):
        cluster_bootstrap_statistic(weighted_mean(np.ones(2)), [1, 2], level=1.0)


def test_columns_are_resampled_as_each_alone_is() -> None:
    generator = np.random.default_rng(0)
    clusters = generator.integers(0, 9, 40)
    values = generator.normal(size=(40, 4))
    values[::3, 1] = np.nan  # still in every cluster
    values[clusters > 5, 2] = np.nan
    values[:, 3] = np.nan
    together = resample_columns(values, clusters, seed=4).estimates()
    for column, found in enumerate(together[:3]):
        here = ~np.isnan(values[:, column])
        alone = cluster_bootstrap(values[here, column], clusters[here], seed=4)
        assert found is not None
        assert (found.n, found.num_clusters, found.value) == (alone.n, alone.num_clusters, alone.value)
        assert (found.ci_low, found.ci_high) == pytest.approx((alone.ci_low, alone.ci_high), abs=1e-12)
    assert together[3] is None
    with pytest.raises(ValueError, match="finite values"):
        resample_columns(np.array([[np.inf]]), np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="a cluster for each row"):
        resample_columns(values, clusters[:3])


def strata(*sizes: tuple[float, int]) -> list[Resampling]:
    generator = np.random.default_rng(0)
    return [
        resample_columns(generator.normal(center, 1, (size, 1)), np.arange(size), seed=place, num_resamples=4000)
        for place, (center, size) in enumerate(sizes)
    ]


def test_a_mean_of_means_weighs_strata_alike_and_resamples_inside_them() -> None:
    parts = strata((0, 400), (5, 100))
    found = mean_of_means(parts).estimates()[0]
    assert found is not None
    assert found.value == pytest.approx(np.mean([part.means[0] for part in parts]))
    assert (found.n, found.num_clusters) == (2, 500)
    # What lies between the strata is no doubt: the standard error is that of the two means alone.
    error = np.sqrt(1 / 400 + 1 / 100) / 2
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert (found.ci_high - found.ci_low) / 2 == pytest.approx(1.96 * error, rel=0.1)


def test_means_of_means_may_be_averaged_again() -> None:
    """Two of three strata belong together: they weigh a quarter each, the third a half."""
    parts = strata((0, 50), (1, 200), (4, 100))
    found = mean_of_means([mean_of_means(parts[:2]), mean_of_means(parts[2:])]).estimates()[0]
    assert found is not None
    first, second, third = (part.means[0] for part in parts)
    assert found.value == pytest.approx(first / 4 + second / 4 + third / 2)
    assert (found.n, found.num_clusters) == (2, 350)
    error = np.sqrt(1 / 50 / 16 + 1 / 200 / 16 + 1 / 100 / 4)
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert (found.ci_high - found.ci_low) / 2 == pytest.approx(1.96 * error, rel=0.1)


def test_a_mean_of_one_stratum_is_its_mean_and_of_a_lone_case_has_no_interval() -> None:
    values, clusters = np.array([[1.0], [2.0], [4.0], [4.0]]), np.array([0, 1, 2, 2])
    part, lone = resample_columns(values, clusters), resample_columns(np.array([[3.0], [5.0]]), np.array([7, 7]))
    empty = resample_columns(np.array([[np.nan]]), np.array([7]))
    assert mean_of_means([part, empty]).estimates() == [replace(cluster_bootstrap(values[:, 0], clusters), n=1)]
    alone = mean_of_means([part, lone]).estimates()[0]
    assert alone == Estimate((2.75 + 4) / 2, None, None, n=2, num_clusters=4)
    assert mean_of_means([empty]).estimates() == [None]
    with pytest.raises(ValueError, match="at least one stratum"):
        mean_of_means([])
