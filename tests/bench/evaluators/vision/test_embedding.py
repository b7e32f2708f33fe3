"""Embedders: the class token and the patches of the stock models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import Dinov2Model, DINOv3ViTModel, ResNetConfig, ResNetModel
from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil

from bench.evaluators.vision.embedding import DinoCells, DinoEmbedder
from bench.evaluators.vision.loading import VisionModel
from gnomon.errors import UserError


def test_the_class_token_is_the_stock_models_pooled_output(dinov2: Path, noise: Image.Image) -> None:
    embedder = DinoEmbedder(dinov2)
    stock = Dinov2Model.from_pretrained(dinov2).eval()
    loaded = VisionModel(Dinov2Model, "a model", dinov2, revision=None, dtype="float32", device="cpu")
    with torch.no_grad():
        expected = stock(pixel_values=loaded.prepare([noise])).pooler_output
    np.testing.assert_allclose(embedder.embed([noise]), expected.numpy(), atol=1e-6)


def test_vectors_do_not_depend_on_the_batch(dinov2: Path, noise: Image.Image) -> None:
    pictures = [noise, noise.rotate(90, expand=True), noise.resize((40, 200)), noise.convert("L").convert("RGB")]
    whole, one_by_one = DinoEmbedder(dinov2).embed(pictures), DinoEmbedder(dinov2, batch_size=1).embed(pictures)
    assert whole.shape == (4, 32)
    np.testing.assert_allclose(whole, one_by_one, atol=1e-5)


def test_cells_are_the_patches_behind_class_and_register_tokens(dinov3: Path, noise: Image.Image) -> None:
    cells = DinoCells(dinov3).cells(noise)
    loaded = VisionModel(DINOv3ViTModel, "a model", dinov3, revision=None, dtype="float32", device="cpu")
    with torch.no_grad():
        tokens = loaded.model(pixel_values=loaded.prepare([noise])).last_hidden_state[0]
    assert len(tokens) == 1 + 4 + 16
    assert cells.shape == (4, 4, 32)
    np.testing.assert_allclose(cells[0, 0], tokens[5].numpy(), atol=1e-6)
    np.testing.assert_allclose(cells[1, 0], tokens[5 + 4].numpy(), atol=1e-6)
    np.testing.assert_allclose(cells[3, 3], tokens[-1].numpy(), atol=1e-6)


def test_cells_are_of_the_whole_picture_even_where_the_checkpoint_cuts_out_its_middle(
    dinov2: Path, noise: Image.Image
) -> None:
    changed = noise.copy()
    changed.paste("white", (0, 0, 8, 60))  # beyond the middle square of 60 x 60
    embedder, cells = DinoEmbedder(dinov2), DinoCells(dinov2)
    assert np.abs(embedder.embed([noise]) - embedder.embed([changed])).max() < 1e-3
    assert np.abs(cells.cells(noise) - cells.cells(changed)).max() > 1e-2


def test_a_model_without_patches_has_no_cells(tmp_path: Path) -> None:
    ResNetModel(ResNetConfig(embedding_size=8, hidden_sizes=[8], depths=[1])).save_pretrained(tmp_path)
    ConvNextImageProcessorPil(size={"shortest_edge": 32}).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="expected a vision transformer with patches"):
        DinoCells(tmp_path)
