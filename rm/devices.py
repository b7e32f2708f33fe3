"""Where a judge runs: "cuda" means the device of this rank, not the first one of the machine."""

from __future__ import annotations

import os
from functools import cache

import torch

from gnomon.errors import UserError


def check_device(name: str) -> torch.device:
    """Return the device that a setting names.

    Raises:
        UserError: when there is no such kind of device, or this machine does not have it.
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"expected a device such as cpu, cuda or cuda:1, got {name!r}") from error
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count <= (device.index or 0):
            raise UserError(f"expected a device that this machine has, got {name!r}; there are {count} CUDA devices")
    return device


def own_device(device: torch.device) -> torch.device:
    """Return the device that this process uses: `cuda` without a number becomes its own one.

    To be called when there is something to compute. Objects of a config are made before a trainer has given the process
    its device, and each rank would find the first one then.
    """
    if device.type != "cuda" or device.index is not None:
        return device
    return torch.device("cuda", _own_index())


@cache  # a thread of its own, or one that follows, may have another current device
def _own_index() -> int:
    """Return the number of the current device, or where nobody uses CUDA yet (ranks on CPUs) that of the local rank."""
    if torch.cuda.is_initialized():
        return torch.cuda.current_device()
    return int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
