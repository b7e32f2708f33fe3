"""FLUX.1-Kontext: guidance is an input of a distilled transformer; a case has one reference or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diffusers import FlowMatchEulerDiscreteScheduler, FluxKontextPipeline, FluxTransformer2DModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, T5Config, T5EncoderModel, T5Tokenizer

from tests.rl.families.parts import small_autoencoder

SETTINGS: dict[str, Any] = {
    "num_inference_steps": 3,
    "height": 64,
    "width": 64,
    # Kontext scales every picture to an area of a megapixel, and references to one of 17 sizes, unless told not to.
    "pipeline_kwargs": {"max_sequence_length": 12, "max_area": 64 * 64, "_auto_resize": False},
}
REFERENCES = (0, 1)
GUIDANCE: dict[str, dict[str, Any]] = {"off": {"guidance_scale": 1.0}, "on": {"guidance_scale": 3.5}}


def build(folder: Path, tiny_editor: Path) -> None:
    clip = {"<|startoftext|>": 0, "<|endoftext|>": 1}
    clip |= {letter + end: 2 + 2 * place + (end != "") for place, letter in enumerate(LETTERS) for end in ("", "</w>")}
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((letter, -1.0) for letter in ["▁", *LETTERS])]
    FluxKontextPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True),
        vae=small_autoencoder(8, shift_factor=0.1, scaling_factor=0.4),
        text_encoder=CLIPTextModel(
            CLIPTextConfig(
                vocab_size=len(clip), hidden_size=16, intermediate_size=32, projection_dim=16, num_hidden_layers=1,
                num_attention_heads=2, max_position_embeddings=16, bos_token_id=0, eos_token_id=1, pad_token_id=1,
            )
        ),
        tokenizer=CLIPTokenizer(vocab=clip, merges=[], model_max_length=16),
        text_encoder_2=T5EncoderModel(
            T5Config(
                vocab_size=len(pieces), d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
                feed_forward_proj="gated-gelu",
            )
        ),
        tokenizer_2=T5Tokenizer(vocab=pieces, extra_ids=0),
        transformer=FluxTransformer2DModel(
            in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
            joint_attention_dim=16, pooled_projection_dim=16, axes_dims_rope=(4, 6, 6), guidance_embeds=True,
        ),
    ).save_pretrained(folder)  # fmt: skip


LETTERS = [chr(code) for code in range(33, 127)]
