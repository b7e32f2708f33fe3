"""Weights that DeepSpeed's ZeRO-3 cut up over the ranks: how to see them whole, and how to call the model in step.

With ZeRO-3 a rank holds a slice of each weight, and a forward pass gathers them layer by layer: it is a collective
call. So is everything here. Without ZeRO-3 these functions do nothing, and DeepSpeed is not imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed
from torch import Tensor


def is_sharded(parameters: Iterable[Tensor]) -> bool:
    """Say whether ZeRO-3 holds these weights in slices."""
    return any(hasattr(parameter, "ds_id") for parameter in parameters)


def gathered(parameters: Iterable[Tensor], *, write: bool = False) -> AbstractContextManager[None]:
    """Make sharded weights whole within a context; a collective call.

    Args:
        parameters: the weights; others than sharded ones are left as they are.
        write: whether they are changed in the context. All ranks must then write the same; rank zero's is kept.
    """
    sharded = [parameter for parameter in parameters if is_sharded([parameter])]
    if not sharded:
        return nullcontext()
    import deepspeed

    context: AbstractContextManager[None] = deepspeed.zero.GatheredParameters(
        sharded, modifier_rank=0 if write else None
    )
    return context


def deepspeed_gradient_norm(model: object) -> float | None:
    """Return the norm of the gradient before clipping at a DeepSpeed engine's last optimizer step.

    Args:
        model: what a strategy has made of the module; None is returned for anything but a DeepSpeed engine.
    """
    norm = getattr(model, "get_global_grad_norm", lambda: None)()
    return None if norm is None else float(norm)


@contextmanager
def in_step(model: torch.nn.Module) -> Iterator[None]:
    """Let all ranks call a sharded model equally often, whatever each of them has to do; without gradients only.

    Ranks sample rows of different form (one reference or three), so one needs more forward passes than another, and
    with sharded weights the rank that has more of them would wait for the others for ever. Inside this context each
    call is announced; a rank that leaves the context early repeats its last call until all are through. What the
    repetitions return is dropped. Contexts may be nested: the outer one counts.

    Args:
        model: the one that is called. A model that is not sharded is left alone, at no cost.

    Raises:
        RuntimeError: when other ranks call the model and this one never did, so that it has nothing to repeat.
    """
    if not is_sharded(model.parameters()) or getattr(model, "_called_in_step", False):
        yield
        return
    device = next(model.parameters()).device
    last: list[tuple[Any, Any]] = []

    def announce(_: torch.nn.Module, args: Any, kwargs: Any) -> None:
        _num_calling(1, device)
        last[:] = [(args, kwargs)]

    hook = model.register_forward_pre_hook(announce, with_kwargs=True, prepend=True)
    setattr(model, "_called_in_step", True)  # noqa: B010
    try:
        yield
    finally:
        hook.remove()
        delattr(model, "_called_in_step")
    while _num_calling(0, device):
        if not last:
            raise RuntimeError("other ranks call the model, but this one has nothing to do: give each rank some rows")
        with torch.no_grad():
            model(*last[0][0], **last[0][1])


def _num_calling(mine: int, device: torch.device) -> int:
    count = torch.tensor(mine, device=device)
    torch.distributed.all_reduce(count)
    return int(count)
