"""A processor for pictures only: built, saved, loaded and used without torchvision."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from transformers import AutoConfig, AutoTokenizer, BertConfig, CLIPProcessor, Qwen3VLProcessor

from gnomon.errors import UserError
from rm.vlm.processor import control_tokens, image_only, load_processor


def test_the_saved_files_name_the_original_class(base_folder: Path) -> None:
    saved = json.loads((base_folder / "processor_config.json").read_text())
    assert saved["processor_class"] == "Qwen3VLProcessor"
    assert image_only(Qwen3VLProcessor).__name__ == "Qwen3VLProcessor"
    assert issubclass(image_only(Qwen3VLProcessor), Qwen3VLProcessor)


def test_a_processor_without_videos_stays_as_it_is() -> None:
    assert image_only(CLIPProcessor) is CLIPProcessor


def test_pictures_go_through_the_pil_backend_and_keep_their_own_size(
    base_folder: Path, make_picture: Callable[..., Image.Image]
) -> None:
    processor = load_processor(str(base_folder), AutoConfig.from_pretrained(base_folder))
    assert type(processor.image_processor).__name__ == "Qwen2VLImageProcessorPil"
    encoded = processor(
        text="<|vision_start|><|image_pad|><|vision_end|>", images=[make_picture(0, (64, 32))], return_tensors="pt"
    )
    assert encoded["image_grid_thw"].tolist() == [[1, 4, 8]]
    image_token = processor.tokenizer.convert_tokens_to_ids("<|image_pad|>")
    assert int((encoded["input_ids"] == image_token).sum()) == 4 * 8 / 4


def test_other_models_and_missing_files_are_the_users_problem(base_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="knows no processor for 'bert'"):
        load_processor(str(base_folder), BertConfig())
    AutoTokenizer.from_pretrained(base_folder).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="files of a Qwen3VLProcessor"):
        load_processor(str(tmp_path), AutoConfig.from_pretrained(base_folder))


@pytest.mark.parametrize(("family", "setting"), [("smolvlm", "image_seq_len"), ("gemma4", "image_seq_length")])
def test_a_processor_keeps_its_settings_without_its_video_and_audio_parts(
    family: str, setting: str, checkpoint: Callable[[str], Path]
) -> None:
    processor: Any = load_processor(str(checkpoint(family)), AutoConfig.from_pretrained(checkpoint(family)))
    assert getattr(processor, setting) == {"smolvlm": 4, "gemma4": 70}[family]
    assert not hasattr(processor, "video_processor")
    assert not hasattr(processor, "feature_extractor")


def test_the_longest_control_token_is_found_first_and_more_can_be_named(checkpoint: Callable[[str], Path]) -> None:
    processor = load_processor(str(checkpoint("gemma4")), AutoConfig.from_pretrained(checkpoint("gemma4")))
    pattern = control_tokens(processor, "END")
    assert pattern.sub(" ", "a<|image|>b<|image>cENDd<eos>") == "a b c d<eos>"
