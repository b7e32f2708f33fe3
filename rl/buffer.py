"""The samples of the current iteration, cut into micro-batches that Lightning's train loop consumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.utils.data import Dataset

from rl.rollouts import Transitions


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """One forward and backward pass: a step of some samples with what is needed to judge it.

    `old_log_prob` float32, `advantages` float32 and `mask` (False: the reward failed) are `[batch]`.
    """

    transitions: Transitions
    old_log_prob: Tensor
    advantages: Tensor
    mask: Tensor


class RolloutBuffer(Dataset[MicroBatch]):
    """Holds the micro-batches of one iteration; its length is the same in every iteration."""

    def __init__(self, length: int) -> None:
        """Make an empty buffer for `length` micro-batches; Lightning asks for the length before it is filled."""
        self._length = length
        self._micro_batches: tuple[MicroBatch, ...] = ()

    def fill(self, micro_batches: Sequence[MicroBatch]) -> None:
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

    def __getitem__(self, index: int) -> MicroBatch:
        """Return one micro-batch of the current iteration."""
        return self._micro_batches[index]
