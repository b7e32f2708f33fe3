"""A tiny random FLUX.2-klein of the real classes: 64 x 64 pictures, 16 tokens of 32 channels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

PIPELINE_KWARGS: dict[str, Any] = {"max_sequence_length": 12, "text_encoder_out_layers": [1, 2]}


def build(folder: Path) -> Path:
    """Save the pipeline in a folder, and return that."""
    from diffusers import (
        AutoencoderKLFlux2,
        FlowMatchEulerDiscreteScheduler,
        Flux2KleinPipeline,
        Flux2Transformer2DModel,
    )
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Tokenizer, Qwen3Config, Qwen3ForCausalLM

    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    vocabulary = {token: index for index, token in enumerate([*specials, *sorted(ByteLevel.alphabet())])}
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=[], unk_token=specials[0], pad_token=specials[0])
    tokenizer.chat_template = "{{ messages[0]['content'] }}"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        pipeline = Flux2KleinPipeline(
            scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True),
            vae=AutoencoderKLFlux2(
                block_out_channels=(8, 8, 8, 8),
                down_block_types=("DownEncoderBlock2D",) * 4,
                up_block_types=("UpDecoderBlock2D",) * 4,
                layers_per_block=1,
                latent_channels=8,
                norm_num_groups=4,
                mid_block_add_attention=False,
            ),
            text_encoder=Qwen3ForCausalLM(
                Qwen3Config(
                    vocab_size=len(vocabulary), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                    num_attention_heads=2, num_key_value_heads=2, head_dim=8, tie_word_embeddings=True,
                )
            ),
            tokenizer=tokenizer,
            transformer=Flux2Transformer2DModel(
                in_channels=32, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
                joint_attention_dim=32, timestep_guidance_channels=16, axes_dims_rope=(4, 4, 4, 4),
                guidance_embeds=False,
            ),
            is_distilled=True,
        )  # fmt: skip
    pipeline.save_pretrained(folder)
    return folder
