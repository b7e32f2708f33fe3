"""Checkpoints of families of vision-language models: real classes, few random weights, chat templates of our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedModel, PreTrainedTokenizerFast, ProcessorMixin
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.gemma4.image_processing_pil_gemma4 import Gemma4ImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from rm.vlm.processor import image_only

FAMILIES = ("qwen2_5_vl", "qwen3_vl", "qwen3_5", "gemma3", "gemma4", "smolvlm")
WORDS = ("yes", "no", "Is", "the", "circle", "red", "square", "Answer", "blue", "assistant", "user", "system")


def byte_tokenizer(special: list[str], named: dict[str, str], **parts: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer of one token per byte and some merged words.

    Args:
        special: control tokens.
        named: those of them that a processor asks for by name, such as `image_token`.
        parts: `pad_token` and the like.
    """
    from tokenizers import Tokenizer, decoders, models

    merges: list[tuple[str, str]] = []
    pieces = [*sorted(ByteLevel.alphabet())]
    for word in [*WORDS, *(f"Ġ{word}" for word in WORDS)]:
        for length in range(2, len(word) + 1):
            if word[:length] not in pieces:
                pieces.append(word[:length])
                merges.append((word[: length - 1], word[length - 1]))
    names = list(dict.fromkeys([*special, *named.values(), *parts.values()]))
    tokenizer = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate([*names, *pieces])}, merges=merges))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, extra_special_tokens=names, model_specific_special_tokens=named, **parts
    )


QWEN_TOKENS = ["<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<|vision_pad|>"]
QWEN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking %}<think>\n{% endif %}{% endif %}"
)
GEMMA_TEMPLATE = (
    "<bos>{% for message in messages %}<start_of_turn>{{ 'model' if message['role'] == 'assistant' else 'user' }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}PICTURE{% else %}"
    "{{ part['text'] | trim }}{% endif %}{% endfor %}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
SMOLVLM_TEMPLATE = (
    "<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}:"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>{% else %} {{ part['text'] }}"
    "{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)
TEXT: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 2048,
}
SIGLIP = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
}


def _qwen_processor(name: str) -> ProcessorMixin:
    tokenizer = byte_tokenizer(QWEN_TOKENS, {}, pad_token="<|endoftext|>", eos_token="<|im_end|>")
    pictures = Qwen2VLImageProcessorPil(
        patch_size=8, merge_size=2, temporal_patch_size=2, size={"shortest_edge": 28 * 28, "longest_edge": 56 * 56}
    )
    processor: ProcessorMixin = image_only(getattr(transformers, name))(
        pictures, tokenizer, chat_template=QWEN_TEMPLATE
    )
    return processor


def _qwen_ids(processor: ProcessorMixin) -> dict[str, Any]:
    names = ("image_pad", "video_pad", "vision_start", "vision_end")
    keys = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    return {
        key: processor.tokenizer.convert_tokens_to_ids(f"<|{name}|>") for key, name in zip(keys, names, strict=True)
    }


def _id(tokenizer: PreTrainedTokenizerFast, token: str) -> Any:
    return tokenizer.convert_tokens_to_ids(token)


def _text(processor: ProcessorMixin, **more: Any) -> dict[str, Any]:
    tokenizer = processor.tokenizer
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    return {**TEXT, "vocab_size": len(tokenizer), **ids, **more}


def _qwen2_5_vl() -> tuple[ProcessorMixin, Any]:
    processor = _qwen_processor("Qwen2_5_VLProcessor")
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}
    text = _text(processor, rope_parameters=rope)
    del text["head_dim"]
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "patch_size": 8,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 32,
        "window_size": 32,
        "fullatt_block_indexes": [1],
    }
    ids = _qwen_ids(processor)
    return processor, transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **ids)


def _qwen3_vision() -> dict[str, Any]:
    return {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "patch_size": 8,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 32,
        "num_position_embeddings": 16,
    }


def _qwen3_vl() -> tuple[ProcessorMixin, Any]:
    processor = _qwen_processor("Qwen3VLProcessor")
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}
    vision = {**_qwen3_vision(), "deepstack_visual_indexes": [0]}
    ids = _qwen_ids(processor)
    return processor, transformers.Qwen3VLConfig(
        text_config=_text(processor, rope_parameters=rope), vision_config=vision, **ids
    )


def _qwen3_5() -> tuple[ProcessorMixin, Any]:
    processor = _qwen_processor("Qwen3VLProcessor")
    linear = {
        "layer_types": ["linear_attention", "full_attention"],
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [1, 1, 0],
            "partial_rotary_factor": 0.25,
        },
    }
    ids = _qwen_ids(processor)
    return processor, transformers.Qwen3_5Config(
        text_config=_text(processor, **linear), vision_config=_qwen3_vision(), **ids
    )


