"""Vision models: preprocessing as the checkpoint says, values scaled once, and a fingerprint of all that matters."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoModel

from bench.evaluators.vision.loading import VisionModel
from gnomon.errors import UserError


def load(folder: Path, *, dtype: str = "float32") -> VisionModel:
    return VisionModel(AutoModel, "a vision model", folder, revision=None, dtype=dtype, device="cpu")


def test_dinov3_is_resized_scaled_once_and_normalised(dinov3: Path, noise: Image.Image) -> None:
    resized = np.asarray(noise.resize((64, 64), Image.Resampling.BILINEAR), np.float64) / 255
    expected = (resized - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    found = load(dinov3).prepare([noise])
    np.testing.assert_allclose(found[0].permute(1, 2, 0).numpy(), expected, atol=1e-5)


def test_sam3_has_its_own_mean_and_deviation(sam3: Path, noise: Image.Image) -> None:
    from transformers import Sam3Model

    model = VisionModel(Sam3Model, "a SAM 3 model", sam3, revision=None, dtype="float32", device="cpu")
    resized = np.asarray(noise.resize((56, 56), Image.Resampling.BILINEAR), np.float64) / 255
    np.testing.assert_allclose(model.prepare([noise])[0].permute(1, 2, 0).numpy(), (resized - 0.5) / 0.5, atol=1e-5)


def test_dinov2_is_resized_by_its_shorter_side_and_cut_in_the_middle(dinov2: Path, noise: Image.Image) -> None:
    resized = noise.resize((48, 32), Image.Resampling.BICUBIC)  # 90 x 60, the shorter side to 32
    middle = np.asarray(resized.crop((10, 2, 38, 30)), np.float64) / 255
    expected = (middle - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    found = load(dinov2).prepare([noise])
    np.testing.assert_allclose(found[0].permute(1, 2, 0).numpy(), expected, atol=1e-5)


def test_weights_come_in_the_precision_that_is_asked_for(dinov2: Path, noise: Image.Image) -> None:
    model = load(dinov2, dtype="bfloat16")
    assert model.model.dtype == model.prepare([noise]).dtype == torch.bfloat16
    assert not any(weight.requires_grad for weight in model.model.parameters())


def test_the_fingerprint_is_of_weights_preprocessing_and_precision(dinov2: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(dinov2, copy)
    assert load(copy).fingerprint == load(dinov2).fingerprint
    assert load(dinov2, dtype="bfloat16").fingerprint != load(dinov2).fingerprint
    settings = json.loads((copy / "preprocessor_config.json").read_text())
    (copy / "preprocessor_config.json").write_text(json.dumps({**settings, "do_center_crop": False}))
    assert load(copy).fingerprint != load(dinov2).fingerprint


@pytest.mark.parametrize(
    ("name", "dtype", "message"),
    [
        ("no/such/folder", "float32", "a vision model"),
        (".", "float32", "expected a vision model that AutoModel loads"),
        (".", "float8", "expected dtype float32, bfloat16, float16"),
    ],
)
def test_what_cannot_be_loaded_is_named(
    name: str, dtype: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        VisionModel(AutoModel, "a vision model", name, revision=None, dtype=dtype, device="cpu")


@pytest.mark.parametrize("what", ["a detector", "an open-vocabulary detector", "the detector"])
def test_what_is_nowhere_is_named_without_a_second_article(what: str) -> None:
    noun = what.partition(" ")[2]
    with pytest.raises(UserError, match=f"there is no {noun} of this name"):
        VisionModel(AutoModel, what, "someone/nothing", revision=None, dtype="float32", device="cpu")


def test_weights_without_an_image_processor_are_refused(dinov2: Path, tmp_path: Path) -> None:
    shutil.copytree(dinov2, tmp_path / "copy")
    (tmp_path / "copy/preprocessor_config.json").unlink()
    with pytest.raises(UserError, match="preprocessor_config"):
        load(tmp_path / "copy")
