"""The prompt holds what it should exactly once, whatever the instruction says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image
from transformers import AutoConfig

from gnomon.errors import UserError
from rm.prompt import PromptEncoder, PromptTemplate
from rm.vlm.processor import load_processor

Draw = Callable[..., Image.Image]


@pytest.fixture
def encoder(base_folder: Path) -> PromptEncoder:
    processor = load_processor(str(base_folder), AutoConfig.from_pretrained(base_folder))
    return PromptEncoder(processor, PromptTemplate())


def test_a_prompt_reads_like_the_template(encoder: PromptEncoder) -> None:
    picture = "<|vision_start|><|image_pad|><|vision_end|>"
    expected = (
        f"<|im_start|>user Source: {picture}{picture}\nInstruction: make the circle red\nEdited: {picture}"
        "<|im_end|><|im_start|>assistant <|endoftext|>"
    )
    assert encoder.render("make the circle red", 2) == expected


@pytest.mark.parametrize(
    "text", ["<|image_pad|>", "<|endoftext|> <|im_end|>", "<|vision_start|>", "{candidate}", "\ue000"]
)
def test_control_text_in_an_instruction_is_only_text(encoder: PromptEncoder, make_picture: Draw, text: str) -> None:
    inputs = encoder.encode([f"make {text} red", "make red"], [[], [make_picture(1)]], [make_picture(2)] * 2)
    image_tokens = (inputs["input_ids"] == encoder.processor.tokenizer.convert_tokens_to_ids("<|image_pad|>")).sum(
        dim=1
    )
    assert image_tokens.tolist() == [4, 8]
    positions = encoder.end_positions(inputs)
    assert (inputs["input_ids"][torch.arange(2), positions] == encoder.end_marker_id).all()


@pytest.mark.parametrize("text", ["{references}{instruction}", "{references}{candidate}{candidate}{instruction}", ""])
def test_a_template_needs_every_place_once(text: str) -> None:
    with pytest.raises(UserError, match="once each"):
        PromptTemplate(text)


def test_an_end_marker_must_be_one_known_token(base_folder: Path) -> None:
    processor = load_processor(str(base_folder), AutoConfig.from_pretrained(base_folder))
    for marker in ("unheard", "make red"):
        with pytest.raises(UserError, match="as one token"):
            PromptEncoder(processor, PromptTemplate(end_marker=marker))


def test_an_end_marker_that_the_chat_template_uses_is_refused(base_folder: Path, make_picture: Draw) -> None:
    processor = load_processor(str(base_folder), AutoConfig.from_pretrained(base_folder))
    encoder = PromptEncoder(processor, PromptTemplate(end_marker="<|im_end|>"))
    inputs = encoder.encode(["make"], [[]], [make_picture(1)])
    with pytest.raises(ValueError, match=r"once per prompt, got \[2\] times"):
        encoder.end_positions(inputs)


def test_a_processor_without_chat_template_is_refused(base_folder: Path) -> None:
    processor = load_processor(str(base_folder), AutoConfig.from_pretrained(base_folder))
    processor.chat_template = None
    with pytest.raises(UserError, match="chat template"):
        PromptEncoder(processor, PromptTemplate())


def test_unequal_or_empty_lists_are_refused(encoder: PromptEncoder, make_picture: Draw) -> None:
    with pytest.raises(ValueError, match="2, 1 and 1"):
        encoder.encode(["a", "b"], [[]], [make_picture(1)])
    with pytest.raises(ValueError, match="at least one"):
        encoder.encode([], [], [])


def test_hashes_follow_what_they_cover(base_folder: Path) -> None:
    def hashes(template: str = "{references}{instruction}{candidate}", size: int = 128) -> tuple[str, str]:
        processor = load_processor(str(base_folder), AutoConfig.from_pretrained(base_folder))
        processor.image_processor.size = {"shortest_edge": 32 * 32, "longest_edge": size**2}
        encoder = PromptEncoder(processor, PromptTemplate(template))
        return encoder.template_hash, encoder.preprocessing_hash

    original = hashes()
    assert hashes() == original
    text, pixels = hashes(template="{references}{instruction} {candidate}")
    assert text != original[0]
    assert pixels == original[1]
    text, pixels = hashes(size=64)
    assert text == original[0]
    assert pixels != original[1]
