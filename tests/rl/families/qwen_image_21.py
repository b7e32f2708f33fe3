"""Qwen-Image 2.1: text to picture, or with any number of references; its VAE has four channels, one for opacity.

A picture's place among the text is filled with four tokens of its latents, so that the text encoder's patches (16
pixels, merged 2 x 2) must fit the VAE's (16 pixels).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.rl.families.parts import qwen_image_21_pipeline

SETTINGS: dict[str, Any] = {
    "num_inference_steps": 3,
    "height": 64,
    "width": 64,
    "pipeline_kwargs": {"output_resolution": 64},
}
REFERENCES = (0, 1, 2, 3)
GUIDANCE: dict[str, dict[str, Any]] = {"off": {"guidance_scale": 1.0}, "on": {"guidance_scale": 4.0}}


def build(folder: Path, tiny_editor: Path) -> None:
    qwen_image_21_pipeline().save_pretrained(folder)
