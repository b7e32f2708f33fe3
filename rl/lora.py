"""LoRA adapters: added for training, written in diffusers' format with their settings, and proven to load.

A LoRA file without its settings loads with `alpha = rank` and so with another strength, and one whose names fit nothing
loads as nothing; both without an error. So the settings are always written, and what counts as proof is the output of
the stock pipeline, not the file.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from diffusers.training_utils import _collate_lora_metadata
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from torch import Tensor

from gnomon.errors import UserError
from gnomon.files import TEMPORARY_SUFFIX, writing
from gnomon.hashing import stable_seed

WEIGHTS_NAME = "pytorch_lora_weights.safetensors"


def block_linears(transformer: torch.nn.Module) -> list[str]:
    """Name all linear layers inside the repeated blocks: attention and feed-forward, no embeddings, no output layer."""
    kinds = set(getattr(transformer, "_repeated_blocks", None) or ())
    names = []
    for prefix, block in transformer.named_modules():
        if type(block).__name__ in kinds:
            names += [f"{prefix}.{name}" for name, layer in block.named_modules() if isinstance(layer, torch.nn.Linear)]
    return names


def add_lora(
    transformer: Any, *, rank: int, alpha: int, targets: Sequence[str] | None = None, seed: int = 0
) -> list[str]:
    """Put a trainable adapter on a diffusers transformer, in float32; everything else is frozen.

    The adapter changes nothing at first (B is 0); A is drawn from `seed`, not from torch's global generator.

    Args:
        transformer: a diffusers model that takes adapters.
        rank: of the update.
        alpha: the update is scaled by `alpha / rank`.
        targets: names or name endings of the layers, as PEFT reads them; default `block_linears`.
        seed: of the initial A.

    Returns:
        The names of the trainable parameters.

    Raises:
        UserError: when no layer matches.
    """
    if rank < 1 or alpha <= 0:
        raise UserError(f"expected a LoRA rank >= 1 and alpha > 0, got rank={rank}, alpha={alpha}")
    chosen = block_linears(transformer) if targets is None else list(targets)
    linears = [name for name, layer in transformer.named_modules() if isinstance(layer, torch.nn.Linear)]
    lost = [target for target in chosen if not any(name == target or name.endswith(f".{target}") for name in linears)]
    if lost or not chosen:
        endings = sorted({re.sub(r"^.*\.\d+\.", "", name) for name in linears})
        raise UserError(
            f"expected LoRA targets that are linear layers of {type(transformer).__name__}; "
            f"{', '.join(lost) or 'none given'} matches nothing. There are: {', '.join(endings)}"
        )
    transformer.requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stable_seed(seed, "lora") % 2**32)
        transformer.add_adapter(LoraConfig(r=rank, lora_alpha=alpha, target_modules=chosen, init_lora_weights=True))
    names = []
    for name, parameter in transformer.named_parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()  # 16-bit weights would swallow small updates
            names.append(name)
    if not names:
        raise UserError(f"expected trainable LoRA weights in {type(transformer).__name__}, got none")
    return names


def save_lora(pipeline: Any, folder: str | Path) -> Path:
    """Write the transformer's adapter in diffusers' format, with its settings; whole or not at all.

    Args:
        pipeline: a pipeline of diffusers (stock or modular) whose `transformer` has an adapter called "default".
        folder: where to; an earlier file there is replaced.

    Returns:
        The written file.

    Raises:
        UserError: when the system refuses to write.
    """
    folder = Path(folder)
    temporary = folder / f".lora{TEMPORARY_SUFFIX}"
    target = folder / WEIGHTS_NAME
    with writing(target):
        folder.mkdir(parents=True, exist_ok=True)
        pipeline.save_lora_weights(
            temporary,
            transformer_lora_layers=adapter_state(pipeline.transformer),
            **_collate_lora_metadata({"transformer": pipeline.transformer}),
        )
        (temporary / WEIGHTS_NAME).replace(target)
        shutil.rmtree(temporary)
    return target


def adapter_state(transformer: torch.nn.Module) -> dict[str, Tensor]:
    """Return the adapter's weights by PEFT's names."""
    state: dict[str, Tensor] = get_peft_model_state_dict(transformer)
    return state
