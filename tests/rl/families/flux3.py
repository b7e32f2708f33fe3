"""FLUX.3: guidance by a guider, any number of references, no classic pipeline.

The block that rewrites instructions with a language model of 9 billion weights is left out, as the model's own
documentation says how to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diffusers import AutoencoderKLFlux2, Flux3AutoBlocks, Flux3DistilledAutoBlocks, Flux3Transformer2DModel
from transformers import Qwen3VLProcessor

from tests.rl.families.parts import qwen3_vl, vision_processor

SETTINGS: dict[str, Any] = {
    "num_inference_steps": 3,
    "height": 64,
    "width": 64,
    "pipeline_kwargs": {"max_sequence_length": 24, "text_encoder_out_layers": [1, 2]},
    "skip_blocks": ["prompt_upsampler"],
}
REFERENCES = (0, 1, 2, 3)
GUIDANCE: dict[str, dict[str, Any]] = {"off": {"guidance_scale": 1.0}, "on": {"guidance_scale": 3.5}}
UNREACHED = ("mode_blocks.image_cond.",)


def build(folder: Path, tiny_editor: Path, *, distilled: bool = False) -> None:
    blocks = Flux3DistilledAutoBlocks() if distilled else Flux3AutoBlocks()
    blocks.sub_blocks.pop("prompt_upsampler")
    pipeline = blocks.init_pipeline()
    pipeline.update_components(
        vae=AutoencoderKLFlux2.from_pretrained(tiny_editor / "vae"),
        text_encoder=qwen3_vl(),
        tokenizer=vision_processor(Qwen3VLProcessor),
        transformer=Flux3Transformer2DModel(
            in_channels=32, cond_in_channels=32, num_layers=1, num_single_layers=1, attention_head_dim=16,
            num_attention_heads=2, joint_attention_dim=32, timestep_channels=16, axes_dims_rope=(4, 4, 4, 4),
            flow_map=distilled,
        ),
    )  # fmt: skip
    pipeline.save_pretrained(str(folder), overwrite_modular_index=True)
