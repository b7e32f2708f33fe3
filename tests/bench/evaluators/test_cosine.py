"""Cosines, held against scikit-learn's."""

from __future__ import annotations

import numpy as np
from sklearn.metrics.pairwise import cosine_similarity

from bench.evaluators.cosine import cosines


def test_cosines_are_those_of_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(4, 7)), generator.normal(size=(3, 7))
    np.testing.assert_allclose(cosines(first, second), cosine_similarity(first, second))


def test_a_vector_without_a_direction_has_none() -> None:
    found = cosines(np.array([[0.0, 0], [np.nan, 1], [1, 1]]), np.array([[2.0, 0]]))
    assert np.isnan(found[:2]).all()
    np.testing.assert_allclose(found[2], [np.sqrt(0.5)])
    assert cosines(np.zeros((0, 2)), np.ones((3, 2))).shape == (0, 3)
