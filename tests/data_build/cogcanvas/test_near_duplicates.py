"""Near duplicates by the cosine of vectors, against a plain double loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_build.cogcanvas import near_duplicates as module
from data_build.cogcanvas.near_duplicates import near_duplicates


def by_loop(vectors: np.ndarray, cosine: float) -> set[int]:
    kept: list[int] = []
    for place, one in enumerate(vectors):
        if all(one @ vectors[other] / np.linalg.norm(one) / np.linalg.norm(vectors[other]) < cosine for other in kept):
            kept.append(place)
    return set(range(len(vectors))) - set(kept)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), num=st.integers(1, 40), cosine=st.sampled_from([0.3, 0.6, 0.9]))
def test_the_same_pictures_are_left_out_as_by_comparing_each_with_each(seed: int, num: int, cosine: float) -> None:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(4, 6))[random.integers(0, 4, num)] + 0.3 * random.normal(size=(num, 6))
    found = near_duplicates(vectors, cosine)
    assert set(found) == by_loop(vectors, cosine)
    for place, (other, likeness) in found.items():
        assert other < place
        assert other not in found
        assert likeness >= cosine


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 3))
    whole = near_duplicates(vectors, 0.8)
    monkeypatch.setattr(module, "BLOCK", 7)
    parts = near_duplicates(vectors, 0.8)
    assert {place: other for place, (other, _) in parts.items()} == {
        place: other for place, (other, _) in whole.items()
    }


def test_the_ends_of_a_chain_stay() -> None:
    angles = np.deg2rad([0, 20, 40])  # neighbours have a cosine of .94, the ends .77
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert {place: other for place, (other, _) in near_duplicates(vectors, 0.9).items()} == {1: 0}


def test_vectors_that_say_nothing_are_like_nothing() -> None:
    vectors = np.array([[1.0, 0], [np.nan, 0], [0, 0], [2, 0], [np.nan, 0]])
    assert {place: other for place, (other, _) in near_duplicates(vectors, 0.9).items()} == {3: 0}
