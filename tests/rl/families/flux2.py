"""FLUX.2: guidance is an input of a distilled transformer, texts are read by Mistral 3; any number of references.

The real checkpoint has a `PixtralProcessor` in the place of the tokenizer, which transformers only gives where
torchvision is installed; FLUX.2 asks it for texts alone, so a bare tokenizer stands for it here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diffusers import AutoencoderKLFlux2, FlowMatchEulerDiscreteScheduler, Flux2Pipeline, Flux2Transformer2DModel
from tokenizers.pre_tokenizers import ByteLevel
from transformers import Mistral3Config, Mistral3ForConditionalGeneration, Qwen2Tokenizer

from tests.rl.families.parts import FLUX2_SETTINGS

SETTINGS = FLUX2_SETTINGS
REFERENCES = (0, 1, 2, 3)
GUIDANCE: dict[str, dict[str, Any]] = {"off": {"guidance_scale": 1.0}, "on": {"guidance_scale": 4.0}}

# The real template starts with a system text of some 40 words; that of a test would be cut off with the instruction.
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'user' %}[INST]"
    "{% for part in message['content'] %}{{ part['text'] }}{% endfor %}[/INST]{% endif %}{% endfor %}"
)


def build(folder: Path, tiny_editor: Path) -> None:
    words = ["<pad>", "<s>", "</s>", "[INST]", "[/INST]", "[IMG]", "[IMG_BREAK]", "[IMG_END]"]
    specials = list(words)
    words += sorted(ByteLevel.alphabet())
    tokenizer = Qwen2Tokenizer(
        vocab={word: index for index, word in enumerate(words)}, merges=[], unk_token="<pad>", pad_token="<pad>",
        eos_token="</s>", additional_special_tokens=specials,
    )  # fmt: skip
    tokenizer.chat_template = CHAT_TEMPLATE
    Flux2Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True),
        vae=AutoencoderKLFlux2.from_pretrained(tiny_editor / "vae"),
        text_encoder=Mistral3ForConditionalGeneration(
            Mistral3Config(
                text_config={
                    "model_type": "mistral", "vocab_size": len(words), "hidden_size": 16, "intermediate_size": 32,
                    "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8,
                },
                vision_config={
                    "model_type": "pixtral", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
                    "num_attention_heads": 2, "patch_size": 8, "image_size": 64,
                },
                image_token_index=words.index("[IMG]"),
                spatial_merge_size=2,
            )
        ),
        tokenizer=tokenizer,
        transformer=Flux2Transformer2DModel(
            in_channels=32, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
            joint_attention_dim=32, timestep_guidance_channels=16, axes_dims_rope=(4, 4, 4, 4), guidance_embeds=True,
        ),
    ).save_pretrained(folder)  # fmt: skip
