"""Losses equal closed forms by hand, by scipy and in trl's form, and never see what is masked."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from torch import Tensor

from rm.losses import (
    LossOutput,
    TieWidth,
    bradley_terry,
    listwise,
    masked_mean,
    rao_kupper,
    rao_kupper_log_probabilities,
    regression,
)

NAN = math.nan


def _scores(seed: int = 0, rows: int = 6, columns: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    first, second = torch.randn(2, rows, columns, generator=generator, dtype=torch.float64)
    return first.requires_grad_(), second.requires_grad_()


def test_bradley_terry_is_the_formula_of_trl() -> None:
    """trl's RewardTrainer: -logsigmoid(chosen - rejected - margin).mean() + c * mean((chosen + rejected) ** 2)."""
    first, second = _scores()
    labels = torch.tensor([[1.0, -1.0, 1.0]] * 3 + [[-1.0, -1.0, 1.0]] * 3, dtype=torch.float64)
    margins = torch.rand(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    chosen = torch.where(labels > 0, first, second)
    rejected = torch.where(labels > 0, second, first)
    expected = -torch.nn.functional.logsigmoid(chosen - rejected - margins).mean()
    expected = expected + 0.01 * torch.mean((chosen + rejected) ** 2)
    output = bradley_terry(first, second, labels, margins=margins, centring=0.01)
    torch.testing.assert_close(output.loss, expected)
    assert output.metrics["accuracy"].item() == pytest.approx((chosen > rejected).double().mean().item())
    assert output.metrics["margin"].item() == pytest.approx((chosen - rejected).mean().item())


def test_only_decided_entries_count_in_bradley_terry() -> None:
    first = torch.tensor([[2.0, 0.0], [1.0, 5.0]])
    second = torch.tensor([[0.0, 9.0], [3.0, 1.0]])
    labels = torch.tensor([[1.0, 0.0], [-1.0, NAN]])
    expected = -math.log(expit(2.0))  # both decided pairs are 2 apart
    assert bradley_terry(first, second, labels).loss.item() == pytest.approx(expected, rel=1e-6)
    masked = bradley_terry(first, second, labels, mask=torch.tensor([[True, True], [False, True]]))
    assert masked.loss.item() == pytest.approx(expected, rel=1e-6)


def test_a_missing_margin_is_no_margin() -> None:
    first, second = _scores()
    labels = torch.ones(6, 3, dtype=torch.float64)
    without = bradley_terry(first, second, labels).loss
    assert torch.equal(bradley_terry(first, second, labels, margins=torch.full((6, 3), NAN)).loss, without)


@pytest.mark.parametrize("k", [1.5, 3.0, 5.0])
def test_rao_kupper_probabilities_add_up_to_one_and_are_those_of_1967(k: float) -> None:
    difference = torch.linspace(-8, 8, 41, dtype=torch.float64)
    first, second, tie = (value.exp().numpy() for value in rao_kupper_log_probabilities(difference, k))
    np.testing.assert_allclose(first + second + tie, 1.0, rtol=1e-12)
    # In Rao and Kupper's own terms: pi_i = exp(score), P(i) = pi_i / (pi_i + k pi_j).
    worth = np.exp(difference.numpy())
    np.testing.assert_allclose(first, worth / (worth + k), rtol=1e-12)
    np.testing.assert_allclose(second, 1 / (1 + k * worth), rtol=1e-12)
    np.testing.assert_allclose(tie[20], (k - 1) / (k + 1), rtol=1e-12)


def test_rao_kupper_reads_wins_of_both_sides_and_ties() -> None:
    first = torch.tensor([[1.0], [1.0], [1.0], [7.0]])
    second = torch.tensor([[0.0], [0.0], [0.0], [0.0]])
    labels = torch.tensor([[1.0], [-1.0], [0.0], [NAN]])
    k = 5.0
    win, lose = expit(1 - math.log(k)), expit(-1 - math.log(k))
    expected = -(math.log(win) + math.log(lose) + math.log(1 - win - lose)) / 3
    output = rao_kupper(first, second, labels, k=k)
    assert output.loss.item() == pytest.approx(expected, rel=1e-6)
    assert output.metrics["accuracy"].item() == pytest.approx(0.5)


def test_a_tie_pulls_scores_together_and_a_win_pushes_them_apart() -> None:
    for label, sign in ((0.0, 1), (1.0, -1)):
        first = torch.tensor([[0.5]], requires_grad=True)
        rao_kupper(first, torch.zeros(1, 1), torch.tensor([[label]])).loss.backward()
        assert first.grad is not None
        assert math.copysign(1, first.grad.item()) == sign


def test_regression_is_the_mean_squared_error_over_what_is_known() -> None:
    scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    targets = torch.tensor([[0.0, NAN], [5.0, NAN]])
    assert regression(scores, targets).loss.item() == pytest.approx((1 + 4) / 2)
    mask = torch.tensor([[True, True], [False, True]])
    assert regression(scores, targets, mask=mask).loss.item() == pytest.approx(1.0)


def _losses(labels: Tensor) -> list[Callable[[Tensor, Tensor], LossOutput]]:
    return [
        lambda first, second: bradley_terry(first, second, labels, margins=labels.abs(), centring=0.1),
        lambda first, second: rao_kupper(first, second, labels),
        lambda first, second: regression(first + second, labels),
    ]


def test_nothing_valid_is_a_loss_of_zero_with_a_gradient_of_zero() -> None:
    for loss in _losses(torch.full((6, 3), NAN, dtype=torch.float64)):
        first, second = _scores()
        output = loss(first, second)
        output.loss.backward()
        assert output.loss.item() == 0
        assert first.grad is not None
        assert not first.grad.any()
        assert all(math.isfinite(value) for value in output.metrics.values())


@pytest.mark.parametrize("value", [NAN, math.inf, -math.inf])
def test_what_is_not_labelled_can_be_anything(value: float) -> None:
    for loss in _losses(torch.tensor([[1.0, NAN]])):
        first = torch.tensor([[1.0, value]], requires_grad=True)
        output = loss(first, torch.zeros(1, 2))
        output.loss.backward()
        assert math.isfinite(output.loss.item())
        assert first.grad is not None
        assert math.isfinite(first.grad[0, 0].item())
        assert first.grad[0, 1].item() == 0


@pytest.mark.parametrize("value", [NAN, math.inf, -math.inf])
def test_a_masked_entry_can_hold_anything(value: float) -> None:
    targets = torch.tensor([[0.5, value]])
    scores = torch.tensor([[1.0, 2.0]], requires_grad=True)
    regression(scores, targets, mask=torch.tensor([[True, False]])).loss.backward()
    assert scores.grad is not None
    assert scores.grad.tolist() == [[1.0, 0.0]]
    assert masked_mean(torch.tensor([1.0, value]), torch.tensor([True, False])).item() == 1


@given(seed=st.integers(0, 1000), k=st.floats(1.1, 20))
def test_swapping_sides_and_labels_changes_nothing(seed: int, k: float) -> None:
    first, second = _scores(seed)
    choice = torch.tensor([-1.0, 0.0, 1.0, NAN], dtype=torch.float64)
    labels = choice[torch.randint(4, (6, 3), generator=torch.Generator().manual_seed(seed))]
    for loss in (partial(bradley_terry, centring=0.1), partial(rao_kupper, k=k)):
        there, back = loss(first, second, labels), loss(second, first, -labels)
        torch.testing.assert_close(there.loss, back.loss, rtol=1e-12, atol=1e-12)


def test_wrong_shapes_and_constants_are_refused() -> None:
    ones = torch.ones(2, 3)
    with pytest.raises(ValueError, match=r"\(2, 3\), \(2, 3\), \(2,\)"):
        bradley_terry(ones, ones, torch.ones(2))
    with pytest.raises(ValueError, match="k > 1"):
        rao_kupper(ones, ones, ones, k=1.0)
    with pytest.raises(ValueError, match="one shape"):
        regression(ones, torch.ones(3, 2))


def _plackett_luce(scores: list[float]) -> float:
    """Return -log P(this order), best first, by Plackett's product of choices."""
    chosen = [math.exp(scores[i]) / sum(math.exp(s) for s in scores[i:]) for i in range(len(scores) - 1)]
    return -sum(math.log(p) for p in chosen)


def _every_pair(ranking: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return all pairs of a ranking (rows, best first), the lower row first."""
    place = {row: position for position, row in enumerate(ranking)}
    pairs = [(i, j) for i in range(len(ranking)) for j in range(i + 1, len(ranking))]
    labels = [1.0 if place[i] < place[j] else -1.0 for i, j in pairs]
    return torch.tensor([i for i, _ in pairs]), torch.tensor([j for _, j in pairs]), torch.tensor(labels)[:, None]


@given(st.permutations(range(5)), st.lists(st.floats(-3, 3), min_size=5, max_size=5))
def test_listwise_on_a_whole_ranking_is_plackett_luce(ranking: list[int], values: list[float]) -> None:
    scores = torch.tensor(values, dtype=torch.float64)[:, None]
    output = listwise(scores, *_every_pair(ranking))
    assert output.loss.item() * 4 == pytest.approx(_plackett_luce([values[row] for row in ranking]), rel=1e-9)


def test_listwise_on_one_best_is_cross_entropy_and_on_pairs_bradley_terry() -> None:
    scores = torch.randn(4, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    best = listwise(scores, torch.tensor([2, 2, 1]), torch.tensor([0, 3, 2]), torch.tensor([[1.0], [1.0], [-1.0]]))
    expected = torch.nn.functional.cross_entropy(scores.T, torch.tensor([2]))
    torch.testing.assert_close(best.loss, expected)
    first, second, labels = torch.tensor([0, 2]), torch.tensor([1, 3]), torch.tensor([[1.0], [-1.0]])
    pairs = listwise(scores, first, second, labels)
    plain = bradley_terry(scores[first], scores[second], labels.double())
    torch.testing.assert_close(pairs.loss, plain.loss)
    torch.testing.assert_close(pairs.metrics["accuracy"], plain.metrics["accuracy"])


def test_listwise_keeps_dimensions_and_comparisons_apart() -> None:
    """Rows 0..2 are one comparison, 3..4 another; the second dimension says nothing about the first comparison."""
    scores = torch.tensor([[0.3, NAN], [1.0, 2.0], [-0.5, 5.0], [0.0, 1.0], [2.0, 0.5]], requires_grad=True)
    first, second = torch.tensor([0, 1, 0, 3]), torch.tensor([1, 2, 2, 4])
    labels = torch.tensor([[1.0, NAN], [1.0, 0.0], [1.0, NAN], [-1.0, 1.0]])
    output = listwise(scores, first, second, labels)
    ranking = _plackett_luce([0.3, 1.0, -0.5])
    expected = (ranking - math.log(expit(2.0)) - math.log(expit(0.5))) / 4
    assert output.loss.item() == pytest.approx(expected, rel=1e-5)
    output.loss.backward()
    assert scores.grad is not None
    assert not scores.grad.isnan().any()
    assert (scores.grad[:3, 1] == 0).all()


def test_listwise_without_a_decided_pair_is_zero() -> None:
    scores = torch.zeros(2, 1, requires_grad=True)
    output = listwise(scores, torch.tensor([0]), torch.tensor([1]), torch.tensor([[0.0]]))
    output.loss.backward()
    assert output.loss.item() == 0
    assert scores.grad is not None
    assert not scores.grad.any()


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_a_learnt_tie_width_finds_the_tie_rate_of_equal_candidates(share: float) -> None:
    """At a difference of 0 the likelihood is largest where (k - 1) / (k + 1) is the share of ties."""
    width = TieWidth(2, start=3.0)
    ties = int(share * 100)
    labels = torch.tensor([0.0] * ties + [1.0, -1.0] * ((100 - ties) // 2))[:, None].expand(100, 2)
    zeros = torch.zeros(100, 2)
    optimizer = torch.optim.Adam(width.parameters(), lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        rao_kupper(zeros, zeros, labels, k=width()).loss.backward()
        optimizer.step()
    k = width().detach()
    torch.testing.assert_close((k - 1) / (k + 1), torch.full((2,), share), atol=2e-3, rtol=0)
