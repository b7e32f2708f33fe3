"""The tiny judge's base: Qwen3-VL's real classes at a size that two CPU cores can train.

A 64 x 64 picture becomes 8 x 8 patches of 8 pixels, merged 2 x 2: one language token per 16 x 16 cell.
"""

from __future__ import annotations

from pathlib import Path

from transformers import PreTrainedTokenizerFast, ProcessorMixin, Qwen2Tokenizer, Qwen3VLProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLConfig
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLForConditionalGeneration

from data_build.tabletop.tiny_editor import make_tokenizer, vocabulary_words
from rm.vlm.processor import image_only

SPECIAL_TOKENS = (
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
PROMPT_WORDS = ("Source", "Instruction", "Edited", "user", "assistant", "yes", "no", " yes", " no", ": ", ":", "\n")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_processor() -> ProcessorMixin:
    """Return the processor: the world's words as tokens, pictures at their own size up to 64 x 64 pixels."""
    made: Qwen2Tokenizer = make_tokenizer([*vocabulary_words(), *PROMPT_WORDS])
    made.add_special_tokens({"additional_special_tokens": list(SPECIAL_TOKENS)})
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made.backend_tokenizer,
        unk_token="<|endoftext|>",
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        additional_special_tokens=["<|endoftext|>", *SPECIAL_TOKENS],
    )
    pictures = Qwen2VLImageProcessorPil(
        patch_size=8,
        merge_size=2,
        temporal_patch_size=2,
        size={"shortest_edge": 64 * 64, "longest_edge": 64 * 64},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    return image_only(Qwen3VLProcessor)(pictures, tokenizer, chat_template=CHAT_TEMPLATE)


def make_judge_base(processor: ProcessorMixin, hidden: int = 128, layers: int = 4) -> Qwen3VLForConditionalGeneration:
    """Return an untrained Qwen3-VL of about 1.3 million weights."""
    token = processor.tokenizer.convert_tokens_to_ids
    text = {
        "vocab_size": len(processor.tokenizer),
        "hidden_size": hidden,
        "intermediate_size": 3 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 32,
        "max_position_embeddings": 512,
        "rope_parameters": {"rope_type": "default", "mrope_section": [6, 5, 5], "rope_theta": 10_000.0},
        "tie_word_embeddings": True,
    }
    vision = {
        "hidden_size": 64,
        "intermediate_size": 192,
        "depth": 2,
        "num_heads": 2,
        "patch_size": 8,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": hidden,
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0],
    }
    config = Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    return Qwen3VLForConditionalGeneration(config)


def save_judge_base(folder: Path, model: Qwen3VLForConditionalGeneration, processor: ProcessorMixin) -> None:
    """Save weights and processor as a folder that transformers loads."""
    model.save_pretrained(folder, safe_serialization=True)
    processor.save_pretrained(folder)
