"""LoRA adapters: added for training, written in diffusers' format with their settings, and proven to load.

A LoRA file without its settings loads with `alpha = rank` and so with another strength, and one whose names fit nothing
loads as nothing; both without an error. So the settings are always written, and what counts as proof is the output of
the stock pipeline, not the file.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from diffusers.training_utils import _collate_lora_metadata
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from torch import Tensor

from gnomon.errors import UserError
from gnomon.files import TEMPORARY_SUFFIX, writing
from gnomon.hashing import stable_seed
from gnomon.hub import cached_file

WEIGHTS_NAME = "pytorch_lora_weights.safetensors"
_WEIGHT_SUFFIXES = (".safetensors", ".bin")


# What these blocks compute for the text leads on to the next block, and out of the last one nowhere.
_UNUSED_IN_LAST_BLOCK = {
    "QwenImageTransformerBlock": ("attn.add_q_proj", "attn.to_add_out", "txt_mlp"),
    "JointTransformerBlock": ("attn.add_q_proj",),
}


def block_linears(transformer: torch.nn.Module) -> list[str]:
    """Name all linear layers inside the repeated blocks: attention and feed-forward, no embeddings, no output layer."""
    return [name for _, names in _linears_by_block(transformer) for name in names]


def unused_linears(transformer: torch.nn.Module) -> set[str]:
    """Name the linear layers that have no path to the velocity.

    An adapter there would never have a gradient, for which a strategy of several ranks waits in vain.
    """
    unused = set()
    for kind, endings in _UNUSED_IN_LAST_BLOCK.items():
        blocks = [names for name, names in _linears_by_block(transformer) if name == kind]
        unused |= {name for name in (blocks[-1] if blocks else ()) if any(f".{ending}" in name for ending in endings)}
    return unused


def _linears_by_block(transformer: torch.nn.Module) -> list[tuple[str, list[str]]]:
    """Return class and names of linear layers of each repeated block, in order."""
    kinds = getattr(transformer, "_repeated_blocks", None) or getattr(transformer, "_no_split_modules", None) or ()
    return [
        (
            type(block).__name__,
            [f"{prefix}.{name}" for name, layer in block.named_modules() if isinstance(layer, torch.nn.Linear)],
        )
        for prefix, block in transformer.named_modules()
        if type(block).__name__ in kinds
    ]


def add_lora(
    transformer: Any,
    *,
    rank: int,
    alpha: int,
    targets: Sequence[str] | None = None,
    init: Literal["kaiming", "gaussian"] = "kaiming",
    seed: int = 0,
) -> list[str]:
    """Put a trainable adapter on a diffusers transformer, in float32; everything else is frozen.

    The adapter changes nothing at first (B is 0); A is drawn from `seed`, not from torch's global generator.

    Args:
        transformer: a diffusers model that takes adapters.
        rank: of the update.
        alpha: the update is scaled by `alpha / rank`.
        targets: names or name endings of the layers, as PEFT reads them; default `block_linears`. Of both,
            `unused_linears` are left out.
        init: how A is drawn: uniformly as PEFT does ("kaiming"), or normally with standard deviation 1 / rank.
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
    wanted = ", ".join(chosen)
    if unused := unused_linears(transformer):
        used = [name for name in linears if name not in unused]
        chosen = [name for name in used if any(name == one or name.endswith(f".{one}") for one in chosen)]
    if lost or not chosen:
        endings = sorted({re.sub(r"^.*\.\d+\.", "", name) for name in linears})
        used_by_nothing = f"none of {wanted or 'the layers of its blocks'} has a path to the velocity"
        why = f"{', '.join(lost)} matches nothing" if lost else used_by_nothing
        raise UserError(
            f"expected LoRA targets (model.lora.targets) that are linear layers of {type(transformer).__name__}; "
            f"{why}. There are: {', '.join(endings)}"
        )
    transformer.requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        # That of the CPU alone, where PEFT draws: `torch.manual_seed` would set those of all accelerators too.
        torch.default_generator.manual_seed(stable_seed(seed, "lora") % 2**32)
        drawn: Any = True if init == "kaiming" else init
        transformer.add_adapter(LoraConfig(r=rank, lora_alpha=alpha, target_modules=chosen, init_lora_weights=drawn))
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
    settings = _collate_lora_metadata({"transformer": pipeline.transformer})
    for about in settings.values():
        # A set: in another order in every process, and so in the file of the same weights.
        about["target_modules"] = sorted(about["target_modules"])
    with writing(target):
        folder.mkdir(parents=True, exist_ok=True)
        pipeline.save_lora_weights(
            temporary,
            transformer_lora_layers=adapter_state(pipeline.transformer),
            **settings,
        )
        _sort_metadata(temporary / WEIGHTS_NAME)
        (temporary / WEIGHTS_NAME).replace(target)
        shutil.rmtree(temporary)
    return target


