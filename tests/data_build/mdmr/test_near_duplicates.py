from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from data_build.mdmr.near_duplicates import MAX_DISTANCE, near_duplicates


def all_pairs(hashes: list[int], priority: list[int], max_distance: int) -> list[int]:
    """What is kept and repeated when every pair is compared, in plain Python."""
    repeats = [-1] * len(hashes)
    done: list[int] = []
    for place in sorted(range(len(hashes)), key=lambda place: priority[place]):
        equal = [other for other in done if hashes[other] == hashes[place]]
        near = [
            ((hashes[other] ^ hashes[place]).bit_count(), priority[other], other)
            for other in done
            if repeats[other] == -1 and (hashes[other] ^ hashes[place]).bit_count() <= max_distance
        ]
        if equal:
            repeats[place] = equal[0] if repeats[equal[0]] == -1 else repeats[equal[0]]
        elif near:
            repeats[place] = min(near)[2]
        done.append(place)
    return repeats


def found(hashes: list[int], priority: list[int], max_distance: int) -> list[int]:
    result: NDArray[np.int64] = near_duplicates(np.array(hashes, np.uint64), np.array(priority, np.int64), max_distance)
    return [int(place) for place in result]


@st.composite
def clustered(draw: st.DrawFn) -> list[int]:
    """Hashes of which many are some flipped bits away from others."""
    hashes = draw(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4))
    for _ in range(draw(st.integers(0, 20))):
        value = draw(st.sampled_from(hashes))
        for bit in draw(st.lists(st.integers(0, 63), max_size=8)):
            value ^= 1 << bit
        hashes.append(value)
    return hashes


@given(clustered(), st.integers(0, MAX_DISTANCE))
@settings(deadline=None)
def test_it_says_what_comparing_all_pairs_says(hashes: list[int], max_distance: int) -> None:
    priority = np.random.default_rng(len(hashes)).permutation(len(hashes)).tolist()

    assert found(hashes, priority, max_distance) == all_pairs(hashes, priority, max_distance)


def test_a_chain_of_small_steps_is_not_one_group() -> None:
    chain = [0, 0b111, 0b111111, 0b111111111]

    assert found(chain, [0, 1, 2, 3], 3) == [-1, 0, -1, 2]


def test_the_last_bits_count_as_well() -> None:
    assert found([0, 1 << 63, 0b11 << 62], [0, 1, 2], 1) == [-1, 0, -1]


def test_none_and_one_are_no_special_case() -> None:
    assert found([], [], 4) == []
    assert found([7], [0], 4) == [-1]


def test_a_distance_that_would_take_minutes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.\.6 bits, got 7"):
        found([1], [0], 7)
    with pytest.raises(ValueError, match="one priority for each hash"):
        found([1, 2], [0], 3)
