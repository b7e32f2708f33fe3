"""A processor for pictures only: built, saved, loaded and used without torchvision."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from transformers import AutoConfig, AutoTokenizer, BertConfig, CLIPProcessor, Qwen3VLProcessor

from gnomon.errors import UserError
from rm.vlm.processor import image_only, load_processor


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
