"""Qwen-Image: text to picture, with guidance whose length is set back to that of the prompted velocity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diffusers import QwenImagePipeline

from tests.rl.families.parts import qwen_image_components

SETTINGS: dict[str, Any] = {"num_inference_steps": 3, "height": 128, "width": 128}
REFERENCES = (0,)
GUIDANCE: dict[str, dict[str, Any]] = {"off": {"guidance_scale": 1.0}, "on": {"guidance_scale": 4.0}}


def build(folder: Path, tiny_editor: Path) -> None:
    QwenImagePipeline(**qwen_image_components()).save_pretrained(folder)
