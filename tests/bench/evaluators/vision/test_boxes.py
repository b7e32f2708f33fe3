"""Boxes: overlap and what is cut out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from transformers.models.owlv2.image_processing_pil_owlv2 import box_iou

from bench.evaluators.vision.boxes import Boxes, crop, intersection_over_union


def boxes_strategy(most: int = 8) -> st.SearchStrategy[Boxes]:
    box = st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(1, 12), st.integers(1, 12))
    return st.lists(box, min_size=1, max_size=most).map(
        lambda found: np.array([[x, y, x + width, y + height] for x, y, width, height in found], dtype=np.float64)
    )


@given(boxes_strategy(), boxes_strategy())
def test_overlap_is_that_of_transformers(first: Boxes, second: Boxes) -> None:
    import torch

    expected = box_iou(torch.from_numpy(first), torch.from_numpy(second))[0]
    np.testing.assert_allclose(intersection_over_union(first, second), expected.numpy(), atol=1e-12)


def test_a_box_without_area_overlaps_nothing() -> None:
    boxes = np.array([[0.0, 0, 0, 5], [0, 0, 4, 4], [3, 3, 1, 1]])
    overlaps = intersection_over_union(boxes, boxes)
    assert overlaps[1, 1] == 1
    assert overlaps.sum() == 1


def test_a_margin_is_a_share_of_the_box_and_stays_within_the_picture() -> None:
    image = Image.new("RGB", (100, 60))
    assert crop(image, np.array([20.0, 10, 40, 30]), 0).size == (20, 20)
    assert crop(image, np.array([20.0, 10, 40, 20]), 0.1).size == (24, 12)
    assert crop(image, np.array([-50.0, -50, 500, 500]), 0.1).size == (100, 60)


@pytest.mark.parametrize("box", [[200.0, 200, 300, 300], [-9, -9, -1, -1], [5, 5, 5, 5], [99.9, 59.9, 100, 60]])
def test_a_crop_is_never_empty(box: list[float]) -> None:
    assert min(crop(Image.new("RGB", (100, 60)), np.array(box), 0.05).size) >= 1
