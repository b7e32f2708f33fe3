"""Texts and pictures by a tiny random CLIP and SigLIP of the real classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import CLIPModel, CLIPTokenizer, Dinov2Config, Dinov2Model, SiglipModel
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from bench.evaluators.text_image import TextImageEmbedder
from gnomon.errors import UserError
from tests.bench.evaluators import checkpoints

TEXTS = ["a cat", "two dogs on a sofa in the rain"]


def pictures() -> list[Image.Image]:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 20, 30, 3), dtype=np.uint8)
    return [Image.fromarray(each) for each in pixels]


def test_cosines_are_those_of_the_model_itself(clip: Path) -> None:
    embedder = TextImageEmbedder(clip)
    model, tokenizer = CLIPModel.from_pretrained(clip).eval(), CLIPTokenizer.from_pretrained(clip)
    inputs = tokenizer(TEXTS, padding=True, truncation=True, max_length=24, return_tensors="pt")
    inputs["pixel_values"] = CLIPImageProcessorPil.from_pretrained(clip)(pictures(), return_tensors="pt")[
        "pixel_values"
    ]
    with torch.inference_mode():
        expected = model(**inputs).logits_per_image / model.logit_scale.exp()
    found = embedder.embed(pictures()) @ embedder.embed_texts(TEXTS).T
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


def test_vectors_do_not_depend_on_neighbours(clip: Path) -> None:
    embedder = TextImageEmbedder(clip)
    np.testing.assert_allclose(embedder.embed_texts(TEXTS)[:1], embedder.embed_texts(TEXTS[:1]), atol=1e-6)
    np.testing.assert_allclose(embedder.embed(pictures())[1:], embedder.embed(pictures()[1:]), atol=1e-6)


def test_siglip_reads_texts_that_are_filled_up_as_it_was_trained(tmp_path: Path) -> None:
    """Its vector is that of the last place, so a text without filling has another one."""
    embedder = TextImageEmbedder(checkpoints.build_siglip(tmp_path))
    model, tokenizer = SiglipModel.from_pretrained(tmp_path).eval(), CLIPTokenizer.from_pretrained(tmp_path)
    ids = [tokenizer(text)["input_ids"] for text in TEXTS]
    cut = [each if len(each) <= 24 else [*each[:23], each[-1]] for each in ids]
    filled = torch.tensor([[*each, *[tokenizer.pad_token_id] * (24 - len(each))] for each in cut])
    pixels = SiglipImageProcessorPil.from_pretrained(tmp_path)(pictures(), return_tensors="pt")["pixel_values"]
    with torch.inference_mode():
        outputs = model(input_ids=filled, pixel_values=pixels)
        bare = model.get_text_features(input_ids=torch.tensor(ids[:1])).pooler_output
    np.testing.assert_allclose(embedder.embed_texts(TEXTS), outputs.text_embeds.numpy(), atol=1e-5)
    np.testing.assert_allclose(embedder.embed(pictures()), outputs.image_embeds.numpy(), atol=1e-5)
    assert np.abs(embedder.embed_texts(TEXTS[:1]) - torch.nn.functional.normalize(bare).numpy()).max() > 1e-3


def test_long_texts_are_known(clip: Path) -> None:
    embedder = TextImageEmbedder(clip)
    assert [embedder.is_cut(text) for text in TEXTS] == [False, True]  # letters are tokens here


def test_a_model_without_texts_is_refused(clip: Path, tmp_path: Path) -> None:
    config = Dinov2Config(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, image_size=16, patch_size=8)
    Dinov2Model(config).save_pretrained(tmp_path)
    CLIPImageProcessorPil().save_pretrained(tmp_path)
    CLIPTokenizer.from_pretrained(clip).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="a model of texts and pictures, such as CLIP"):
        TextImageEmbedder(tmp_path)
