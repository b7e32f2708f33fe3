"""Agreement coefficients against independent libraries, worked examples, consistency checks and invariants."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import combinations
from typing import Any

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats import inter_rater

from bench.statistics.ratings import Agreement, Bootstrap, Level, Ratings
from bench.statistics.reliability import agreement_ratio, cohen_kappa, fleiss_kappa, krippendorff_alpha

NO_INTERVAL = Bootstrap(num_resamples=0)
LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval")
NAN = math.nan
MOSTLY_UNDEFINED = "no interval: the statistic is undefined in most resamples"

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C: four observers, twelve units.
WORKED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
    [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
]

Table = list[list[Any]]


def transposed(table: list[list[float]]) -> Table:
    return [list(column) for column in zip(*table, strict=True)]


def alpha(table: Table, level: Level) -> float | None:
    return krippendorff_alpha(Ratings.from_table(table, level), NO_INTERVAL).value


def kappa(table: Table) -> float | None:
    return cohen_kappa(Ratings.from_table(table, "nominal"), NO_INTERVAL).agreement.value


def fleiss(table: Table) -> float | None:
    return fleiss_kappa(Ratings.from_table(table, "nominal"), NO_INTERVAL).value


tables = st.integers(2, 4).flatmap(
    lambda raters: st.lists(
        st.lists(st.sampled_from([1.0, 2.0, 3.0, 5.0]), min_size=raters, max_size=raters), min_size=2
    )
)
sparse_tables = st.integers(2, 4).flatmap(
    lambda raters: st.lists(
        st.lists(st.sampled_from([1.0, 2.0, 2.5, 7.0, NAN]), min_size=raters, max_size=raters), min_size=2, max_size=12
    )
)


@pytest.mark.parametrize(("level", "expected"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_krippendorffs_own_example(level: Level, expected: float) -> None:
    ours = krippendorff_alpha(Ratings.from_table(transposed(WORKED), level), NO_INTERVAL)
    # .789 is what comes out of the ordinal level where the ends of a range are counted whole.
    assert ours.value == pytest.approx(expected, abs=5e-4)
    assert (ours.n_items, ours.n_raters) == (11, 4)  # one unit has a single value


@given(table=sparse_tables, level=st.sampled_from(LEVELS))
@settings(max_examples=200)
def test_alpha_agrees_with_the_library(table: Table, level: Level) -> None:
    columns = np.array(table, dtype=np.float64).T
    pairable = columns[:, (~np.isnan(columns)).sum(axis=0) >= 2]
    ours = alpha(table, level)
    if pairable.shape[1] < 2 or len(np.unique(pairable[~np.isnan(pairable)])) < 2:
        assert ours is None
    else:
        assert ours == pytest.approx(krippendorff.alpha(pairable, level_of_measurement=level), abs=1e-9)


def test_alpha_may_be_negative() -> None:
    # Two units, both split: observed 1, expected (16 - 8) / (4 * 3) = 2/3, hence 1 - 3/2.
    assert alpha([["A", "B"], ["B", "A"]], "nominal") == pytest.approx(-0.5)


def test_one_disagreement_among_equal_ratings_is_no_agreement() -> None:
    # By hand: a unit of five with one deviant has 8 unequal ordered pairs of 4 each, so 2 of 23 ratings disagree;
    # expected are 2 * 22 / (23 * 22) = 2/23 as well.
    table: Table = [[3, 3, 3, 3, 3], [3, 3, 3, 3, None], [3, 3, None, 3, 3], [3, 3, None, 3, 3], [3, 3, 3, 1, 3]]
    assert alpha(table, "nominal") == pytest.approx(0)
    assert alpha(table, "ordinal") == pytest.approx(0)


@given(table=tables)
@settings(max_examples=100)
def test_cohens_kappa_is_sklearns_mean_over_pairs(table: Table) -> None:
    columns = transposed(table)
    expected = [
        cohen_kappa_score(list(map(str, first)), list(map(str, second)))
        for first, second in combinations(columns, 2)
        if len(set(first + second)) > 1
    ]
    ours = cohen_kappa(Ratings.from_table(table, "nominal"), NO_INTERVAL)
    number = len(columns) * (len(columns) - 1) // 2
    assert (ours.n_pairs, ours.n_undefined) == (number, number - len(expected))
    assert ours.agreement.value == (pytest.approx(np.mean(expected), abs=1e-9) if expected else None)


@given(table=tables)
@settings(max_examples=100)
def test_fleiss_kappa_is_statsmodels(table: Table) -> None:
    ours = fleiss(table)
    if len({value for row in table for value in row}) == 1:
        assert ours is None
    else:
        counts, _ = inter_rater.aggregate_raters(np.array(table))
        assert ours == pytest.approx(inter_rater.fleiss_kappa(counts), abs=1e-9)


def test_cohens_kappa_by_hand() -> None:
    # 20 both yes, 5 and 10 split, 15 both no: p = .7, chance = .5 * .6 + .5 * .4 = .5 (Cohen 1960's form).
    table = [["y", "y"]] * 20 + [["y", "n"]] * 5 + [["n", "y"]] * 10 + [["n", "n"]] * 15
    assert kappa(table) == pytest.approx(0.4)
    assert agreement_ratio(Ratings.from_table(table, "nominal"), NO_INTERVAL).agreement.value == pytest.approx(0.7)


def test_a_pair_enters_with_the_items_that_both_rated() -> None:
    table: Table = [
        ["a", "a", None],
        ["b", "a", "b"],
        ["a", None, "a"],
        [None, "b", None],
        ["b", "b", "b"],
        ["a", "b", None],
    ]
    pairs = [([0, 1, 4, 5], 0, 1), ([1, 2, 4], 0, 2), ([1, 4], 1, 2)]
    kappas = [cohen_kappa_score([table[k][a] for k in kept], [table[k][b] for k in kept]) for kept, a, b in pairs]
    ratios = [np.mean([table[k][a] == table[k][b] for k in kept]) for kept, a, b in pairs]
    ratings = Ratings.from_table(table, "nominal")
    assert cohen_kappa(ratings, NO_INTERVAL).agreement.value == pytest.approx(np.mean(kappas))
    ratio = agreement_ratio(ratings, NO_INTERVAL)
    assert ratio.agreement.value == pytest.approx(np.mean(ratios))
    assert (ratio.n_pairs, ratio.agreement.n_items, ratio.agreement.n_raters) == (3, 5, 3)


@pytest.mark.parametrize(
    ("agreed", "first_yes", "second_yes", "printed", "exact"),
    [
        # A judge's yes rate of about .71 explains .853 and .642 (MDMR-Bench); marginals .576 and .510 give .529 where
        # CogCanvas prints .531 for an agreement of .765.
        (853, 710, 710, 0.642, (0.853 - 0.5882) / 0.4118),
        (765, 576, 510, 0.531, (0.765 - 0.50152) / 0.49848),
    ],
)
def test_published_kappas_follow_from_agreement_and_marginals(
    agreed: int, first_yes: int, second_yes: int, printed: float, exact: float
) -> None:
    # Two thousand items, so that all counts are whole.
    both = agreed + first_yes + second_yes - 1000
    table = [["y", "y"]] * both + [["y", "n"]] * (2 * first_yes - both) + [["n", "y"]] * (2 * second_yes - both)
    table += [["n", "n"]] * (2000 - len(table))
    assert kappa(table) == pytest.approx(exact)
    assert exact == pytest.approx(printed, abs=3e-3)


@given(table=sparse_tables, level=st.sampled_from(LEVELS), seed=st.integers(0, 99))
@settings(max_examples=60)
def test_neither_order_nor_names_matter(table: Table, level: Level, seed: int) -> None:
    triples = [(f"i{i}", f"r{r}", value) for i, row in enumerate(table) for r, value in enumerate(row)]
    raters = sorted({rater for _, rater, _ in triples})
    shuffled = random.Random(seed).sample(raters, len(raters))
    names = dict(zip(raters, shuffled, strict=True))
    other = [(item * 2, names[rater], value) for item, rater, value in triples]
    random.Random(seed).shuffle(other)
    before, after = Ratings.from_triples(triples, level), Ratings.from_triples(other, level)
    for statistic in (krippendorff_alpha, fleiss_kappa):
        assert close(statistic(before, NO_INTERVAL).value, statistic(after, NO_INTERVAL).value)
    for of_pairs in (cohen_kappa, agreement_ratio):
        assert close(of_pairs(before, NO_INTERVAL).agreement.value, of_pairs(after, NO_INTERVAL).agreement.value)


def close(first: float | None, second: float | None) -> bool:
    return first is second is None or (first is not None and second == pytest.approx(first, abs=1e-9))


@given(table=sparse_tables)
@settings(max_examples=60)
def test_labels_may_be_renamed(table: Table) -> None:
    names = {1.0: "是", 2.0: "no", 2.5: 7, 7.0: ""}
    renamed = [[None if math.isnan(value) else names[value] for value in row] for row in table]
    assert close(alpha(renamed, "nominal"), alpha(table, "nominal"))
    assert close(kappa(renamed), kappa(table))
    assert close(fleiss(renamed), fleiss(table))


@given(table=sparse_tables, factor=st.floats(1e-6, 1e6), shift=st.floats(-1e3, 1e3))
@settings(max_examples=60)
def test_ordinal_alpha_sees_order_only_and_interval_alpha_no_unit(table: Table, factor: float, shift: float) -> None:
    assert close(alpha([[value**3 for value in row] for row in table], "ordinal"), alpha(table, "ordinal"))
    moved, still = alpha([[value * 4 + 3 for value in row] for row in table], "interval"), alpha(table, "interval")
    assert close(moved, still)
    scaled = alpha([[value * factor for value in row] for row in table], "interval")
    assert close(scaled, still)
    assert (alpha([[value + shift for value in row] for row in table], "interval") is None) == (still is None)


@given(values=st.lists(st.integers(0, 4), min_size=2, max_size=20), raters=st.integers(2, 5))
def test_perfect_agreement_is_one_unless_all_is_equal(values: list[int], raters: int) -> None:
    table = [[value] * raters for value in values]
    for level in LEVELS:
        result = krippendorff_alpha(Ratings.from_table(table, level), NO_INTERVAL)
        if len(set(values)) == 1:
            assert result.value is None
            assert result.reason == "all ratings are equal, so that chance alone would agree as often"
        else:
            assert result.value == pytest.approx(1, abs=1e-12)
    expected = None if len(set(values)) == 1 else pytest.approx(1)
    assert kappa(table) == expected
    assert fleiss(table) == expected
    assert agreement_ratio(Ratings.from_table(table, "nominal"), NO_INTERVAL).agreement.value == 1


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ([], "no item has ratings of two raters"),
        ([[1], [2]], "no item has ratings of two raters"),
        ([[1, None], [None, 2]], "no item has ratings of two raters"),
        ([[NAN, NAN], [NAN, NAN]], "no item has ratings of two raters"),
        ([[1, 2]], "there is one item with enough ratings; two are needed"),
        ([[1, 2], [3, None]], "there is one item with enough ratings; two are needed"),
    ],
)
@pytest.mark.parametrize("level", LEVELS)
def test_degenerate_tables_have_no_value_and_a_reason(table: Table, reason: str, level: Level) -> None:
    ratings = Ratings.from_table(table, level)
    for result in (
        krippendorff_alpha(ratings),
        cohen_kappa(ratings).agreement,
        agreement_ratio(ratings).agreement,
    ):
        assert (result.value, result.ci_low, result.ci_high, result.reason) == (None, None, None, reason)
    assert fleiss_kappa(ratings).value is None
    assert fleiss_kappa(ratings).reason


def test_raters_who_say_the_same_throughout_have_no_kappa() -> None:
    ratings = Ratings.from_table([["y", "y", "n"], ["y", "y", "y"], ["y", "y", "n"]], "nominal")
    result = cohen_kappa(ratings, NO_INTERVAL)
    assert (result.n_pairs, result.n_undefined) == (3, 1)
    assert result.agreement.value == pytest.approx(0)  # the two other pairs: one rater is constant
    alone = cohen_kappa(Ratings.from_table([["y", "y"], ["y", "y"]], "nominal"))
    assert alone.agreement == Agreement(
        None, None, None, 2, 2, "both raters of every pair gave one and the same label throughout"
    )


def test_fleiss_needs_the_same_number_of_ratings_and_says_so() -> None:
    ratings = Ratings.from_table([["a", "b", "a"], ["b", "b", None]], "nominal")
    result = fleiss_kappa(ratings)
    assert result.value is None
    assert result.reason is not None
    assert "from 2 to 3" in result.reason
    # Other people may rate each item, and an item that nobody rated does not count.
    triples = [(f"i{k}", f"r{k}{j}", value) for k, row in enumerate(["ab", "bb", "aa"]) for j, value in enumerate(row)]
    moving = Ratings.from_triples([*triples, ("i9", "r00", None)], "nominal")
    assert fleiss_kappa(moving, NO_INTERVAL).value == fleiss([list("ab"), list("bb"), list("aa")])


def test_numbers_of_any_size_give_a_value() -> None:
    # Float64 has 1e308 at most and 5e-324 at least: squares of either would be lost.
    expected = alpha([[1, 1], [2, 3], [3, 3]], "interval")
    for unit in (1e307, 1e-300):
        assert alpha([[unit, unit], [2 * unit, 3 * unit], [3 * unit, 3 * unit]], "interval") == pytest.approx(expected)


def test_many_labels_fit_into_memory() -> None:
    # A cube of items by labels by labels would have 3 * 10^10 numbers.
    table = [[f"text {k}-{r % 2}" for r in range(3)] for k in range(3000)]
    result = krippendorff_alpha(Ratings.from_table(table, "nominal"), Bootstrap(num_resamples=10))
    # A third of the ordered pairs of each item are equal; by chance next to none are.
    assert result.value == pytest.approx(1 / 3, abs=1e-3)


@pytest.mark.parametrize("level", LEVELS)
def test_intervals_are_quantiles_of_the_statistic_on_drawn_items(level: Level) -> None:
    generator = np.random.default_rng(5)
    truth = generator.integers(1, 5, size=(60, 1))
    table = np.where(generator.random((60, 3)) < 0.7, truth, generator.integers(1, 5, size=(60, 3))).astype(float)
    drawn = np.random.default_rng(6).integers(60, size=(300, 60))
    everything = Bootstrap(num_resamples=3000)
    ratings = Ratings.from_table(table.tolist(), level)
    oracles: list[tuple[Agreement, Callable[[Any], float]]] = [
        (krippendorff_alpha(ratings, everything), lambda rows: krippendorff.alpha(rows.T, level_of_measurement=level)),
    ]
    if level == "nominal":  # the others take values as labels at every level
        oracles += [
            (agreement_ratio(ratings, everything).agreement, mean_ratio),
            (cohen_kappa(ratings, everything).agreement, mean_kappa),
            (fleiss_kappa(ratings, everything), statsmodels_kappa),
        ]
    for ours, oracle in oracles:
        quantiles = np.quantile([oracle(table[rows]) for rows in drawn], [0.025, 0.975])
        assert (ours.ci_low, ours.ci_high) == pytest.approx(tuple(quantiles), abs=0.05)


def statsmodels_kappa(rows: Any) -> float:
    return float(inter_rater.fleiss_kappa(inter_rater.aggregate_raters(rows)[0]))


def mean_ratio(rows: Any) -> float:
    return float(np.mean([np.mean(rows[:, a] == rows[:, b]) for a, b in ((0, 1), (0, 2), (1, 2))]))


def mean_kappa(rows: Any) -> float:
    labels = rows.astype(int)
    return float(np.mean([cohen_kappa_score(labels[:, a], labels[:, b]) for a, b in ((0, 1), (0, 2), (1, 2))]))


def test_items_of_one_group_are_drawn_together() -> None:
    generator = np.random.default_rng(0)
    few = generator.integers(0, 2, size=(30, 2)).tolist()
    ratings = Ratings.from_table([row for row in few for _ in range(4)], "nominal")
    alone = krippendorff_alpha(ratings)
    grouped = krippendorff_alpha(ratings, Bootstrap(clusters=[str(k) for k in range(30) for _ in range(4)]))
    assert alone.value == grouped.value
    assert None not in (alone.ci_low, alone.ci_high, grouped.ci_low, grouped.ci_high)
    widths = [float(a.ci_high or 0) - float(a.ci_low or 0) for a in (alone, grouped)]
    assert widths[1] == pytest.approx(2 * widths[0], rel=0.2)
    one = krippendorff_alpha(ratings, Bootstrap(clusters=["same"] * 120))
    assert (one.ci_low, one.ci_high) == (None, None)
    assert one.reason == "no interval: fewer than two groups of items to resample"


def test_equal_seeds_give_equal_intervals() -> None:
    ratings = Ratings.from_table(np.random.default_rng(1).integers(0, 3, size=(40, 3)).tolist(), "ordinal")
    assert krippendorff_alpha(ratings) == krippendorff_alpha(ratings)
    assert krippendorff_alpha(ratings) != krippendorff_alpha(ratings, Bootstrap(seed=1))


def test_an_interval_of_mostly_undefined_resamples_is_not_given() -> None:
    table = [["a", "a"]] * 39 + [["a", "b"]]
    rare = krippendorff_alpha(Ratings.from_table(table, "nominal"))  # 36 % of the resamples miss the one that differs
    assert rare.ci_low is not None
    # Half of the resamples draw one of two items twice, by chance a little more or less.
    one_of_two = Ratings.from_table([["a", "a"], ["b", "b"]], "nominal")
    results = [krippendorff_alpha(one_of_two, Bootstrap(seed=seed)) for seed in range(20)]
    assert all(result.value == pytest.approx(1) for result in results)
    assert {result.reason for result in results} <= {None, MOSTLY_UNDEFINED}
    assert MOSTLY_UNDEFINED in {result.reason for result in results}
