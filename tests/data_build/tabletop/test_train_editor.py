from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from diffusers import Flux2KleinPipeline

from data_build.tabletop.draw import draw
from data_build.tabletop.edits import SIMPLE_KINDS, apply_edit, split_of
from data_build.tabletop.tiny_editor import (
    CALL_ARGUMENTS,
    decode_tokens,
    encode_pictures,
    make_autoencoder,
    make_scheduler,
    make_text_encoder,
    make_tokenizer,
    make_transformer,
    vocabulary_words,
)
from data_build.tabletop.train_autoencoder import pictures_of
from data_build.tabletop.train_editor import (
    Editor,
    changed_cells,
    encode_pairs,
    flow_matching_loss,
    sample,
    sample_pairs,
    to_pictures,
)
from data_build.tabletop.world import Scene, Shape, sample_scene


@pytest.fixture(scope="module")
def pipeline() -> Flux2KleinPipeline:
    torch.manual_seed(0)
    tokenizer = make_tokenizer(vocabulary_words())
    made = Flux2KleinPipeline(
        scheduler=make_scheduler(),
        vae=make_autoencoder().eval(),
        text_encoder=make_text_encoder(len(tokenizer)).eval(),
        tokenizer=tokenizer,
        transformer=make_transformer(double=1, single=1).eval(),
        is_distilled=True,
    )
    made.set_progress_bar_config(disable=True)
    return made


def test_our_training_code_samples_what_the_stock_pipeline_samples(pipeline: Flux2KleinPipeline) -> None:
    scene, edit = sample_pairs("train", SIMPLE_KINDS, 1, seed=0)[0]
    editor = Editor(pipeline.text_encoder, pipeline.transformer)
    ids = pipeline.tokenizer(["make the red circle blue"], padding="max_length", max_length=24, return_tensors="pt")
    with torch.no_grad():
        text = editor.encode_text(ids["input_ids"], ids["attention_mask"])
        references = encode_pictures(pipeline.vae, pictures_of([scene]))
        tokens = sample(editor, references, text, torch.Generator().manual_seed(3), num_inference_steps=3)
        ours = decode_tokens(pipeline.vae, tokens)
    start = torch.randn((1, 16, 32), generator=torch.Generator().manual_seed(3))
    stock = pipeline(
        image=draw(scene),
        prompt="make the red circle blue",
        num_inference_steps=3,
        latents=start.reshape(1, 4, 4, 32).permute(0, 3, 1, 2),
        output_type="pt",
        **CALL_ARGUMENTS,
    ).images
    # The stock picture is drawn in bytes before it is encoded, ours is not: hence the last digit.
    assert torch.allclose((ours / 2 + 0.5).clamp(0, 1), stock, atol=2e-2)
    assert edit.kind in SIMPLE_KINDS


def test_training_pairs_are_of_the_training_split_and_scenes_are_shared() -> None:
    pairs = sample_pairs("train", SIMPLE_KINDS, 40, seed=1)
    assert len(pairs) == 40
    assert all(split_of(scene, edit) == "train" for scene, edit in pairs)
    assert len({scene for scene, _ in pairs}) < 20


def test_changed_cells_are_those_that_look_different() -> None:
    red = Shape("circle", "red", "small", 0, 1)
    blue = Shape("circle", "blue", "small", 0, 1)
    other = Shape("cross", "cyan", "large", 3, 3)
    changed = changed_cells(Scene("white", (red, other)), Scene("white", (blue, other)))
    assert np.flatnonzero(changed).tolist() == [1]
    assert changed_cells(Scene("white", (red,)), Scene("black", (red,))).all()


def test_gradients_reach_text_encoder_and_transformer_and_unedited_targets_count(pipeline: Flux2KleinPipeline) -> None:
    pairs = encode_pairs(sample_pairs("train", SIMPLE_KINDS, 8, seed=2), pipeline.vae, pipeline.tokenizer, seed=2)
    editor = Editor(pipeline.text_encoder, pipeline.transformer)
    rows = torch.arange(8)
    terms = flow_matching_loss(editor, pairs, rows, torch.Generator().manual_seed(0))
    terms["loss"].backward()
    assert editor.text_encoder.model.embed_tokens.weight.grad.abs().sum() > 0
    missing = [name for name, p in editor.transformer.named_parameters() if p.grad is None]
    assert missing == []
    lazy = flow_matching_loss(editor, pairs, rows, torch.Generator().manual_seed(0), unedited=torch.ones(8).bool())
    assert lazy["error_changed"] != terms["error_changed"]


def test_an_autoencoder_turns_pictures_into_tokens_and_back_in_place(pipeline: Flux2KleinPipeline) -> None:
    pictures = pictures_of([sample_scene(random.Random(4)) for _ in range(2)])
    with torch.no_grad():
        tokens = encode_pictures(pipeline.vae, pictures)
        expected = pipeline.vae.decode(pipeline.vae.encode(pictures).latent_dist.mode()).sample
        assert torch.allclose(decode_tokens(pipeline.vae, tokens), expected, atol=1e-4)
    assert tokens.shape == (2, 16, 32)


def test_pictures_come_out_as_bytes() -> None:
    (picture,) = to_pictures(torch.tensor([-2.0, 0.0, 1.0]).view(1, 3, 1, 1))
    assert picture.getpixel((0, 0)) == (0, 128, 255)


def test_an_edit_of_the_split_changes_its_scene() -> None:
    assert all(apply_edit(scene, edit) != scene for scene, edit in sample_pairs("validation", SIMPLE_KINDS, 20, seed=3))
