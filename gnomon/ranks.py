"""Which rows a rank owns, and how all ranks come to know the values of all rows.

The index functions are pure. The gathers are the identity where torch.distributed does not run, so the code above
them is the same for one process and for many. Every gather is collective: all ranks have to call it, in one order.

Two ways of sharing out are in use. The samples of an iteration are cut into equal blocks (`rows_of_rank`,
`gather_rows`), for the batch arithmetic is the same on all ranks. Held-out cases are dealt like cards
(`items_of_rank`, `gather_items`), since their number is what the user's folder holds; a rank that comes out one short
does some other case again, for with sharded weights (ZeRO-3) a forward pass is collective too, and that repetition is
dropped when the values are gathered.
"""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed
from torch import Tensor

from gnomon.errors import UserError


def rank_and_world_size() -> tuple[int, int]:
    """Return this process's rank and the number of processes: (0, 1) where torch.distributed does not run."""
    if not _is_distributed():
        return 0, 1
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def rows_of_rank(num_rows: int, rank: int, world_size: int) -> range:
    """Return the block of rows that a rank owns; blocks are equal, and in the order of ranks they make up all rows.

    Raises:
        ValueError: when the ranks do not divide the rows, or there is no such rank.
    """
    _check_rank(rank, world_size)
    if num_rows < world_size or num_rows % world_size:
        raise ValueError(f"expected a number of rows that {world_size} ranks divide equally, got {num_rows}")
    size = num_rows // world_size
    return range(rank * size, (rank + 1) * size)


def items_of_rank(num_items: int, rank: int, world_size: int) -> list[int]:
    """Return the items that a rank looks at: every `world_size`-th, as many on each rank.

    Where items run out a rank gets one that another rank has too; `gather_items` drops that repetition.

    Returns:
        `ceil(num_items / world_size)` indices below `num_items`.

    Raises:
        ValueError: when there are no items, or no such rank.
    """
    _check_rank(rank, world_size)
    if num_items < 1:
        raise ValueError(f"expected at least one item, got {num_items}")
    return [(rank + turn * world_size) % num_items for turn in range(math.ceil(num_items / world_size))]


def gather_rows(values: Tensor) -> Tensor:
    """Put the rows of all ranks together in the order of ranks; a collective call.

    Args:
        values: `[rows of this rank, ...]`, with the same shape and dtype on each rank (`rows_of_rank`).

    Returns:
        `[rows of all ranks, ...]` on the device of `values`, without gradient; the same on each rank.
    """
    return _gather(values).flatten(0, 1)


def gather_items(values: Tensor, num_items: int) -> Tensor:
    """Put the values of dealt items back into their order, each once; a collective call.

    Args:
        values: `[len(items_of_rank(num_items, rank, world_size)), ...]`, in the order of that list.
        num_items: how many there are on all ranks together.

    Returns:
        `[num_items, ...]`, the same on each rank.

    Raises:
        ValueError: when a rank brings another number of values than it was dealt.
    """
    _, world_size = rank_and_world_size()
    if len(values) != math.ceil(num_items / world_size):
        raise ValueError(
            f"expected {math.ceil(num_items / world_size)} values on each of {world_size} ranks for {num_items} items, "
            f"got {len(values)}"
        )
    return _gather(values).transpose(0, 1).flatten(0, 1)[:num_items]


def gather_texts(texts: list[str]) -> list[str]:
    """Return the texts of all ranks in the order of ranks, any number from each; a collective call."""
    if not _is_distributed():
        return list(texts)
    parts: list[list[str] | None] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(parts, list(texts))
    return [text for part in parts if part is not None for text in part]


@contextmanager
def failing_together(*, exchange: bool = True) -> Iterator[None]:
    """Let what goes wrong on one rank inside the context end all of them with its words; a collective call.

    Otherwise the others would wait in their next exchange for a rank that is gone: at best until they notice, and then
    with a message about a connection, at worst until a timeout of half an hour.

    Args:
        exchange: False where the ranks meet inside the context already (sharded weights): a rank that fails between
            two of their exchanges is out of step, and one more would not be met.

    Raises:
        UserError: on the other ranks, of a rank that raised one.
        RuntimeError: on the other ranks, with the traceback, of a rank that raised anything else.
    """
    if not exchange or not _is_distributed():
        yield
        return
    raised: Exception | None = None
    try:
        yield
    except Exception as error:
        raised = error
    rank = torch.distributed.get_rank()
    everyone = gather_texts([] if raised is None else [json.dumps(_described(raised, rank))])
    if raised is not None:
        raise raised
    if everyone:
        is_for_users, text = json.loads(everyone[0])
        raise UserError(text) if is_for_users else RuntimeError(text)


def _described(error: Exception, rank: int) -> tuple[bool, str]:
    """Return whether an error's text is for users, and that text, or else the traceback."""
    if isinstance(error, UserError):
        return True, f"rank {rank}: {error}"
    return False, f"rank {rank} failed:\n{''.join(traceback.format_exception(error))}"


def _gather(values: Tensor) -> Tensor:
    """Return `[ranks, *values.shape]`."""
    values = values.detach().contiguous()
    if not _is_distributed():
        return values[None]
    # NCCL knows nothing of truth values.
    sent = values.to(torch.uint8) if values.dtype == torch.bool else values
    parts = [torch.empty_like(sent) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(parts, sent)
    return torch.stack(parts).to(values.dtype)


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _check_rank(rank: int, world_size: int) -> None:
    if not 0 <= rank < world_size:
        raise ValueError(f"expected a rank below world_size = {world_size}, got {rank}")
