"""Heads work in float32 over any precision, say their doubt within bounds, and tell candidates apart."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from rm.heads import LOG_SIGMA_RANGE, ScoreHead


def _hidden(rows: int = 64, width: int = 32, seed: int = 0) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


def _tie_rate(scores: Tensor) -> float:
    """Return the share of all pairs of rows whose scores are equal."""
    first, second = torch.triu_indices(len(scores), len(scores), offset=1)
    return float((scores[first] == scores[second]).float().mean())


def test_a_head_is_the_linear_layer_of_its_weights() -> None:
    head, hidden = ScoreHead(32, 3), _hidden()
    mean, log_sigma = head(hidden)
    assert log_sigma is None
    torch.testing.assert_close(mean, hidden @ head.weight.T + head.bias)


def test_sixteen_bit_states_give_float32_scores_without_ties_where_a_sixteen_bit_head_ties() -> None:
    head = ScoreHead(32, 1)
    # Candidates of one source: nearly the same state, apart by less than the scores' own bfloat16 steps.
    hidden = (_hidden(1) * 8 + 0.02 * _hidden(64, seed=1)).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = head(hidden).mean[:, 0]
    assert scores.dtype == torch.float32
    rounded = torch.nn.functional.linear(hidden, head.weight.bfloat16(), head.bias.bfloat16())[:, 0]
    assert _tie_rate(rounded) > 0.05
    assert _tie_rate(scores) < _tie_rate(rounded) / 10


def test_the_last_rows_are_the_doubt_and_stay_within_bounds() -> None:
    head = ScoreHead(32, 2, uncertainty=True)
    assert head(_hidden()).log_sigma.abs().max() == 0  # a first sigma of 1 everywhere
    head.bias.data[2:] = torch.tensor([-99.0, 99.0])
    mean, log_sigma = head(_hidden())
    assert mean.shape == log_sigma.shape == (64, 2)
    assert log_sigma[:, 0].eq(LOG_SIGMA_RANGE[0]).all()
    assert log_sigma[:, 1].eq(LOG_SIGMA_RANGE[1]).all()


def test_a_state_that_is_no_number_makes_no_number_of_its_own_row_alone() -> None:
    head, hidden = ScoreHead(32, 2), _hidden(3)
    hidden[1, 0] = math.nan
    assert head(hidden).mean.isnan().all(dim=1).tolist() == [False, True, False]


def test_names_in_files_are_those_of_a_linear_layer_and_the_draw_too() -> None:
    """Saved heads of earlier versions load, and the same seed draws the same head."""
    torch.manual_seed(7)
    head = ScoreHead(8, 4)
    torch.manual_seed(7)
    layer = torch.nn.Linear(8, 4)
    torch.nn.init.normal_(layer.weight, std=8**-0.5)
    assert list(head.state_dict()) == list(layer.state_dict())
    assert torch.equal(head.weight, layer.weight)
    assert repr(head) == "ScoreHead(dimensions=4, width=8, uncertainty=False)"


def test_every_row_gets_a_gradient() -> None:
    head = ScoreHead(8, 2, uncertainty=True)
    mean, log_sigma = head(_hidden(5, 8))
    (mean.square().sum() + (log_sigma - 1).square().sum()).backward()
    assert head.weight.grad is not None
    assert (head.weight.grad.abs().sum(dim=1) > 0).all()
    with pytest.raises(RuntimeError):
        head(_hidden(5, 9))
