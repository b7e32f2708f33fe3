"""Random models of the real classes that CogCanvas's metrics see with, small enough for one CPU core."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import torch
from transformers import (
    CLIPConfig,
    CLIPModel,
    CLIPTokenizer,
    Dinov2Config,
    Dinov2Model,
    DINOv3ViTConfig,
    DINOv3ViTModel,
    Owlv2Config,
    Owlv2ForObjectDetection,
    Owlv2Processor,
    Sam3Config,
    Sam3Model,
)
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.owlv2.image_processing_pil_owlv2 import Owlv2ImageProcessorPil

VIT: dict[str, Any] = {"hidden_size": 192, "num_hidden_layers": 6, "num_attention_heads": 4}
TINY: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
LETTERS = string.ascii_lowercase + string.digits
WORDS = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS), "<|startoftext|>", "<|endoftext|>"]
TEXT = {"vocab_size": len(WORDS), "bos_token_id": len(WORDS) - 2, "eos_token_id": len(WORDS) - 1}


def build_all(folder: Path) -> None:
    """Save `dinov2`, `dinov3`, `owlv2`, `sam3` and `clip` below a folder."""
    torch.manual_seed(0)
    _dinov2(folder / "dinov2")
    _dinov3(folder / "dinov3")
    _owlv2(folder / "owlv2")
    _sam3(folder / "sam3")
    _clip(folder / "clip")


def _tokenizer(longest: int) -> CLIPTokenizer:
    numbers = {word: place for place, word in enumerate(WORDS)}
    return CLIPTokenizer(vocab=numbers, merges=[], model_max_length=longest, pad_token=WORDS[-1])


def _dinov2(folder: Path) -> None:
    size: dict[str, Any] = {"size": {"shortest_edge": 128}, "crop_size": {"height": 112, "width": 112}}
    BitImageProcessorPil(**size).save_pretrained(folder)
    Dinov2Model(Dinov2Config(**VIT, image_size=112, patch_size=14)).save_pretrained(folder)


def _dinov3(folder: Path) -> None:
    config = DINOv3ViTConfig(**VIT, intermediate_size=768, image_size=112, patch_size=16, num_register_tokens=4)
    DINOv3ViTModel(config).save_pretrained(folder)
    _preprocessing(folder, image_processor_type="DINOv3ViTImageProcessorFast", size={"height": 112, "width": 112})


def _owlv2(folder: Path) -> None:
    config = Owlv2Config(
        text_config={**TINY, **TEXT}, vision_config={**TINY, "image_size": 64, "patch_size": 16}, projection_dim=32
    )
    model = Owlv2ForObjectDetection(config)
    model.box_head.dense2.weight.data *= 0.05  # boxes near their patches, hence within the picture
    model.save_pretrained(folder)
    Owlv2Processor(Owlv2ImageProcessorPil(size={"height": 64, "width": 64}), _tokenizer(16)).save_pretrained(folder)


def _sam3(folder: Path) -> None:
    layers = {"hidden_size": 32, "num_layers": 1, "num_attention_heads": 4, "intermediate_size": 32}
    backbone = {
        **TINY,
        "model_type": "sam3_vit_model",
        "image_size": 56,
        "patch_size": 14,
        "window_size": 2,
        "global_attn_indexes": [1],
        "pretrain_image_size": 56,
    }
    config = Sam3Config(
        vision_config={
            "backbone_config": backbone,
            "fpn_hidden_size": 32,
            "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
        },
        text_config={**TINY, **TEXT, "projection_dim": 32, "max_position_embeddings": 32},
        geometry_encoder_config=layers,
        detr_encoder_config=layers,
        detr_decoder_config={**layers, "num_queries": 5},
        mask_decoder_config={"hidden_size": 32, "num_attention_heads": 4},
    )
    Sam3Model(config).save_pretrained(folder)
    _tokenizer(32).save_pretrained(folder)
    _preprocessing(folder, image_processor_type="Sam3ImageProcessorFast", size={"height": 56, "width": 56})


def _clip(folder: Path) -> None:
    config = CLIPConfig(
        text_config={**TINY, **TEXT, "max_position_embeddings": 77},
        vision_config={**VIT, "intermediate_size": 768, "image_size": 112, "patch_size": 14},
        projection_dim=32,
    )
    CLIPModel(config).save_pretrained(folder)
    _tokenizer(77).save_pretrained(folder)
    size: dict[str, Any] = {"size": {"shortest_edge": 112}, "crop_size": {"height": 112, "width": 112}}
    CLIPImageProcessorPil(**size).save_pretrained(folder)


def _preprocessing(folder: Path, **settings: Any) -> None:
    (folder / "preprocessor_config.json").write_text(json.dumps(settings), encoding="utf-8")
