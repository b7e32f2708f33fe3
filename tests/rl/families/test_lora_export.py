"""An exported adapter in a plain pipeline of diffusers: it loads, changes the picture, and makes ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL.Image import Image
from safetensors import safe_open

from gnomon.records import Case
from rl.export import our_pixels, stock_inputs, stock_pipeline, verify_lora
from rl.generator import DiffusersGenerator
from rl.lora import WEIGHTS_NAME, save_lora
from tests.rl.families.parts import add_trained_lora


def test_an_exported_lora_with_alpha_other_than_rank_loads_in_a_plain_pipeline_and_makes_our_picture(
    family: Any, guidance: str, cases: list[Case], pictures: list[Image], tmp_path: Path
) -> None:
    references = pictures[: family.references[-1]]
    generator = DiffusersGenerator(**family.arguments(guidance))
    base = our_pixels(generator, cases[0], references, 3)
    add_trained_lora(generator.transformer, alpha=8, std=0.5)
    ours = our_pixels(generator, cases[0], references, 3)
    save_lora(generator.pipeline, tmp_path)

    plain = stock_pipeline(generator, modular=True)
    plain.load_lora_weights(str(tmp_path))
    stock = plain(**stock_inputs(plain, generator, cases[0], references, 3), output_type="np", output="images")[0]
    change = float(np.abs(ours - base).max())
    assert change > 1e-3
    assert float(np.abs(ours - stock).max()) < 1e-5

    with safe_open(tmp_path / WEIGHTS_NAME, "pt") as file:
        assert all(key.startswith("transformer.") and ".lora_" in key for key in file.keys())  # noqa: SIM118
        assert "lora_alpha" in str(file.metadata())

    report = verify_lora(tmp_path, family.arguments(guidance), cases[0], references)
    assert report.difference < 1e-4
    assert report.change > 1e-3
