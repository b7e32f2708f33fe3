"""Neck and clothes are left out by the names of classes, in whatever order a parser has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import SegformerConfig, SegformerForSemanticSegmentation
from transformers.models.segformer.image_processing_pil_segformer import SegformerImageProcessorPil

from bench.evaluators.faces.parsing import BISENET_LABELS, OnnxFaceParser, SegmentationFaceParser, excluded_classes
from gnomon.errors import UserError
from tests.bench.evaluators.onnx_files import write_pixels

LABELS = ["background", "skin", "neck", "cloth"]
OTHER_ORDER = ["neck", "background", "cloth", "skin"]


@pytest.fixture
def parser(tmp_path: Path) -> Path:
    """A tiny random SegFormer of four classes."""
    torch.manual_seed(0)
    config = SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[3, 3], strides=[2, 2],
        num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=8, id2label=dict(enumerate(LABELS)),
    )  # fmt: skip
    SegformerForSemanticSegmentation(config).save_pretrained(tmp_path)
    SegformerImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    return tmp_path


def noise(size: int = 64) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (size, size, 3), dtype=np.uint8))


def classes(folder: Path, image: Image.Image) -> np.ndarray:
    """Return the likeliest class of each pixel, by transformers' own post-processing."""
    model = SegformerForSemanticSegmentation.from_pretrained(folder).eval()
    processor = SegformerImageProcessorPil.from_pretrained(folder)
    with torch.inference_mode():
        outputs = model(**processor([image], return_tensors="pt"))
    (found,) = processor.post_process_semantic_segmentation(outputs, target_sizes=[(64, 64)])
    return np.asarray(found)


def test_pixels_of_neck_and_clothes_are_excluded(parser: Path) -> None:
    found = classes(parser, noise())
    assert len(np.unique(found)) > 1, "the random weights tell no pixels apart"
    one, other = SegmentationFaceParser(parser, size=64).excluded([noise(), noise()])
    np.testing.assert_array_equal(one, (found == 2) | (found == 3))
    np.testing.assert_array_equal(one, other)


def test_other_names_for_the_same_numbers_exclude_other_pixels(parser: Path) -> None:
    found = classes(parser, noise())
    (mask,) = SegmentationFaceParser(parser, labels=OTHER_ORDER, size=64).excluded([noise()])
    np.testing.assert_array_equal(mask, (found == 0) | (found == 2))


def test_fingerprints_tell_orders_and_sizes_apart(parser: Path) -> None:
    prints = {
        SegmentationFaceParser(parser).fingerprint,
        SegmentationFaceParser(parser, labels=OTHER_ORDER).fingerprint,
        SegmentationFaceParser(parser, size=64).fingerprint,
    }
    assert len(prints) == 3


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (LABELS, [2, 3]),
        (OTHER_ORDER, [0, 2]),
        (["Skin", " Neck ", "NECKLACE", "Clothes"], [1, 2, 3]),
        (BISENET_LABELS, [14, 15, 16]),  # CelebAMask-HQ's order by zllrunning, as facexlib has it
    ],
)
def test_classes_are_found_by_name(labels: list[str], found: list[int]) -> None:
    assert excluded_classes(labels) == found


@pytest.mark.parametrize("labels", [["skin", "neck"], ["skin", "cloth"], ["LABEL_0", "LABEL_1"]])
def test_a_parser_without_neck_or_clothes_is_refused(labels: list[str]) -> None:
    with pytest.raises(UserError, match=f"got {labels[0]}, {labels[1]}; name its classes"):
        excluded_classes(labels)


def test_labels_have_to_be_as_many_as_classes(parser: Path) -> None:
    with pytest.raises(UserError, match="labels for the 4 classes"):
        SegmentationFaceParser(parser, labels=["neck", "cloth"])


def test_an_onnx_parser_sees_pixels_and_names(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'gnomon[offline]'")
    file = write_pixels(tmp_path / "bisenet.onnx", side=8, classes=4)  # class 0 where red is above ImageNet's mean
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[:, 4:, 0] = 255
    parser = OnnxFaceParser(file, labels=OTHER_ORDER)
    (mask,) = parser.excluded([Image.fromarray(pixels)])
    np.testing.assert_array_equal(mask, pixels[..., 0] == 255)
    (mask,) = OnnxFaceParser(file, labels=["skin", "neck", "cloth", "hair"]).excluded([Image.fromarray(pixels)])
    np.testing.assert_array_equal(mask, pixels[..., 0] == 0)  # of equal scores the first class counts: the neck
    assert (parser.name, parser.size) == ("bisenet", 8)
    with pytest.raises(UserError, match="scores of 19 classes"):
        OnnxFaceParser(file)
