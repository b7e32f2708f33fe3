"""Tiny random checkpoints of the real vision classes, as folders with all that their loaders read."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import torch
from tokenizers.pre_tokenizers import ByteLevel
from transformers import (
    BertTokenizer,
    CLIPConfig,
    CLIPModel,
    CLIPTokenizer,
    Dinov2Config,
    Dinov2Model,
    DINOv3ViTConfig,
    DINOv3ViTModel,
    GroundingDinoConfig,
    GroundingDinoForObjectDetection,
    GroundingDinoProcessor,
    Owlv2Config,
    Owlv2ForObjectDetection,
    Owlv2Processor,
    PreTrainedModel,
    Sam3Config,
    Sam3Model,
    SiglipConfig,
    SiglipModel,
    SiglipVisionConfig,
    SiglipVisionModel,
    YolosConfig,
    YolosForObjectDetection,
)
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.grounding_dino.image_processing_pil_grounding_dino import GroundingDinoImageProcessorPil
from transformers.models.owlv2.image_processing_pil_owlv2 import Owlv2ImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.yolos.image_processing_pil_yolos import YolosImageProcessorPil


def _saved(model: PreTrainedModel, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


def _json(folder: Path, **settings: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))


def clip_tokenizer() -> CLIPTokenizer:
    """Return a tokenizer of single letters in CLIP's format."""
    letters = string.ascii_lowercase + string.digits
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(
        vocab={word: place for place, word in enumerate(words)},
        merges=[],
        model_max_length=16,
        pad_token="<|endoftext|>",
    )


CLIP_WORDS = 2 * 36 + 2


def build_dinov2(folder: Path, *, shown: int = 28, **settings: Any) -> Path:
    """Write a DINOv2 that sees the middle `shown` x `shown` pixels of a picture whose shorter side is 8/7 of that."""
    torch.manual_seed(0)
    layers = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 28, "patch_size": 14}
    config = Dinov2Config(**{**layers, **settings})
    processor = BitImageProcessorPil(
        size={"shortest_edge": shown * 8 // 7},
        crop_size={"height": shown, "width": shown},
        image_mean=[0.485, 0.456, 0.406],
        image_std=[0.229, 0.224, 0.225],
    )
    processor.save_pretrained(folder)
    return _saved(Dinov2Model(config), folder)


def build_dinov3(folder: Path, *, shown: int = 64, **settings: Any) -> Path:
    """Write a DINOv3 that sees a whole picture as `shown` x `shown` pixels."""
    torch.manual_seed(0)
    layers = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = DINOv3ViTConfig(**{**layers, "image_size": 64, "patch_size": 16, "num_register_tokens": 4, **settings})
    _json(folder, image_processor_type="DINOv3ViTImageProcessorFast", size={"height": shown, "width": shown})
    return _saved(DINOv3ViTModel(config), folder)


def build_sam3(folder: Path) -> Path:
    """Write a SAM 3 that sees a picture as 56 x 56 pixels, and masks it with 16 x 16 cells."""
    torch.manual_seed(0)
    transformer = {"hidden_size": 32, "num_layers": 1, "num_attention_heads": 4, "intermediate_size": 32}
    config = Sam3Config(
        vision_config={
            "backbone_config": {
                "model_type": "sam3_vit_model",
                "hidden_size": 32,
                "intermediate_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "image_size": 56,
                "patch_size": 14,
                "window_size": 2,
                "global_attn_indexes": [1],
                "pretrain_image_size": 56,
            },
            "fpn_hidden_size": 32,
            "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
        },
        text_config={
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "projection_dim": 32,
            "vocab_size": CLIP_WORDS,
            "max_position_embeddings": 32,
            "eos_token_id": CLIP_WORDS - 1,
        },
        geometry_encoder_config=transformer,
        detr_encoder_config=transformer,
        detr_decoder_config={**transformer, "num_queries": 5},
        mask_decoder_config={"hidden_size": 32, "num_attention_heads": 4},
    )
    _json(folder, image_processor_type="Sam3ImageProcessorFast", size={"height": 56, "width": 56})
    clip_tokenizer().save_pretrained(folder)
    return _saved(Sam3Model(config), folder)


def build_owlv2(folder: Path) -> Path:
    """Write an OWLv2 that sees a picture as 64 x 64 pixels, 16 patches."""
    torch.manual_seed(0)
    layers = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = Owlv2Config(
        text_config={**layers, "vocab_size": CLIP_WORDS, "eos_token_id": CLIP_WORDS - 1},
        vision_config={**layers, "image_size": 64, "patch_size": 16},
        projection_dim=32,
    )
    processor = Owlv2Processor(Owlv2ImageProcessorPil(size={"height": 64, "width": 64}), clip_tokenizer())
    processor.save_pretrained(folder)
    model = Owlv2ForObjectDetection(config)
    model.box_head.dense2.weight.data *= 0.05  # boxes near their patches, hence within the picture
    return _saved(model, folder)


def build_grounding_dino(folder: Path) -> Path:
    """Write a Grounding DINO with six boxes and a dozen words."""
    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", "a", "red", "blue", "hat", "bag"]
    tokenizer = BertTokenizer(vocab={word: place for place, word in enumerate(words)})
    config = GroundingDinoConfig(
        backbone_config={
            "model_type": "swin",
            "embed_dim": 16,
            "depths": [1, 1, 1, 1],
            "num_heads": [2, 2, 2, 2],
            "window_size": 4,
            "image_size": 64,
            "out_features": ["stage2", "stage3", "stage4"],
        },
        text_config={
            "model_type": "bert",
            "vocab_size": len(words),
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "intermediate_size": 32,
        },
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        num_queries=6,
        num_feature_levels=4,
    )
    images = GroundingDinoImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 96})
    GroundingDinoProcessor(images, tokenizer).save_pretrained(folder)
    model: Any = GroundingDinoForObjectDetection(config)
    for head in model.bbox_embed:
        head.layers[-1].bias.data[2:] = 3.0  # large boxes, so that some overlap
    return _saved(model, folder)


