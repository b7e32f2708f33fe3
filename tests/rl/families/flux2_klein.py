"""FLUX.2-klein: distilled, no guidance, any number of references."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

SETTINGS: dict[str, Any] = {
    "num_inference_steps": 3,
    "height": 64,
    "width": 64,
    "pipeline_kwargs": {"max_sequence_length": 12, "text_encoder_out_layers": [1, 2]},
}
REFERENCES = (0, 1, 2, 3)
GUIDANCE: dict[str, dict[str, Any]] = {"off": {}}


def build(folder: Path, tiny_editor: Path) -> None:
    shutil.copytree(tiny_editor, folder)
