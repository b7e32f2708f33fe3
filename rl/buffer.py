"""The micro-batches of the current iteration, which Lightning's train loop consumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.utils.data import Dataset


class RolloutBuffer(Dataset[Any]):
    """Holds this rank's micro-batches of one iteration; its length is the same in every iteration and on every rank.

    What a micro-batch is, is the algorithm's affair.
    """

    def __init__(self, length: int) -> None:
        """Make an empty buffer for `length` micro-batches; Lightning asks for the length before it is filled."""
        self._length = length
        self._micro_batches: tuple[Any, ...] = ()

    def fill(self, micro_batches: Sequence[Any]) -> None:
        """Replace the content.

        Raises:
            ValueError: when the number of micro-batches is not the declared one.
        """
        if len(micro_batches) != self._length:
            raise ValueError(f"expected {self._length} micro-batches, got {len(micro_batches)}")
        self._micro_batches = tuple(micro_batches)

    def clear(self) -> None:
        """Let go of the samples."""
        self._micro_batches = ()

    def __len__(self) -> int:
        """Return the number of micro-batches of an iteration."""
        return self._length

    def __getitem__(self, index: int) -> Any:
        """Return one micro-batch of the current iteration."""
        return self._micro_batches[index]
