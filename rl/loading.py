"""Model folders in diffusers' format: loading them whole or not at all, their own settings, and their fingerprint."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from diffusers import ModularPipeline

from gnomon.errors import UserError

SETTINGS_FILE = "gnomon.json"
_SETTINGS = ("pipeline_kwargs", "num_inference_steps", "height", "width")


def weights_hash(folder: Path) -> str | None:
    """Hash names, sizes and the first MiB of all weight files below a folder; None for a name on the hub."""
    if not folder.is_dir():
        return None
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.safetensors")):
        digest.update(f"{path.relative_to(folder).as_posix()}:{path.stat().st_size}:".encode())
        with path.open("rb") as file:
            digest.update(file.read(2**20))
    return digest.hexdigest()


def read_settings(folder: Path) -> dict[str, Any]:
    """Read the defaults that a model folder gives for itself; empty without the file.

    Raises:
        UserError: for a file that is no JSON mapping, and for keys that nobody reads.
    """
    path = folder / SETTINGS_FILE
    if not path.is_file():
        return {}
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"expected JSON in {path}: {error}") from error
    unknown = sorted(set(settings) - set(_SETTINGS)) if isinstance(settings, dict) else ["(no mapping)"]
    if unknown:
        raise UserError(f"expected only {', '.join(_SETTINGS)} in {path}, got {', '.join(unknown)}")
    return dict(settings)


def load_pipeline(model: str, revision: str | None, dtype: torch.dtype) -> Any:
    """Load a `ModularPipeline` with all its components, frozen and in eval mode.

    Raises:
        UserError: when there is no such model, or a part of it cannot be loaded.
    """
    # A path that does not exist would be asked for on the hub, and the answer would speak of repositories.
    looks_like_path = model.startswith((".", "/", "~")) or model.count("/") > 1
    if looks_like_path and not Path(model).is_dir():
        raise UserError(f"expected a model folder at {model}, there is none")
    try:
        pipeline = ModularPipeline.from_pretrained(model, revision=revision)
        pipeline.load_components(dtype=dtype)
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"could not load a modular pipeline from {model}: {error}") from error
    # A component that fails to load is only warned about, and fails later inside a block.
    missing = [name for name in pipeline.pretrained_component_names if getattr(pipeline, name, None) is None]
    if missing:
        raise UserError(
            f"expected {', '.join(missing)} in {model}, but {'it' if len(missing) == 1 else 'they'} could not be "
            "loaded; the warnings above say why"
        )
    for component in pipeline.components.values():
        if isinstance(component, torch.nn.Module):
            component.requires_grad_(False).eval()
    return pipeline