def _sort_metadata(file: Path) -> None:
    """Put the metadata of a safetensors file in order: its writer hashes the names anew in every process.

    The file begins with the length of a JSON header, 8 bytes little-endian; spaces may follow the header.
    """
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])


def find_lora(lora: str) -> str:
    """Return where to load a LoRA from: a folder or file as it is, a name on the hub too, or its copy in the cache.

    Raises:
        UserError: when it is nowhere, or the folder holds no weights.
    """
    path = Path(lora)
    if not path.exists():
        if path.suffix in _WEIGHT_SUFFIXES:
            raise UserError(f"expected a LoRA at {lora}, there is no such file")
        return str(cached_file("folder or file with a LoRA", lora, [WEIGHTS_NAME]) or lora)
    if path.is_dir() and not any(file.suffix in _WEIGHT_SUFFIXES for file in path.iterdir()):
        raise UserError(
            f"expected a LoRA with {WEIGHTS_NAME} in {lora}, the folder holds no weights; `gnomon rl export RUN OUT` "
            "writes that of a training"
        )
    return lora


def check_lora_fits(pipeline: Any, lora: str) -> None:
    """Compare a LoRA with what a pipeline has made of it after `load_lora_weights`.

    Weights whose names fit nothing are left out there with no more than a line in the log; a layer of which only one
    factor fits keeps the other one without numbers, on the "meta" device.

    Raises:
        UserError: when not every weight found its place, or some are missing.
    """
    given = [name for name in pipeline.lora_state_dict(lora) if "lora" in name and not name.endswith("alpha")]
    models = (part for part in pipeline.components.values() if isinstance(part, torch.nn.Module))
    latest = list(getattr(pipeline.transformer, "peft_config", None) or [None])[-1]
    bound = [weight for model in models for name, weight in model.named_parameters() if latest in name.split(".")]
    missing = sum(weight.is_meta for weight in bound)
    if bound and len(bound) == len(given) and not missing:
        return
    what = f"only {len(bound)} of its {len(given)} weights fit" if bound else "none of its weights fit"
    raise UserError(
        f"expected a LoRA in diffusers' format at {lora}, but {f'{missing} weights are missing' if missing else what} "
        f"for {type(pipeline).__name__}; export it with `gnomon rl export`"
    )


def adapter_state(transformer: torch.nn.Module) -> dict[str, Tensor]:
    """Return the adapter's weights by PEFT's names."""
    state: dict[str, Tensor] = get_peft_model_state_dict(transformer)
    return state


def adapter_hash(transformer: torch.nn.Module) -> str:
    """Hash the weights of all adapters and their settings, wherever they were loaded from."""
    digest = hashlib.sha256()
    for name, config in sorted(getattr(transformer, "peft_config", {}).items()):
        digest.update(f"{name}:{config.r}:{config.lora_alpha};".encode())
    for name, value in sorted(transformer.named_parameters()):
        if "lora_" in name:
            digest.update(f"{name}:{list(value.shape)};".encode())
            digest.update(value.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
