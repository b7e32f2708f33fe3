"""A batch's inputs are the processor's own, whichever the family, and a picture that comes again costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from PIL import Image

from gnomon.images import UnreadableImageError
from rm.vlm.conversation import Conversation
from rm.vlm.inputs import Picture, join_features
from rm.vlm.local import LocalVLM
from tests.rm.vlm.families import FAMILIES

Draw = Callable[..., Image.Image]


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_and_pictures_are_those_of_the_processor(
    family: str, local_vlm: Callable[[str], LocalVLM], mixed: list[Conversation]
) -> None:
    vlm = local_vlm(family)
    encoder, picture = vlm.encoder, vlm.encoder.pictures()
    for conversation in (mixed[0], mixed[2], mixed[3]):
        text = vlm.prompt_text(conversation)
        images = [part for message in conversation for part in message.content if not isinstance(part, str)]
        expected: Any = encoder.processor(text=[text], images=[images], add_special_tokens=False, return_tensors="pt")
        found = encoder.collate([encoder.row(text, [picture(image) for image in images])])
        assert set(found) == set(expected)
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, atol=0, rtol=0, check_dtype=False)


def test_a_picture_that_comes_again_is_preprocessed_once(
    local_vlm: Callable[[str], LocalVLM], make_picture: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = local_vlm("qwen3_vl").encoder
    calls: list[str] = []
    original = encoder.picture

    def counted(image: Image.Image, key: str) -> Picture:
        calls.append(key)
        return original(image, key)

    monkeypatch.setattr(encoder, "picture", counted)
    picture, same, other = make_picture(1), make_picture(1), make_picture(2)
    encode = encoder.pictures()
    first = encode(picture)
    assert encode(picture) is first
    assert encode(same) is first
    assert encode(other) is not first
    assert len(calls) == 2


def test_a_prompt_needs_a_place_for_each_picture(local_vlm: Callable[[str], LocalVLM], make_picture: Draw) -> None:
    encoder = local_vlm("qwen3_vl").encoder
    picture = encoder.pictures()(make_picture(1))
    for text in ("none", "<|image_pad|><|image_pad|>"):
        with pytest.raises(ValueError, match="1 pictures"):
            encoder.row(text, [picture])
    with pytest.raises(UnreadableImageError, match="no pixels"):
        encoder.pictures()(Image.new("RGB", (0, 3)))
    assert join_features([]) == {}
