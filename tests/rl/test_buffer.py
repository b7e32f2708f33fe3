"""The buffer of an iteration."""

from __future__ import annotations

from typing import Any

import pytest
from torch.utils.data import DataLoader

from rl.buffer import RolloutBuffer


def test_the_buffer_serves_what_it_was_filled_with_in_order() -> None:
    buffer = RolloutBuffer(3)
    items: list[Any] = [object(), object(), object()]
    loader = DataLoader(buffer, batch_size=None)
    assert len(loader) == 3
    buffer.fill(items)
    assert list(loader) == items


def test_another_number_of_micro_batches_than_declared_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 3 micro-batches, got 0"):
        RolloutBuffer(3).fill([])
