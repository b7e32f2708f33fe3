"""Masks: the union of what SAM 3 finds for each concept, and shares of cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from transformers import CLIPTokenizer, Sam3Model

from bench.evaluators.vision.loading import VisionModel
from bench.evaluators.vision.segmentation import Sam3Segmenter, shares_of_cells


def by_hand(folder: Path, image: Image.Image, concept: str, threshold: float) -> np.ndarray:
    """Return the instances' union from one forward pass over picture and words."""
    loaded = VisionModel(Sam3Model, "a model", folder, revision=None, dtype="float32", device="cpu")
    words = CLIPTokenizer.from_pretrained(folder)([concept], padding="max_length", max_length=32, return_tensors="pt")
    with torch.no_grad():
        outputs = loaded.model(pixel_values=loaded.prepare([image]), **words)
    union = np.zeros(outputs.pred_masks.shape[-2:], dtype=bool)
    for logit, mask in zip(outputs.pred_logits[0], outputs.pred_masks[0], strict=True):
        if float(logit.sigmoid()) * float(outputs.presence_logits[0].sigmoid()) > threshold:
            union |= (mask > 0).numpy()  # a probability above one half
    return union


def test_a_mask_is_the_union_of_all_instances_of_all_concepts(sam3: Path, noise: Image.Image) -> None:
    concepts, threshold = ["person", "red hat"], 0.2
    expected = [by_hand(sam3, noise, concept, threshold) for concept in concepts]
    found = Sam3Segmenter(sam3, threshold=threshold).foreground(noise, concepts)
    np.testing.assert_array_equal(found, expected[0] | expected[1])
    assert 0 < found.mean() < 1


def test_nothing_above_the_threshold_is_an_empty_mask(sam3: Path, noise: Image.Image) -> None:
    assert not Sam3Segmenter(sam3, threshold=1.0).foreground(noise, ["person"]).any()


def test_an_instance_counts_no_more_than_its_concept_is_there(sam3: Path, noise: Image.Image) -> None:
    """Between an instance's own score and that times the concept's, the threshold turns it down."""
    segmenter = Sam3Segmenter(sam3)
    words = CLIPTokenizer.from_pretrained(sam3)(["person"], padding="max_length", max_length=32, return_tensors="pt")
    with torch.no_grad():
        outputs = segmenter._loaded.model(pixel_values=segmenter._loaded.prepare([noise]), **words)
    own, there = float(outputs.pred_logits[0].sigmoid().max()), float(outputs.presence_logits[0].sigmoid())
    for threshold, is_found in ((own * there * 0.98, True), (own * (1 + there) / 2, False)):
        assert bool(Sam3Segmenter(sam3, threshold=threshold).instances(noise, ["person"])[0]) is is_found


def test_a_segmenter_without_concepts_has_nothing_to_look_for(sam3: Path, noise: Image.Image) -> None:
    with pytest.raises(ValueError, match="at least one concept"):
        Sam3Segmenter(sam3).foreground(noise, [])


def test_a_concept_may_be_longer_than_the_model_reads(sam3: Path, noise: Image.Image) -> None:
    assert Sam3Segmenter(sam3).foreground(noise, ["hat" * 60]).ndim == 2


def test_the_fingerprint_knows_thresholds(sam3: Path) -> None:
    segmenters = [Sam3Segmenter(sam3), Sam3Segmenter(sam3, threshold=0.4), Sam3Segmenter(sam3, mask_threshold=0.4)]
    assert len({segmenter.fingerprint for segmenter in segmenters}) == 3


def test_shares_are_exact_where_cells_divide_the_mask() -> None:
    mask = np.zeros((4, 6), dtype=bool)
    mask[:2, :2] = True
    mask[3, 5] = True
    np.testing.assert_allclose(shares_of_cells(mask, 2, 3), np.array([[1, 0, 0], [0, 0, 0.25]]))


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 7), st.integers(1, 7))
def test_shares_stay_between_nothing_and_all(height: int, width: int, rows: int, columns: int) -> None:
    mask = np.random.default_rng(height * 31 + width).random((height, width)) > 0.5
    shares = shares_of_cells(mask, rows, columns)
    assert shares.shape == (rows, columns)
    assert ((shares >= 0) & (shares <= 1)).all()
    np.testing.assert_array_equal(shares_of_cells(np.ones_like(mask), rows, columns), 1)
