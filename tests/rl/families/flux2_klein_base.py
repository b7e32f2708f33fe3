"""FLUX.2-klein before distillation: the same parts, with classifier-free guidance by a guider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diffusers import Flux2KleinPipeline

from tests.rl.families.parts import FLUX2_SETTINGS

SETTINGS = FLUX2_SETTINGS
REFERENCES = (0, 1, 2, 3)
GUIDANCE: dict[str, dict[str, Any]] = {"off": {"guidance_scale": 1.0}, "on": {"guidance_scale": 4.0}}


def build(folder: Path, tiny_editor: Path) -> None:
    pipeline: Any = Flux2KleinPipeline.from_pretrained(tiny_editor)
    pipeline.register_to_config(is_distilled=False)
    pipeline.save_pretrained(folder)
