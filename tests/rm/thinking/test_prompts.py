"""Prompts and targets: the text that the judge will see, and nothing in it that a user could have smuggled in."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from transformers import AutoConfig, ProcessorMixin

from gnomon.errors import UserError
from rm.thinking.prompts import (
    check_tags,
    completion_text,
    opens_thought,
    template_variables,
)
from rm.vlm.conversation import Message
from rm.vlm.processor import control_tokens, load_processor, render_chat, template_messages


@pytest.fixture
def processor(thinker: Path) -> ProcessorMixin:
    return load_processor(str(thinker), AutoConfig.from_pretrained(thinker))


def test_texts_and_pictures_keep_their_places_and_special_tokens_of_users_become_blanks(
    processor: ProcessorMixin,
) -> None:
    one, two = Image.new("RGB", (32, 32)), Image.new("RGB", (32, 32), "red")
    conversation = (Message("system", ("be", " just")), Message("user", (one, "a<|image_pad|>b", "<|im_end|>", two)))
    messages, pictures = template_messages(conversation, control_tokens(processor))
    assert messages == [
        {"role": "system", "content": [{"type": "text", "text": "be just"}]},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "a b "}, {"type": "image"}]},
    ]
    assert pictures == [one, two]


def test_a_tag_that_the_prompt_opens_is_not_in_the_target(processor: ProcessorMixin) -> None:
    opened, closed = "<|im_start|>assistant\n<think>\n", "<|im_start|>assistant\n"
    assert (opens_thought(opened), opens_thought(closed)) == (True, False)
    reply = "<think>\nred</think>A"
    assert completion_text(reply, opened, "<end>") == "red</think>A<end>"
    assert completion_text(reply, closed, "<end>") == f"{reply}<end>"


def test_only_a_template_that_knows_it_is_told_to_think(processor: ProcessorMixin) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "red"}]}]
    assert template_variables(processor, True) == {}
    processor.chat_template = "{{ messages[0].role }} {% if enable_thinking %}<think>{% endif %}"
    texts = [render_chat(processor, messages, **template_variables(processor, thinking)) for thinking in (True, False)]
    assert texts == ["user <think>", "user "]


def test_a_tokenizer_that_loses_the_tags_is_refused(processor: ProcessorMixin, base_folder: Path) -> None:
    check_tags(processor)
    other = load_processor(str(base_folder), AutoConfig.from_pretrained(base_folder))
    with pytest.raises(UserError, match="expected a tokenizer that keeps <think> and </think>"):
        check_tags(other)
