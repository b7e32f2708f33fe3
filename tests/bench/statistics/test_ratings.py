"""Ratings in long form and the results that are made of them."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from bench.statistics.correlations import kendall_tau_b, pearson, spearman
from bench.statistics.ratings import Bootstrap, Level, Ratings
from bench.statistics.reliability import agreement_ratio, cohen_kappa, fleiss_kappa, krippendorff_alpha
from gnomon.hashing import to_plain


def test_missing_ratings_are_no_entries_but_their_items_and_raters_are_known() -> None:
    ratings = Ratings.from_table([[2, None], [math.nan, np.float32("nan")], [1.0, 2]], "ordinal")
    assert (ratings.items, ratings.raters, ratings.domain) == (("0", "1", "2"), ("0", "1"), (1.0, 2.0))
    assert ratings.per_item.tolist() == [1, 0, 2]
    assert ratings.counts.toarray().tolist() == [[0, 1], [0, 0], [1, 1]]
    assert ratings.paired() == ([2.0, None, 1.0], [None, None, 2.0])


def test_a_second_value_of_one_rater_is_refused_even_if_one_is_missing() -> None:
    with pytest.raises(ValueError, match="one value of rater 'x' on item 'a', got two"):
        Ratings.from_triples([("a", "x", 1), ("a", "x", None)], "nominal")


@pytest.mark.parametrize("value", ["3", math.inf, -math.inf, (1,)])
@pytest.mark.parametrize("level", ["ordinal", "interval"])
def test_only_finite_numbers_have_an_order(value: Any, level: Level) -> None:
    with pytest.raises(ValueError, match="expected a finite number for the ordinal or interval level"):
        Ratings.from_table([[1, value]], level)


def test_only_numbers_of_two_raters_make_pairs() -> None:
    with pytest.raises(ValueError, match="expected numbers of two raters, got ordinal values of 3"):
        Ratings.from_table([[1, 2, 3]], "ordinal").paired()
    with pytest.raises(ValueError, match="got nominal values of 2"):
        Ratings.from_table([[1, 2]], "nominal").paired()


def test_results_hold_plain_numbers() -> None:
    table = np.random.default_rng(0).integers(0, 3, size=(12, 2))
    ratings = Ratings.from_table(table.tolist(), "interval")
    columns = table[:, 0].tolist(), table[:, 1].tolist()
    few = Bootstrap(num_resamples=20)
    results = [
        krippendorff_alpha(ratings, few),
        fleiss_kappa(ratings, few),
        cohen_kappa(ratings, few).agreement,
        agreement_ratio(ratings, few).agreement,
        *(correlation(*columns, few) for correlation in (pearson, spearman, kendall_tau_b)),
    ]
    for result in results:
        assert type(result.value) is type(result.ci_low) is type(result.ci_high) is float
        assert type(result.n_items) is type(result.n_raters) is int
        assert json.loads(json.dumps(to_plain(result)))["n_items"] == 12


def test_a_cluster_is_named_per_item() -> None:
    ratings = Ratings.from_table([[1, 2], [2, 2], [3, None]], "ordinal")
    with pytest.raises(ValueError, match="a cluster per item, got 2 for 3 items"):
        krippendorff_alpha(ratings, Bootstrap(clusters=["a", "b"]))
    with pytest.raises(ValueError, match="a cluster per item, got 2 for 3 items"):
        spearman(*ratings.paired(), Bootstrap(clusters=["a", "b"]))
