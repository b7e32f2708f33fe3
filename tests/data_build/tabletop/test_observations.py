from __future__ import annotations

import random

import numpy as np
import pytest

from data_build.tabletop.observations import KIND_CLASSES, Observation, sample_observation
from data_build.tabletop.oracle import read_scene
from data_build.tabletop.world import GRID


@pytest.fixture(scope="module")
def observations() -> list[Observation]:
    rng = random.Random(11)
    return [sample_observation(rng) for _ in range(200)]


def test_facts_agree_with_what_the_oracle_reads(observations: list[Observation]) -> None:
    agree = []
    for observation in observations:
        read = read_scene(observation.candidate).cells
        for index, (kind, *_rest) in enumerate(observation.candidate_classes):
            name = KIND_CLASSES[kind]
            if name != "unclear":
                look = read.get(divmod(index, GRID), ("none", "", ""))
                agree.append(look is not None and look[0] == name)
    assert np.mean(agree) > 0.99


def test_a_right_candidate_answers_yes_and_an_unedited_one_no(observations: list[Observation]) -> None:
    for observation in observations:
        done, kept, clean = observation.answers
        if done and kept:
            assert observation.right.all()
            assert observation.changed.any()
        if not observation.changed.any():
            assert not done
        unclear = bool((observation.candidate_classes[:, 0] == KIND_CLASSES.index("unclear")).any())
        assert clean == (not unclear)


def test_every_answer_occurs_often_both_ways(observations: list[Observation]) -> None:
    shares = np.mean([observation.answers for observation in observations], axis=0)
    assert ((shares > 0.25) & (shares < 0.85)).all()


def test_the_same_generator_state_draws_the_same(observations: list[Observation]) -> None:
    again = sample_observation(random.Random(11))
    assert again.instruction == observations[0].instruction
    assert np.array_equal(np.asarray(again.candidate), np.asarray(observations[0].candidate))
