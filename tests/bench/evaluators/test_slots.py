"""Regions and slots: one region for one slot, equal names told apart by looks, the best sum of all."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bench.evaluators.slots import Scores, assign, exchange, pooled

BOX = np.array([0.0, 0, 10, 10])
ELSEWHERE = np.array([50.0, 50, 60, 60])


def sizes() -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(1, 4), st.integers(0, 4))


def matrices() -> st.SearchStrategy[Scores]:
    return sizes().flatmap(lambda shape: arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.2, 0.5, 0.9])))


def brute_force(scores: Scores) -> float:
    """Return the largest sum by trying every way to give each slot a region of its own or none."""
    slots, regions = scores.shape
    padded = np.hstack([scores, np.zeros((slots, slots))])
    return float(
        max(
            sum(padded[slot, place] for slot, place in enumerate(way))
            for way in permutations(range(regions + slots), slots)
        )
    )


@given(matrices())
def test_regions_are_given_once_and_the_sum_is_the_largest(scores: Scores) -> None:
    given_ = assign(scores)
    places = [place for place in given_ if place is not None]
    assert len(set(places)) == len(places)
    assert all(scores[slot, place] > 0 for slot, place in enumerate(given_) if place is not None)
    total = sum(scores[slot, place] for slot, place in enumerate(given_) if place is not None)
    assert total == pytest.approx(brute_force(scores))


@given(matrices(), st.data())
def test_an_exchange_keeps_what_is_missing_and_never_lessens_the_likeness(scores: Scores, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from("ab"), min_size=len(scores), max_size=len(scores)))
    # Slots of one name are found alike.
    alike = np.array([scores[names.index(name)] for name in names]).reshape(scores.shape)
    likeness = data.draw(arrays(np.float64, scores.shape, elements=st.floats(-1, 1)))
    before = assign(alike)
    after = exchange(before, names, likeness)
    for name in "ab":
        slots = [slot for slot, other in enumerate(names) if other == name]
        assert sorted(str(before[slot]) for slot in slots) == sorted(str(after[slot]) for slot in slots)
    if None not in before:
        total = [sum(likeness[slot, place] for slot, place in enumerate(way)) for way in (before, after)]
        assert total[1] >= total[0] - 1e-9


def test_two_slots_of_one_name_never_share_a_box() -> None:
    found = (np.array([BOX]), np.array([0.8]))
    regions = pooled([found, found])
    assert regions.scores.tolist() == [[0.8], [0.8]]
    assert sorted(map(str, assign(regions.scores))) == ["0", "None"]


def test_the_only_bag_is_that_of_the_slot_that_it_looks_like() -> None:
    likeness = np.array([[0.1], [0.9]])
    assert exchange([0, None], ["bag", "bag"], likeness) == [None, 0]
    assert exchange([0, None], ["bag", "hat"], likeness) == [0, None]


def test_boxes_of_two_names_that_are_one_region_serve_one_of_them() -> None:
    nearly = BOX + np.array([0, 0, 0.5, 0])
    regions = pooled([(np.array([BOX]), np.array([0.6])), (np.array([nearly, ELSEWHERE]), np.array([0.9, 0.4]))])
    np.testing.assert_array_equal(regions.boxes, [nearly, ELSEWHERE])
    np.testing.assert_array_equal(regions.scores, [[0.6, 0], [0.9, 0.4]])
    # The second slot leaves the first its only box: .6 + .4 are more than .9.
    assert assign(regions.scores) == [0, 1]


def test_nothing_found_is_everything_missing() -> None:
    nothing = (np.zeros((0, 4)), np.zeros(0))
    regions = pooled([nothing, nothing])
    assert regions.boxes.shape == (0, 4)
    assert regions.scores.shape == (2, 0)
    assert assign(regions.scores) == [None, None]
    assert exchange([None, None], ["a", "a"], np.zeros((2, 0))) == [None, None]
