"""A tiny Z-Image checkpoint: its transformer takes lists of pictures and texts, and time that runs backwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.rl.families.parts import qwen_tokenizer, small_autoencoder

SETTINGS: dict[str, Any] = {
    "num_inference_steps": 3,
    "height": 64,
    "width": 64,
    "pipeline_kwargs": {"max_sequence_length": 64},
}
REFERENCES = (0,)
GUIDANCE: dict[str, dict[str, Any]] = {"off": {"guidance_scale": 1.0}, "on": {"guidance_scale": 5.0}}


def build(folder: Path, tiny_editor: Path) -> None:
    """Save the pipeline: latents of 4 channels at an eighth of the size, in patches of 2 x 2."""
    from diffusers import FlowMatchEulerDiscreteScheduler, ZImagePipeline, ZImageTransformer2DModel
    from transformers import Qwen3Config, Qwen3Model

    tokenizer = qwen_tokenizer()
    ZImagePipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=small_autoencoder(4, shift_factor=0.1159, scaling_factor=0.3611),
        text_encoder=Qwen3Model(
            Qwen3Config(
                vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=3,
                num_attention_heads=2, num_key_value_heads=2, head_dim=8,
            )
        ),
        tokenizer=tokenizer,
        transformer=ZImageTransformer2DModel(
            in_channels=4, dim=32, n_layers=2, n_refiner_layers=1, n_heads=2, n_kv_heads=2, cap_feat_dim=16,
            axes_dims=[4, 6, 6], axes_lens=[256, 64, 64],
        ),
    ).save_pretrained(folder)  # fmt: skip
