"""What a model folder would take up, read from its configs and the headers of its weight files: nothing is loaded."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers
import torch
from safetensors import safe_open

from gnomon.errors import UserError
from rl.lora import add_lora
from rl.settings import LoraSettings

_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}
_NF4_BYTES = 0.5 + 4 / 64  # half a byte, and a float32 scale for every block of 64


@dataclass(frozen=True)
class PictureSize:
    """Latents of one picture: `elements` numbers, `tokens` places in the transformer's sequence."""

    elements: int
    tokens: int


@dataclass(frozen=True)
class TransformerSize:
    """What a transformer costs beside its frozen weights.

    Attributes:
        adapter: trainable parameters of the LoRA.
        hidden: width of a token.
        blocks: repeated blocks.
    """

    adapter: int
    hidden: int
    blocks: int


def parameters_of_components(folder: Path) -> dict[str, int]:
    """Count the parameters of each component of a pipeline's folder (or of a single model's, under "model")."""
    used = _components(folder)
    counts: dict[str, int] = {}
    for path in sorted(folder.rglob("*.safetensors")):
        parts = path.relative_to(folder).parts
        name = parts[0] if len(parts) > 1 else "model"
        if _is_variant(path) or (used and name not in used):
            continue
        with safe_open(path, framework="pt") as file:
            shapes = [file.get_slice(key).get_shape() for key in file.keys()]  # noqa: SIM118
        counts[name] = counts.get(name, 0) + sum(math.prod(shape) for shape in shapes)
    return counts


def _components(folder: Path) -> set[str]:
    """Return the components that a pipeline's index names; none where the folder has no index."""
    indices = [path for name in ("modular_model_index.json", "model_index.json") if (path := folder / name).exists()]
    return {key for key in _read(indices[0]) if not key.startswith("_")} if indices else set()


def _is_variant(path: Path) -> bool:
    """Say whether a file holds the weights of another one in 16 bits: `model.fp16.safetensors`."""
    words = path.name.split(".")
    return len(words) > 2 and path.with_name(f"{words[0]}.safetensors").exists()


def bytes_per_parameter(dtype: str, quantize: str | None = None) -> float:
    """Return the bytes of a weight in a dtype, or in four bits with its share of the scales.

    Raises:
        UserError: for a dtype that no generator takes.
    """
    if dtype not in _BYTES:
        raise UserError(f"expected model.generator.init_args.dtype {', '.join(_BYTES)}, got {dtype!r}")
    return _NF4_BYTES if quantize == "nf4" else _BYTES[dtype]


def transformer_size(folder: Path, lora: LoraSettings) -> TransformerSize:
    """Build the transformer of a pipeline's folder without weights, with its adapter, and measure it.

    Raises:
        UserError: when the LoRA's targets match nothing, or the folder holds no pipeline with a transformer.
    """
    config = _read(folder / "transformer" / "config.json")
    kind: Any = getattr(diffusers, str(config.get("_class_name")), None)
    if kind is None:
        raise UserError(
            f"expected a transformer of diffusers {diffusers.__version__} in {folder}, got "
            f"{config.get('_class_name')!r}; update diffusers, or give another model"
        )
    with torch.device("meta"):
        model = kind.from_config(config)
        names = add_lora(model, rank=lora.rank, alpha=lora.alpha, targets=lora.targets, init=lora.init)
    kinds = set(getattr(model, "_repeated_blocks", None) or ())
    blocks = sum(type(module).__name__ in kinds for module in model.modules())
    return TransformerSize(sum(model.get_parameter(name).numel() for name in names), _width(config), blocks)


def _width(config: Mapping[str, Any]) -> int:
    if "num_attention_heads" in config and "attention_head_dim" in config:
        return int(config["num_attention_heads"] * config["attention_head_dim"])
    return int(config.get("dim") or config.get("hidden_size") or 0)


def picture_size(folder: Path, height: int, width: int) -> PictureSize:
    """Work out the latents of a picture of so many pixels; 2 x 2 of them make one token, as all families have it."""
    config = _read(folder / "vae" / "config.json")
    stages = config.get("block_out_channels")
    halvings = len(stages) - 1 if stages else len(config.get("temperal_downsample") or (0, 0, 0))
    channels = int(config.get("latent_channels") or config["z_dim"])
    places = (height // 2**halvings) * (width // 2**halvings)
    return PictureSize(places * channels, max(places // 4, 1))


def _read(path: Path) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"could not read {path}: {error}; expected the folder of a flow-matching pipeline in diffusers' format, "
            "with transformer and vae, as model.generator.init_args.model"
        ) from error
    return config
