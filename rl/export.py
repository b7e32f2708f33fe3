"""Handing a trained LoRA over: written in diffusers' format, and tried in the stock pipeline before it counts."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import DiffusionPipeline
from PIL.Image import Image

from gnomon.datasets import read_cases
from gnomon.errors import UserError
from gnomon.files import writing
from gnomon.records import Case
from rl.callbacks import LORA
from rl.data import load_references
from rl.generator import DiffusersGenerator
from rl.lora import WEIGHTS_NAME

_SEED = 0
# What kernels may round differently, as a part of the full range of a pixel.
_ROUNDING = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 6e-2}
# A lost alpha changes the effect of an adapter by half or more.
_RELATIVE = 0.1


@dataclass(frozen=True)
class ExportReport:
    """What was tried: the stock pipeline's class, and largest differences of pixels in 0..1.

    `difference` is between the stock pipeline and our generator, both with the adapter; `change` is what the
    adapter changes in the stock pipeline.
    """

    pipeline: str
    difference: float
    change: float


def stock_pixels(
    generator: DiffusersGenerator, case: Case, references: list[Image], seed: int, lora: str | None
) -> tuple[str, np.ndarray]:
    """Make a picture with the stock pipeline that belongs to the generator's model, as any user would.

    Returns:
        The name of the pipeline's class, and pixels `[height, width, 3]` in 0..1.
    """
    pipeline: Any = DiffusionPipeline.from_pretrained(generator.model, dtype=generator.dtype)
    pipeline.set_progress_bar_config(disable=True)
    pipeline.to(generator.device)
    if lora is not None:
        pipeline.load_lora_weights(lora)
    inputs: dict[str, Any] = {"height": generator.height, "width": generator.width, **generator.pipeline_kwargs}
    if references:
        inputs["image"] = references if len(references) > 1 else references[0]
    result = pipeline(
        prompt=generator.text(case),
        num_inference_steps=generator.num_inference_steps,
        generator=torch.Generator().manual_seed(seed),
        output_type="np",
        **{name: value for name, value in inputs.items() if value is not None},
    )
    pixels: np.ndarray = result.images[0]
    return type(pipeline).__name__, pixels


def our_pixels(generator: DiffusersGenerator, case: Case, references: list[Image], seed: int) -> np.ndarray:
    """Make the same picture with our generator; pixels `[height, width, 3]` in 0..1."""
    conditioning = generator.condition([case], [references])
    latents = generator.sample(conditioning, generator.initial_latents(conditioning, [seed]))
    pixels: np.ndarray = generator.decode_pixels(conditioning, latents)[0]
    return pixels


def verify_lora(lora: Path, generator_settings: Mapping[str, Any], case: Case, references: list[Image]) -> ExportReport:
    """Compare the stock pipeline with a LoRA to our generator with it, and to itself without.

    Args:
        lora: folder of the adapter.
        generator_settings: arguments of `DiffusersGenerator`; an adapter among them is left out.
        case: what to make.
        references: its pictures.

    Raises:
        UserError: when the pictures of stock and ours differ: the file does not say what was trained.
    """
    ours = DiffusersGenerator(**{**generator_settings, "lora": str(lora)})
    name, stock = stock_pixels(ours, case, references, _SEED, str(lora))
    _, base = stock_pixels(ours, case, references, _SEED, None)
    difference = float(np.abs(stock - our_pixels(ours, case, references, _SEED)).max())
    report = ExportReport(name, difference, float(np.abs(stock - base).max()))
    allowed = max(_ROUNDING[ours.dtype], _RELATIVE * report.change)
    if report.difference > allowed:
        raise UserError(
            f"expected {name} with {lora} to make the picture that our generator makes, they differ by up to "
            f"{report.difference:.2g} of a pixel's range (allowed {allowed:.2g}); nothing was exported"
        )
    return report


def export_lora(run: Path, out: Path, which: str, config: Mapping[str, Any]) -> ExportReport:
    """Copy an adapter of a run to `out` after `verify_lora` on a case of the run.

    Raises:
        UserError: when the run has no such adapter, or it does not stand the test.
    """
    source = run / LORA / which
    if not (source / WEIGHTS_NAME).is_file():
        there = sorted(folder.name for folder in (run / LORA).glob("*/"))
        raise UserError(
            f"expected an adapter in {source}, there is none ({', '.join(there) or 'no adapters'} so far); "
            "'best' needs a validation, 'last' the end of the run"
        )
    cases = config["data"]["validation"] or config["data"]["train"]
    case = read_cases(cases)[0]
    report = verify_lora(source, config["model"]["generator"]["init_args"], case, load_references(cases, case))
    with writing(out / WEIGHTS_NAME):
        out.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / WEIGHTS_NAME, out / WEIGHTS_NAME)
    return report
