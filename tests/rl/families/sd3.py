"""A tiny Stable Diffusion 3 checkpoint with its three text encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.rl.families.parts import small_autoencoder

SETTINGS: dict[str, Any] = {
    "num_inference_steps": 3,
    "height": 64,
    "width": 64,
    "pipeline_kwargs": {"max_sequence_length": 24},
}
REFERENCES = (0,)
GUIDANCE: dict[str, dict[str, Any]] = {"off": {"guidance_scale": 1.0}, "on": {"guidance_scale": 7.0}}


def _clip(hidden: int) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModelWithProjection

    return CLIPTextModelWithProjection(
        CLIPTextConfig(
            vocab_size=514, hidden_size=hidden, intermediate_size=16, num_hidden_layers=3, num_attention_heads=2,
            max_position_embeddings=77, projection_dim=hidden, bos_token_id=512, eos_token_id=513, pad_token_id=513,
        )
    )  # fmt: skip


def _clip_tokenizer() -> Any:
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import CLIPTokenizer

    letters = sorted(ByteLevel.alphabet())
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(vocab={word: index for index, word in enumerate(words)}, merges=[], model_max_length=77)


def _t5_tokenizer() -> Any:
    from transformers import T5Tokenizer

    letters = [chr(code) for code in range(33, 127)]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -20.0), ("▁", -2.0), *((letter, -3.0) for letter in letters)]
    return T5Tokenizer(vocab=pieces, extra_ids=0)


def build(folder: Path, tiny_editor: Path) -> None:
    """Save the pipeline: latents of 4 channels at an eighth of the size, in patches of 2 x 2."""
    from diffusers import FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel, StableDiffusion3Pipeline
    from transformers import T5Config, T5EncoderModel

    t5_tokenizer = _t5_tokenizer()
    StableDiffusion3Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=small_autoencoder(4, shift_factor=0.0609, scaling_factor=1.5305),
        text_encoder=_clip(8),
        tokenizer=_clip_tokenizer(),
        text_encoder_2=_clip(8),
        tokenizer_2=_clip_tokenizer(),
        text_encoder_3=T5EncoderModel(
            T5Config(vocab_size=len(t5_tokenizer), d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
        ),
        tokenizer_3=t5_tokenizer,
        transformer=SD3Transformer2DModel(
            sample_size=8, patch_size=2, in_channels=4, out_channels=4, num_layers=2, attention_head_dim=8,
            num_attention_heads=2, joint_attention_dim=32, caption_projection_dim=16, pooled_projection_dim=16,
            pos_embed_max_size=16, qk_norm="rms_norm", dual_attention_layers=(0,),
        ),
    ).save_pretrained(folder)  # fmt: skip
