"""Masks are given from left to right, and followed from pass to pass."""

from __future__ import annotations

import numpy as np
import pytest

from bench.cogcanvas.places import followed_places, given_places, is_found, overlap
from bench.evaluators.vision.segmentation import Mask


def bar(left: int, right: int) -> Mask:
    mask = np.zeros((4, 20), dtype=np.bool_)
    mask[:, left:right] = True
    return mask


def left_of(masks: list[Mask | None]) -> list[int | None]:
    return [None if mask is None else int(mask.any(0).argmax()) for mask in masks]


def test_overlap_is_the_intersection_over_the_union() -> None:
    assert overlap(bar(0, 4), bar(2, 6)) == pytest.approx(2 / 6)
    assert overlap(bar(0, 4), bar(4, 8)) == 0
    assert overlap(bar(0, 0), bar(0, 0)) == 0


def test_the_surest_masks_are_given_from_left_to_right() -> None:
    surest_first = [bar(12, 16), bar(0, 4), bar(6, 10)]
    assert left_of(given_places(surest_first, 2)) == [0, 12]  # the third is not as sure
    assert left_of(given_places(surest_first, 4)) == [0, 6, 12, None]
    assert given_places([], 1) == [None]


def test_subjects_are_followed_where_they_overlap() -> None:
    before = [bar(0, 4), bar(10, 14)]
    assert left_of(followed_places(before, [bar(11, 15), bar(1, 5)], 0.3)) == [1, 11]
    # Of one that is no longer found the place stays known.
    assert left_of(followed_places(before, [bar(11, 15)], 0.3)) == [0, 11]
    assert left_of(followed_places(before, [bar(7, 11), bar(3, 5)], 0.3)) == [0, 10]
    assert left_of(followed_places(before, [], 0.3)) == [0, 10]


def test_one_without_a_place_gets_what_nobody_claims() -> None:
    assert left_of(followed_places([None, bar(0, 4)], [bar(0, 4), bar(8, 12)], 0.3)) == [8, 0]
    assert left_of(followed_places([None, None], [bar(8, 12)], 0.3)) == [8, None]


def test_a_mask_is_found_where_another_covers_enough_of_it() -> None:
    assert is_found(bar(0, 4), [bar(10, 14), bar(2, 6)], 0.3)
    assert not is_found(bar(0, 4), [bar(10, 14), bar(2, 6)], 0.4)
    assert not is_found(bar(0, 4), [], 0.1)
