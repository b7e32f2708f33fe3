"""Of overlapping boxes the surest stays; held against a plain quadratic version."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.evaluators.vision.boxes import suppressed

corner, side = st.integers(0, 30), st.integers(1, 20)
boxes = st.lists(st.tuples(corner, corner, side, side), max_size=12)


def slowly(given_boxes: np.ndarray, scores: np.ndarray, threshold: float, of_smaller: bool) -> list[int]:
    def pixels(box: np.ndarray) -> set[tuple[int, int]]:
        return {(x, y) for x in range(int(box[0]), int(box[2])) for y in range(int(box[1]), int(box[3]))}

    kept: list[int] = []
    for place in sorted(range(len(scores)), key=lambda one: (-scores[one], one)):
        mine = pixels(given_boxes[place])
        others = [pixels(given_boxes[other]) for other in kept]
        shares = [
            len(mine & other) / (min(len(mine), len(other)) if of_smaller else len(mine | other)) for other in others
        ]
        if all(share <= threshold for share in shares):
            kept.append(place)
    return kept


@given(some=boxes, threshold=st.sampled_from([0.0, 0.3, 0.5, 0.7]), of_smaller=st.booleans(), data=st.data())
def test_what_stays(
    some: list[tuple[int, int, int, int]], threshold: float, of_smaller: bool, data: st.DataObject
) -> None:
    found = np.array([(x, y, x + w, y + h) for x, y, w, h in some], dtype=np.float32).reshape(-1, 4)
    scores = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(some), max_size=len(some))), np.float32)
    assert suppressed(found, scores, threshold, of_smaller=of_smaller) == slowly(found, scores, threshold, of_smaller)


@pytest.mark.parametrize(("of_smaller", "kept"), [(False, [0, 1]), (True, [0])])
def test_a_small_box_inside_a_large_one(of_smaller: bool, kept: list[int]) -> None:
    found = np.array([[0, 0, 10, 10], [2, 2, 5, 5]], np.float32)
    assert suppressed(found, np.array([0.9, 0.8], np.float32), 0.7, of_smaller=of_smaller) == kept