def build_yolos(folder: Path) -> Path:
    """Write a YOLOS with seven boxes that knows people and dogs."""
    torch.manual_seed(0)
    config = YolosConfig(
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=[64, 64],
        patch_size=16,
        num_detection_tokens=7,
        id2label={0: "person", 1: "dog"},
        label2id={"person": 0, "dog": 1},
    )
    YolosImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 64}).save_pretrained(folder)
    model: Any = YolosForObjectDetection(config)
    model.vit.embeddings.detection_tokens.data.normal_()  # so that not all of them say the same
    for layer in model.class_labels_classifier.layers:
        layer.weight.data.normal_()
    return _saved(model, folder)


_SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


def build_clip(folder: Path) -> Path:
    """Write a CLIP of 12 dimensions whose tokens are letters, of which it takes 24."""
    torch.manual_seed(0)
    letters = sorted(ByteLevel.alphabet())
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    config = CLIPConfig(
        text_config=_SMALL
        | {"vocab_size": 514, "max_position_embeddings": 24, "bos_token_id": 512, "eos_token_id": 513},
        vision_config=_SMALL | {"image_size": 16, "patch_size": 8, "projection_dim": 12},
        projection_dim=12,
    )
    CLIPTokenizer(vocab={word: index for index, word in enumerate(words)}, merges=[]).save_pretrained(folder)
    CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}).save_pretrained(folder)
    return _saved(CLIPModel(config), folder)


def build_siglip_vision(folder: Path) -> Path:
    """Write the vision tower of a SigLIP of 16 dimensions."""
    torch.manual_seed(0)
    SiglipImageProcessorPil(size={"height": 16, "width": 16}).save_pretrained(folder)
    return _saved(SiglipVisionModel(SiglipVisionConfig(**_SMALL, image_size=16, patch_size=8)), folder)


def build_siglip(folder: Path) -> Path:
    """Write a SigLIP of 16 dimensions whose tokens are letters, of which it takes 24."""
    torch.manual_seed(0)
    letters = sorted(ByteLevel.alphabet())
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    text = _SMALL | {"vocab_size": 514, "max_position_embeddings": 24, "projection_size": 16}
    config = SiglipConfig(text_config=text, vision_config=_SMALL | {"image_size": 16, "patch_size": 8})
    CLIPTokenizer(vocab={word: index for index, word in enumerate(words)}, merges=[]).save_pretrained(folder)
    SiglipImageProcessorPil(size={"height": 16, "width": 16}).save_pretrained(folder)
    return _saved(SiglipModel(config), folder)