def _gemma3() -> tuple[ProcessorMixin, Any]:
    named = {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
    tokenizer = byte_tokenizer(
        ["<start_of_turn>"], named, pad_token="<pad>", eos_token="<end_of_turn>", bos_token="<bos>"
    )
    pictures = Gemma3ImageProcessorPil(size={"height": 32, "width": 32})
    processor = transformers.Gemma3Processor(
        pictures, tokenizer, chat_template=GEMMA_TEMPLATE.replace("PICTURE", "<start_of_image>"), image_seq_length=4
    )
    # A window that is shorter than the pictures of a prompt.
    layers = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 12}
    config = transformers.Gemma3Config(
        text_config=_text(processor, query_pre_attn_scalar=16, **layers),
        vision_config={"model_type": "siglip_vision_model", **SIGLIP},
        mm_tokens_per_image=4,
        image_token_index=_id(tokenizer, "<image_soft_token>"),
        boi_token_index=_id(tokenizer, "<start_of_image>"),
        eoi_token_index=_id(tokenizer, "<end_of_image>"),
    )
    return processor, config


def _gemma4() -> tuple[ProcessorMixin, Any]:
    named = {"image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>"}
    named |= {"audio_token": "<|audio|>", "boa_token": "<|audio>", "eoa_token": "<audio|>"}
    tokenizer = byte_tokenizer(
        ["<start_of_turn>", "<|video|>"], named, pad_token="<pad>", eos_token="<end_of_turn>", bos_token="<bos>"
    )
    pictures = Gemma4ImageProcessorPil(patch_size=4, max_soft_tokens=70, pooling_kernel_size=3)
    processor = image_only(transformers.Gemma4Processor)(
        pictures, tokenizer, chat_template=GEMMA_TEMPLATE.replace("PICTURE", "<|image|>"), image_seq_length=70
    )
    layers = {
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "sliding_window": 32,
        "num_kv_shared_layers": 2,
        "use_bidirectional_attention": "vision",
        "final_logit_softcapping": 30.0,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": len(tokenizer),
        "global_head_dim": 32,
    }
    vision = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "patch_size": 4,
        "pooling_kernel_size": 3,
        "position_embedding_size": 64,
    }
    config = transformers.Gemma4Config(
        text_config=_text(processor, **layers),
        vision_config=vision,
        audio_config=None,
        image_token_id=_id(tokenizer, "<|image|>"),
        video_token_id=_id(tokenizer, "<|video|>"),
        audio_token_id=_id(tokenizer, "<|audio|>"),
        boi_token_id=_id(tokenizer, "<|image>"),
        eoi_token_id=_id(tokenizer, "<image|>"),
    )
    return processor, config


def _smolvlm() -> tuple[ProcessorMixin, Any]:
    named = {"image_token": "<image>", "fake_image_token": "<fake_token_around_image>"}
    named |= {"global_image_token": "<global-img>", "end_of_utterance_token": "<end_of_utterance>"}
    cells = [f"<row_{row}_col_{column}>" for row in range(1, 3) for column in range(1, 3)]
    tokenizer = byte_tokenizer(
        ["<|im_start|>", *cells], named, pad_token="<|endoftext|>", eos_token="<end_of_utterance>"
    )
    # Pictures of up to two cells are cut into cells, with the whole one behind them.
    pictures = SmolVLMImageProcessorPil(
        size={"longest_edge": 64}, max_image_size={"longest_edge": 32}, do_image_splitting=True
    )
    processor = image_only(transformers.SmolVLMProcessor)(
        pictures, tokenizer, chat_template=SMOLVLM_TEMPLATE, image_seq_len=4
    )
    config = transformers.SmolVLMConfig(
        text_config={"model_type": "llama", **_text(processor)},
        vision_config=SIGLIP,
        scale_factor=2,
        image_token_id=_id(tokenizer, "<image>"),
    )
    return processor, config


_MAKERS: dict[str, Callable[[], tuple[ProcessorMixin, Any]]] = {
    "qwen2_5_vl": _qwen2_5_vl,
    "qwen3_vl": _qwen3_vl,
    "qwen3_5": _qwen3_5,
    "gemma3": _gemma3,
    "gemma4": _gemma4,
    "smolvlm": _smolvlm,
}


def save_checkpoint(family: str, folder: Path) -> Path:
    """Write a checkpoint of `family` with its processor; weights are large enough for answers to differ."""
    processor, config = _MAKERS[family]()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: PreTrainedModel = transformers.AutoModelForImageTextToText.from_config(config)
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and "position_embedding" not in name:
                torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
