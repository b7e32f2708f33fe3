"""Handing a trained LoRA over: written in diffusers' format, and tried in the stock pipeline before it counts."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import DiffusionPipeline, ModularPipeline
from PIL.Image import Image
from safetensors import safe_open
from transformers import ProcessorMixin

from gnomon.datasets import read_cases
from gnomon.errors import UserError
from gnomon.files import atomic_write_bytes
from gnomon.records import Case
from rl.callbacks import LORA
from rl.data import load_references
from rl.generator import DiffusersGenerator
from rl.loading import GUIDANCE, has_classic_pipeline, has_guider, load_pipeline, only_local, set_guidance
from rl.lora import WEIGHTS_NAME

_SEED = 0
# What kernels may round differently in float32, as a part of the full range of a pixel.
_ROUNDING = 1e-4
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


def stock_pipeline(generator: DiffusersGenerator, *, modular: bool = False) -> Any:
    """Load the pipeline that a user of diffusers would: the classic one, or the modular one where there is none.

    Args:
        generator: whose model, revision, dtype, device and guidance are taken.
        modular: take the modular pipeline in any case.
    """
    classic = not modular and has_classic_pipeline(generator.model, generator.revision)
    if classic:
        parts = generator.pipeline.components.items()
        pipeline: Any = DiffusionPipeline.from_pretrained(
            generator.model,
            revision=generator.revision,
            local_files_only=only_local(generator.model, generator.revision),
            dtype=generator.dtype,
            # The one part that a stock pipeline cannot load without torchvision.
            **{name: part for name, part in parts if isinstance(part, ProcessorMixin)},
        )
    else:
        pipeline = load_pipeline(generator.model, generator.revision, generator.dtype, generator.skip_blocks)
        set_guidance(pipeline, generator.pipeline_kwargs)
    pipeline.set_progress_bar_config(disable=True)
    pipeline.to(generator.device)
    return pipeline


def stock_inputs(
    pipeline: Any, generator: DiffusersGenerator, case: Case, references: list[Image], seed: int
) -> dict[str, Any]:
    """Return the arguments with which a stock pipeline is asked for the picture of `DiffusersGenerator.generate`."""
    inputs: dict[str, Any] = {
        "prompt": generator.text(case),
        "height": generator.height,
        "width": generator.width,
        "num_inference_steps": generator.num_inference_steps,
        "generator": torch.Generator().manual_seed(seed),
        **generator.pipeline_kwargs,
    }
    if references:
        inputs["image"] = references if len(references) > 1 else references[0]
    if isinstance(pipeline, ModularPipeline):
        if has_guider(pipeline):
            inputs.pop(GUIDANCE, None)
    elif has_guider(generator.pipeline):
        known = inspect.signature(type(pipeline).__call__).parameters
        guider = generator.pipeline.guider
        inputs[GUIDANCE] = guider.guidance_scale if guider.num_conditions > 1 else 1.0
        if "true_cfg_scale" in known:
            # These pipelines leave guidance out without a negative prompt; a blank one is what the modular ones take.
            blank = " " if "image" in known else ""
            inputs["true_cfg_scale"] = inputs.pop(GUIDANCE)
            inputs["negative_prompt"] = inputs.get("negative_prompt") or blank
        elif type(pipeline).__name__.startswith("ZImage"):
            inputs[GUIDANCE] -= 1  # it calls s what makes c + s (c - u); elsewhere that is u + s (c - u)
    return {name: value for name, value in inputs.items() if value is not None}


def stock_pixels(
    generator: DiffusersGenerator, case: Case, references: list[Image], seed: int, lora: str | None
) -> tuple[str, np.ndarray]:
    """Make a picture with the stock pipeline that belongs to the generator's model, as any user would.

    Returns:
        The name of the pipeline's class, and pixels `[height, width, 3]` in 0..1.
    """
    pipeline = stock_pipeline(generator)
    if lora is not None:
        pipeline.load_lora_weights(lora)
    return type(pipeline).__name__, pipeline_pixels(pipeline, generator, case, references, seed)


def pipeline_pixels(
    pipeline: Any, generator: DiffusersGenerator, case: Case, references: list[Image], seed: int
) -> np.ndarray:
    """Make a picture with a stock pipeline; pixels `[height, width, 3]` in 0..1."""
    inputs = stock_inputs(pipeline, generator, case, references, seed)
    if isinstance(pipeline, ModularPipeline):
        images = pipeline(**inputs, output_type="np", output="images")
    else:
        images = pipeline(**inputs, output_type="np").images
    pixels: np.ndarray = images[0]
    return pixels


def our_pixels(generator: DiffusersGenerator, case: Case, references: list[Image], seed: int) -> np.ndarray:
    """Make the same picture with our generator; pixels `[height, width, 3]` in 0..1."""
    conditioning = generator.condition([case], [references])
    latents = generator.sample(conditioning, generator.initial_latents(conditioning, [seed]))
    pixels: np.ndarray = generator.decode_pixels(conditioning, latents)[0]
    return pixels


def verify_lora(lora: Path, generator_settings: Mapping[str, Any], case: Case, references: list[Image]) -> ExportReport:
    """Compare the stock pipeline with a LoRA to our generator with it, and to itself without.

    Both run in float32 and unquantised, whatever the training did: the rounding of 16 bits is as large as what many
    an adapter changes, and would hide that it is not applied. Where the classic pipeline of a family makes another
    picture even without an adapter (docs/generators.md), the stock modular one takes its place.

    Args:
        lora: folder of the adapter.
        generator_settings: arguments of `DiffusersGenerator`; an adapter among them is left out.
        case: what to make.
        references: its pictures.

    Raises:
        UserError: when the pictures of stock and ours differ, or the stock pipeline takes the file and applies
            nothing: it does not say what was trained.
    """
    ours = DiffusersGenerator(**{**generator_settings, "lora": None, "dtype": "float32", "quantize": None})
    pipeline, base = _stock_twin(ours, case, references)
    ours.load_lora(str(lora))
    pipeline.load_lora_weights(str(lora))
    stock = pipeline_pixels(pipeline, ours, case, references, _SEED)
    name = type(pipeline).__name__
    difference = _largest(stock, our_pixels(ours, case, references, _SEED))
    report = ExportReport(name, difference, _largest(stock, base))
    if report.change == 0 and _changes_something(lora / WEIGHTS_NAME):
        raise UserError(f"expected {name} with {lora} to make another picture than without; nothing was exported")
    allowed = max(_ROUNDING, _RELATIVE * report.change)
    if report.difference > allowed:
        raise UserError(
            f"expected {name} with {lora} to make the picture that our generator makes, they differ by up to "
            f"{report.difference:.2g} of a pixel's range (allowed {allowed:.2g}); nothing was exported"
        )
    return report


def _stock_twin(ours: DiffusersGenerator, case: Case, references: list[Image]) -> tuple[Any, np.ndarray]:
    """Return the first stock pipeline that makes our picture, classic before modular, and that picture."""
    expected = our_pixels(ours, case, references, _SEED)
    differences = []
    for modular in (False, True):
        pipeline = stock_pipeline(ours, modular=modular)
        pixels = pipeline_pixels(pipeline, ours, case, references, _SEED)
        differences.append(f"{type(pipeline).__name__} by {_largest(pixels, expected):.2g}")
        if _largest(pixels, expected) <= _ROUNDING:
            return pipeline, pixels
    raise UserError(
        f"expected a stock pipeline that makes our picture without an adapter, they differ ({', '.join(differences)} "
        "of a pixel's range); nothing was exported"
    )


def _largest(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.abs(first - second).max()) if first.shape == second.shape else float("inf")


def _changes_something(weights: Path) -> bool:
    with safe_open(weights, "pt") as file:
        return any(".lora_B." in key and bool(file.get_tensor(key).any()) for key in file.keys())  # noqa: SIM118


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
            "'best' needs a validation, 'last' the end of the run, 'ema' also model.ema"
        )
    cases = config["data"]["validation"] or config["data"]["train"]
    case = read_cases(cases)[0]
    report = verify_lora(source, config["model"]["generator"]["init_args"], case, load_references(cases, case))
    atomic_write_bytes(out / WEIGHTS_NAME, (source / WEIGHTS_NAME).read_bytes())
    return report
