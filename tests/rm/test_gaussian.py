"""Gaussian rewards against scipy's adaptive quadrature, and what each of the two forms makes of doubt."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit, log_expit
from scipy.stats import norm
from torch import Tensor

from rm.gaussian import gaussian_preference, preference_log_odds
from rm.losses import bradley_terry, rao_kupper

NAN = math.nan


def _expectation(mean: float, sigma: float, function: Callable[[float], float]) -> float:
    points = [-mean / sigma] if abs(mean / sigma) < 12 else None
    value, _ = quad(lambda e: norm.pdf(e) * function(mean + sigma * e), -12, 12, points=points, limit=500, epsabs=1e-13)
    return float(value)


def _loss(mean: float, sigma: float, label: float, form: str, k: float | None = None) -> float:
    """Return the loss of one pair whose difference has mean `mean` and standard deviation `sigma`."""
    entry = torch.full((1, 1), math.log(sigma / math.sqrt(2)), dtype=torch.float64)
    first, second = torch.full((1, 1), mean, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    label_entry = torch.full((1, 1), label, dtype=torch.float64)
    return gaussian_preference(first, second, entry, entry, label_entry, form=form, k=k).loss.item()  # type: ignore[arg-type]


@pytest.mark.parametrize("sigma", [0.01, 0.5, 2**0.5, 3.0, 10.0, 20.0])
@pytest.mark.parametrize("mean", [-4.0, -1.0, 0.0, 2.0])
def test_both_forms_equal_adaptive_quadrature(mean: float, sigma: float) -> None:
    marginal = -math.log(_expectation(mean, sigma, expit))
    assert _loss(mean, sigma, 1.0, "marginal") == pytest.approx(marginal, abs=2e-6)
    assert _loss(mean, sigma, -1.0, "marginal") == pytest.approx(-math.log(_expectation(-mean, sigma, expit)), abs=2e-6)
    hpsv3 = _expectation(mean, sigma, lambda z: -log_expit(z))
    assert _loss(mean, sigma, 1.0, "hpsv3") == pytest.approx(hpsv3, abs=2e-6)


@pytest.mark.parametrize(
    ("mean", "hpsv3", "marginal"),
    [(2.0, (0.127, 0.241, 0.618), (0.127, 0.203, 0.332)), (-2.0, (2.127, 2.241, 2.618), (2.127, 1.693, 1.264))],
)
def test_the_figures_that_tell_the_forms_apart(
    mean: float, hpsv3: tuple[float, ...], marginal: tuple[float, ...]
) -> None:
    """On the wrong side a larger variance helps the likelihood, and E[-log sigma] punishes it all the same."""
    for sigma, expected_hpsv3, expected_marginal in zip((0.01, 2**0.5, 3.0), hpsv3, marginal, strict=True):
        assert _loss(mean, sigma, 1.0, "hpsv3") == pytest.approx(expected_hpsv3, abs=6e-4)
        assert _loss(mean, sigma, 1.0, "marginal") == pytest.approx(expected_marginal, abs=6e-4)


@pytest.mark.parametrize("k", [1.5, 5.0])
@pytest.mark.parametrize("sigma", [0.5, 3.0])
def test_probabilities_of_wins_and_ties_add_up_to_one(k: float, sigma: float) -> None:
    losses = [_loss(0.7, sigma, label, "marginal", k) for label in (1.0, -1.0, 0.0)]
    assert sum(math.exp(-loss) for loss in losses) == pytest.approx(1.0, abs=1e-6)
    tie = _expectation(0.7, sigma, lambda z: 1 - expit(z - math.log(k)) - expit(-z - math.log(k)))
    assert math.exp(-losses[2]) == pytest.approx(tie, abs=1e-6)


def test_without_variance_both_are_the_plain_losses() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    sure = torch.full((5, 3), -20.0, dtype=torch.float64)
    labels = torch.tensor([1.0, -1.0, 0.0, NAN, 1.0], dtype=torch.float64)[:, None].expand(5, 3)
    plain, ties = bradley_terry(first, second, labels), rao_kupper(first, second, labels, k=3.0)
    for form in ("marginal", "hpsv3"):
        ours = gaussian_preference(first, second, sure, sure, labels, form=form)
        torch.testing.assert_close(ours.loss, plain.loss)
        torch.testing.assert_close(ours.metrics["accuracy"], plain.metrics["accuracy"])
        tied = gaussian_preference(first, second, sure, sure, labels, form=form, k=3.0)
        torch.testing.assert_close(tied.loss, ties.loss)


def _fitted_log_sigma(form: str, labels: list[float], mean: float = 1.0) -> Tensor:
    """Return log sigma after descending the loss of pairs whose mean difference stays as it is."""
    log_sigma = torch.zeros(len(labels), 1, requires_grad=True)
    optimizer = torch.optim.Adam([log_sigma], lr=0.05)
    target = torch.tensor(labels)[:, None]
    first, second = torch.full_like(target, mean), torch.zeros_like(target)
    for _ in range(200):
        optimizer.zero_grad()
        shared = log_sigma.mean().expand_as(log_sigma)
        gaussian_preference(first, second, shared, shared, target, form=form).loss.backward()  # type: ignore[arg-type]
        optimizer.step()
    return log_sigma.detach().mean()


def test_only_the_marginal_form_answers_conflicting_labels_with_doubt() -> None:
    conflicting, agreeing = [1.0, -1.0], [1.0, 1.0]
    assert _fitted_log_sigma("marginal", conflicting) > 0.5
    assert _fitted_log_sigma("marginal", agreeing) < -0.5
    assert _fitted_log_sigma("hpsv3", conflicting) < -0.5
    assert _fitted_log_sigma("hpsv3", agreeing) < -0.5


def test_what_is_masked_or_a_tie_neither_counts_nor_poisons() -> None:
    first = torch.tensor([[1.0], [NAN], [2.0], [math.inf]], requires_grad=True)
    log_sigma = torch.tensor([[0.0], [NAN], [0.0], [900.0]], requires_grad=True)
    labels = torch.tensor([[1.0], [NAN], [0.0], [1.0]])
    mask = torch.tensor([[True], [True], [True], [False]])
    zeros = torch.zeros(4, 1)
    output = gaussian_preference(first, zeros, log_sigma, zeros, labels, mask=mask)
    assert output.loss.item() == pytest.approx(_loss(1.0, 2**0.5, 1.0, "marginal"), abs=1e-5)
    output.loss.backward()
    assert first.grad is not None
    assert log_sigma.grad is not None
    assert (first.grad != 0).flatten().tolist() == [True, False, False, False]
    assert (log_sigma.grad != 0).flatten().tolist() == [True, False, False, False]


@given(st.floats(-20, 20), st.floats(0, 10))
def test_log_odds_keep_the_side_and_lose_confidence(mean: float, sigma: float) -> None:
    log_odds = preference_log_odds(torch.tensor(mean).double(), torch.tensor(sigma**2).double()).item()
    assert math.copysign(1, log_odds) == math.copysign(1, mean) or abs(log_odds) < 1e-9
    assert abs(log_odds) <= abs(mean) + 1e-6
    assert preference_log_odds(torch.tensor(mean).double(), torch.tensor(0.0).double()).item() == pytest.approx(
        mean, abs=1e-6
    )


def test_log_odds_are_those_of_the_expected_probability() -> None:
    expected = _expectation(1.3, 2.0, expit)
    found = preference_log_odds(torch.tensor(1.3).double(), torch.tensor(4.0).double()).item()
    assert found == pytest.approx(math.log(expected / (1 - expected)), abs=1e-6)


def test_a_tie_needs_width() -> None:
    with pytest.raises(ValueError, match="k > 1"):
        _loss(0.0, 1.0, 1.0, "marginal", 1.0)
