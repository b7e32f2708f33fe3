"""Weights of networks that are written here, from files of others: never by pickle, and no layer without its own."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from gnomon.errors import UserError


def read_state(path: str | Path) -> dict[str, Tensor]:
    """Return the tensors of a file, safetensors or what `torch.save` wrote of a state dict.

    Raises:
        UserError: when there is no such file, or it holds anything but tensors by name.
    """
    try:
        if Path(path).suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise UserError(f"expected weights (safetensors, or a state dict) at {path}: {error}") from error
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise UserError(f"expected tensors by name in {path}, got {type(state).__name__}; save the state dict alone")
    return state


def load_weights(module: nn.Module, state: Mapping[str, Tensor], source: str | Path) -> None:
    """Put weights into a module, which is then ready to be used, not trained.

    Raises:
        UserError: names the layers that are missing, too many or of another shape.
    """
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise UserError(f"expected the weights of {type(module).__name__} in {source}: {str(error)[:600]}") from error
    module.eval().requires_grad_(False)
