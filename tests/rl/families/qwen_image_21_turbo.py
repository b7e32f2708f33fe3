"""Qwen-Image 2.1 Turbo: no guidance, and a schedule that comes with the checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.rl.families.parts import qwen_image_21_pipeline

SETTINGS: dict[str, Any] = {
    "height": 64,
    "width": 64,
    "pipeline_kwargs": {"output_resolution": 64},
}
REFERENCES = (0, 1, 2, 3)
GUIDANCE: dict[str, dict[str, Any]] = {"off": {}}


def build(folder: Path, tiny_editor: Path) -> None:
    qwen_image_21_pipeline(sample_sigmas=[1.0, 0.8, 0.4]).save_pretrained(folder)
