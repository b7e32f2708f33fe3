"""Qwen-Image-Edit-Plus: one or several references."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diffusers import QwenImageEditPlusPipeline
from transformers import Qwen2VLProcessor

from tests.rl.families.parts import qwen_image_components, vision_processor

SETTINGS: dict[str, Any] = {"num_inference_steps": 3, "height": 128, "width": 128}
REFERENCES = (1, 2, 3)
GUIDANCE: dict[str, dict[str, Any]] = {"off": {"guidance_scale": 1.0}, "on": {"guidance_scale": 4.0}}


def build(folder: Path, tiny_editor: Path) -> None:
    pipeline = QwenImageEditPlusPipeline(**qwen_image_components(), processor=vision_processor(Qwen2VLProcessor))
    pipeline.save_pretrained(folder)
