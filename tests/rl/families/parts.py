"""What several families share: settings, tokenizers, encoders, adapters, all tiny, of the real classes, at random."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import AutoencoderKL
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedModel, PreTrainedTokenizerFast, ProcessorMixin, Qwen2Tokenizer

from rl.lora import add_lora
from rm.vlm.processor import image_only

# Of FLUX.2 and FLUX.2-klein, which take pictures and texts alike.
FLUX2_SETTINGS: dict[str, Any] = {
    "num_inference_steps": 3,
    "height": 64,
    "width": 64,
    "pipeline_kwargs": {"max_sequence_length": 12, "text_encoder_out_layers": [1, 2]},
}
SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
# Qwen's own form of a conversation, with all that a checkpoint's template does for plain texts and pictures.
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def qwen_tokenizer() -> Qwen2Tokenizer:
    """Return a tokenizer of one token per byte, with Qwen's special tokens and form of conversations."""
    words = [*SPECIAL_TOKENS, *sorted(ByteLevel.alphabet())]
    tokenizer = Qwen2Tokenizer(
        vocab={word: index for index, word in enumerate(words)},
        merges=[],
        unk_token=SPECIAL_TOKENS[0],
        pad_token=SPECIAL_TOKENS[0],
        eos_token="<|im_end|>",
        additional_special_tokens=list(SPECIAL_TOKENS),
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def vision_processor(processor_class: type[ProcessorMixin], patch_size: int = 8) -> ProcessorMixin:
    """Return a processor of texts and pictures: patches merged 2 x 2, at most 64 x 64 pixels a picture."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    pictures = Qwen2VLImageProcessorPil(
        patch_size=patch_size,
        merge_size=2,
        temporal_patch_size=2,
        size={"shortest_edge": 32 * 32, "longest_edge": 64 * 64},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    return image_only(processor_class)(pictures, qwen_tokenizer(), chat_template=CHAT_TEMPLATE)


def qwen_text_settings(hidden: int) -> dict[str, Any]:
    """Return the settings of a language model of two layers and `hidden` channels, M-RoPE included."""
    return {
        "vocab_size": len(qwen_tokenizer()),
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": hidden // 2,
        "max_position_embeddings": 2048,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]},
        "tie_word_embeddings": True,
    }


def special_token_ids() -> dict[str, Any]:
    """Return the ids by which a vision-language model finds pictures among its tokens."""
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    tokens = ("<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>")
    tokenizer: PreTrainedTokenizerFast = qwen_tokenizer()
    return {name: tokenizer.convert_tokens_to_ids(token) for name, token in zip(names, tokens, strict=True)}


def qwen3_vl() -> PreTrainedModel:
    """Return a vision-language model of the kind that reads the texts of FLUX.3 and Qwen-Image 2.1."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    return Qwen3VLForConditionalGeneration(
        Qwen3VLConfig(
            text_config=qwen_text_settings(16),
            vision_config={
                "depth": 1, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "patch_size": 16,
                "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 16,
                "num_position_embeddings": 64, "deepstack_visual_indexes": [0],
            },
            tie_word_embeddings=True,
            **special_token_ids(),
        )
    )  # fmt: skip


def small_autoencoder(width: int, **settings: Any) -> AutoencoderKL:
    """Return a VAE of 4 latent channels at an eighth of the size, `width` channels wide inside."""
    return AutoencoderKL(
        block_out_channels=(width,) * 4, down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4, layers_per_block=1, latent_channels=4, norm_num_groups=width // 2,
        mid_block_add_attention=False, use_quant_conv=False, use_post_quant_conv=False, **settings,
    )  # fmt: skip


def add_trained_lora(transformer: Any, *, alpha: int, std: float) -> None:
    """Put an adapter of rank 2 on a transformer that looks trained: B, which starts at 0, is drawn with `std`."""
    add_lora(transformer, rank=2, alpha=alpha)
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in transformer.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=std, generator=noise)


def qwen_image_components() -> dict[str, Any]:
    """Return what the pipelines around Qwen-Image share, but for the processor of those that edit.

    The edit pipelines scale every reference to an area of 1024 x 1024 pixels, whatever the size of the picture to
    make. A VAE that shrinks by 32 keeps that at 256 tokens; the real one shrinks by 8.
    """
    from diffusers import AutoencoderKLQwenImage, FlowMatchEulerDiscreteScheduler, QwenImageTransformer2DModel
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    return {
        "scheduler": FlowMatchEulerDiscreteScheduler(shift=1.0, use_dynamic_shifting=True),
        "vae": AutoencoderKLQwenImage(
            base_dim=2,
            z_dim=4,
            dim_mult=[1] * 6,
            num_res_blocks=0,
            temperal_downsample=[False] * 5,
            latents_mean=[0.1, -0.2, 0.3, 0.0],
            latents_std=[0.5, 1.0, 1.5, 2.0],
        ),
        "text_encoder": Qwen2_5_VLForConditionalGeneration(
            Qwen2_5_VLConfig(
                text_config=qwen_text_settings(16),
                vision_config={
                    "depth": 1, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "patch_size": 8,
                    "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 16, "window_size": 32,
                    "fullatt_block_indexes": [0], "tokens_per_second": 2,
                },
                **special_token_ids(),
            )
        ),
        "tokenizer": qwen_tokenizer(),
        "transformer": QwenImageTransformer2DModel(
            patch_size=2, in_channels=16, out_channels=4, num_layers=2, attention_head_dim=16, num_attention_heads=2,
            joint_attention_dim=16, axes_dims_rope=(4, 6, 6),
        ),
    }  # fmt: skip


def qwen_image_21_pipeline(**settings: Any) -> Any:
    """Return a Qwen-Image 2.1, whose VAE reads and writes pictures of four channels; `settings` are the pipeline's."""
    from diffusers import (
        AutoencoderKLQwenImage21,
        FlowMatchEulerDiscreteScheduler,
        QwenImage21Pipeline,
        QwenImage21Transformer2DModel,
    )
    from transformers import Qwen3VLProcessor

    return QwenImage21Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=1.0, use_dynamic_shifting=True),
        vae=AutoencoderKLQwenImage21(
            base_dim=4, decoder_base_dim=4, z_dim=4, dim_mult=[1] * 5, num_res_blocks=1,
            temperal_downsample=[False] * 4, latents_mean=[0.1, -0.2, 0.3, 0.0], latents_std=[0.5, 1.0, 1.5, 2.0],
        ),
        text_encoder=qwen3_vl(),
        processor=vision_processor(Qwen3VLProcessor, patch_size=16),
        transformer=QwenImage21Transformer2DModel(
            in_channels=4, out_channels=4, num_layers=2, attention_head_dim=16, num_attention_heads=2,
            context_in_dim=16, axes_dims_rope=(4, 6, 6),
        ),
        **settings,
    )  # fmt: skip
