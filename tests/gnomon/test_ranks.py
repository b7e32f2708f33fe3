"""Which rows and items a rank gets, and that gathers of one process return what they get."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnomon.ranks import gather_items, gather_rows, gather_texts, items_of_rank, rank_and_world_size, rows_of_rank
from gnomon.sharding import gathered, in_step


@given(st.integers(1, 20), st.integers(1, 7))
def test_blocks_of_rows_are_equal_and_make_up_all_rows(size: int, world_size: int) -> None:
    blocks = [rows_of_rank(size * world_size, rank, world_size) for rank in range(world_size)]
    assert [row for block in blocks for row in block] == list(range(size * world_size))
    assert {len(block) for block in blocks} == {size}


@given(st.integers(1, 30), st.integers(1, 7))
def test_each_item_is_dealt_and_ranks_get_equally_many(num_items: int, world_size: int) -> None:
    hands = [items_of_rank(num_items, rank, world_size) for rank in range(world_size)]
    assert len({len(hand) for hand in hands}) == 1
    in_order = [item for turn in zip(*hands, strict=True) for item in turn]
    assert in_order[:num_items] == list(range(num_items))
    assert len(in_order) - num_items < world_size


def test_rows_that_ranks_do_not_divide_and_ranks_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="3 ranks divide equally, got 10"):
        rows_of_rank(10, 0, 3)
    with pytest.raises(ValueError, match="divide equally, got 0"):
        rows_of_rank(0, 0, 3)
    with pytest.raises(ValueError, match="below world_size = 2, got 2"):
        items_of_rank(4, 2, 2)
    with pytest.raises(ValueError, match="at least one item"):
        items_of_rank(0, 0, 1)


def test_with_one_process_gathers_return_what_they_get() -> None:
    values = torch.arange(6.0, dtype=torch.float64, requires_grad=True).reshape(3, 2)
    assert rank_and_world_size() == (0, 1)
    assert torch.equal(gather_rows(values), values)
    assert not gather_rows(values).requires_grad
    assert torch.equal(gather_items(values, 3), values)
    with pytest.raises(ValueError, match="expected 4 values on each of 1 ranks for 4 items, got 3"):
        gather_items(values, 4)
    assert gather_texts(["a"]) == ["a"]
    layer = torch.nn.Linear(2, 2)
    with gathered(layer.parameters(), write=True), in_step(layer):
        assert layer(torch.ones(1, 2)).shape == (1, 2)
