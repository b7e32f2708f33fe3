"""Detectors: what the stock processors find for each query alone, best first, without repetitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import (
    AutoModelForObjectDetection,
    AutoModelForZeroShotObjectDetection,
    GroundingDinoProcessor,
    Owlv2Processor,
)
from transformers.models.yolos.image_processing_pil_yolos import YolosImageProcessorPil

from bench.evaluators.vision.boxes import intersection_over_union
from bench.evaluators.vision.detection import Detections, ObjectDetector, OpenVocabularyDetector
from gnomon.errors import UserError

NAMES = ["red hat", "bag"]


def stock(folder: Path, processor_class: Any, image: Image.Image, name: str, threshold: float) -> dict[str, Any]:
    processor = processor_class.from_pretrained(folder, backend="pil")
    model = AutoModelForZeroShotObjectDetection.from_pretrained(folder).eval()
    inputs = processor(text=[[name]], images=[image], return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs)
    found: dict[str, Any] = processor.post_process_grounded_object_detection(
        outputs, threshold=threshold, target_sizes=[(image.height, image.width)]
    )[0]
    return found


def same(found: Detections, expected: dict[str, Any]) -> None:
    """Compare with what is found within a picture of 90 x 60."""
    rows = sorted(zip(expected["scores"].tolist(), expected["boxes"].tolist(), strict=True), reverse=True)
    clipped = [
        (score, [min(max(left, 0), 90), min(max(top, 0), 60), min(max(right, 0), 90), min(max(bottom, 0), 60)])
        for score, (left, top, right, bottom) in rows
    ]
    within = [(score, box) for score, box in clipped if box[2] - box[0] >= 1 and box[3] - box[1] >= 1]
    assert within
    np.testing.assert_allclose(found.scores, [score for score, _ in within], atol=1e-5)
    np.testing.assert_allclose(found.boxes, [box for _, box in within], atol=1e-2)


@pytest.mark.parametrize(
    ("family", "processor_class"), [("owlv2", Owlv2Processor), ("grounding_dino", GroundingDinoProcessor)]
)
def test_each_name_is_looked_for_as_if_it_were_the_only_one(
    family: str, processor_class: Any, noise: Image.Image, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(family)
    detector = OpenVocabularyDetector(folder, threshold=0.05, max_overlap=1.0)
    together = detector.detect(noise, NAMES)
    for name, found in zip(NAMES, together, strict=True):
        expected = stock(folder, processor_class, noise, name, 0.05)
        assert len(found) > 0
        same(found, expected)


def test_a_query_says_more_than_the_name(owlv2: Path, noise: Image.Image) -> None:
    phrased = OpenVocabularyDetector(owlv2, threshold=0.05, max_overlap=1.0, query="a {name}").detect(noise, ["hat"])
    same(phrased[0], stock(owlv2, Owlv2Processor, noise, "a hat", 0.05))


def test_boxes_of_one_name_do_not_overlap(grounding_dino: Path, noise: Image.Image) -> None:
    found = OpenVocabularyDetector(grounding_dino, threshold=0.0, max_overlap=0.0).detect(noise, ["bag"])[0]
    every = OpenVocabularyDetector(grounding_dino, threshold=0.0, max_overlap=1.0).detect(noise, ["bag"])[0]
    overlaps = intersection_over_union(found.boxes, found.boxes)
    assert 0 < len(found) < len(every)
    assert (overlaps - np.eye(len(found)) <= 1e-9).all()
    assert found.scores[0] == every.scores[0]


def test_people_are_told_from_what_else_is_found(yolos: Path, noise: Image.Image) -> None:
    processor = YolosImageProcessorPil.from_pretrained(yolos)
    model = AutoModelForObjectDetection.from_pretrained(yolos).eval()
    with torch.no_grad():
        outputs = model(**processor([noise], return_tensors="pt"))
    expected = processor.post_process_object_detection(
        outputs, threshold=0.0, target_sizes=[(noise.height, noise.width)]
    )[0]
    detector = ObjectDetector(yolos, threshold=0.0)
    counts = [len(detector.detect(noise, label)) for label in ("person", "dog")]
    assert counts == [int((expected["labels"] == number).sum()) for number in (0, 1)]
    assert sum(counts) == len(expected["labels"]) > 0
    assert len(ObjectDetector(yolos, threshold=1.0).detect(noise, "person")) == 0


def test_settings_that_make_no_sense_are_refused(owlv2: Path, yolos: Path) -> None:
    with pytest.raises(UserError, match=r"threshold in 0\.\.1, got 20"):
        OpenVocabularyDetector(owlv2, threshold=20)
    with pytest.raises(UserError, match=r"max_overlap in 0\.\.1"):
        OpenVocabularyDetector(owlv2, max_overlap=-1)
    with pytest.raises(UserError, match=r"a query with \{name\}"):
        OpenVocabularyDetector(owlv2, query="a hat")
    with pytest.raises(UserError, match=r"threshold in 0\.\.1"):
        ObjectDetector(yolos, threshold=2)
    with pytest.raises(UserError, match="open-vocabulary detector that AutoModelForZeroShotObjectDetection loads"):
        OpenVocabularyDetector(yolos)


def test_fingerprints_are_of_model_and_settings(owlv2: Path, yolos: Path) -> None:
    detector = OpenVocabularyDetector(owlv2)
    assert detector.fingerprint == OpenVocabularyDetector(owlv2).fingerprint
    others = [{"threshold": 0.3}, {"max_overlap": 0.4}, {"query": "a {name}"}]
    assert len({OpenVocabularyDetector(owlv2, **other).fingerprint for other in others} | {detector.fingerprint}) == 4  # type: ignore[arg-type]
    assert ObjectDetector(yolos).fingerprint != ObjectDetector(yolos, threshold=0.4).fingerprint
