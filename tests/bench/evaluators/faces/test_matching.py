"""Matching people and faces: the best assignment there is, in any order of people and faces."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from bench.evaluators.faces.matching import Matching, match

similarities = st.tuples(st.integers(1, 5), st.integers(0, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-1, 1, width=16))
)


def total(similarity: NDArray[np.float64], found: list[int | None]) -> float:
    return sum(float(similarity[person, face]) for person, face in enumerate(found) if face is not None)


def best_total(similarity: NDArray[np.float64]) -> float:
    """Try every assignment of as many pairs as there can be."""
    wide = similarity if similarity.shape[0] <= similarity.shape[1] else similarity.T
    few, many = wide.shape
    return max(
        sum(float(wide[row, column]) for row, column in enumerate(chosen)) for chosen in permutations(range(many), few)
    )


@given(similarities)
def test_hungarian_is_the_best_of_all_assignments(similarity: NDArray[np.float64]) -> None:
    found = match(similarity)
    taken = [face for face in found if face is not None]
    assert len(taken) == len(set(taken)) == min(similarity.shape)
    assert total(similarity, found) == pytest.approx(best_total(similarity))


@pytest.mark.parametrize("matching", ["hungarian", "best"])
@given(similarity=similarities, data=st.data())
def test_the_order_of_people_and_faces_does_not_matter(
    matching: Matching, similarity: NDArray[np.float64], data: st.DataObject
) -> None:
    rows = data.draw(st.permutations(range(similarity.shape[0])))
    columns = data.draw(st.permutations(range(similarity.shape[1])))
    shuffled = similarity[rows][:, columns]
    assert total(shuffled, match(shuffled, matching)) == pytest.approx(total(similarity, match(similarity, matching)))


@given(similarities)
def test_best_match_is_never_below_hungarian_where_nobody_is_missing(similarity: NDArray[np.float64]) -> None:
    if similarity.shape[1] >= similarity.shape[0]:
        assert total(similarity, match(similarity, "best")) >= total(similarity, match(similarity)) - 1e-12


def test_one_face_for_two_people_is_shared_by_best_match_alone() -> None:
    similarity = np.array([[0.9, 0.1], [0.8, 0.1]])
    assert match(similarity, "best") == [0, 0]
    assert match(similarity) == [0, 1]


def test_without_a_face_nobody_is_matched() -> None:
    assert match(np.zeros((3, 0))) == [None, None, None]
    assert match(np.zeros((3, 0)), "best") == [None, None, None]
    assert match(np.array([[0.2], [0.7], [0.1]])) == [None, 0, None]
