"""Argmax of log-probabilities plus Gumbel noise is a sample, and a row's own."""

from __future__ import annotations

from typing import Any

import torch
from scipy.stats import chisquare

from rm.vlm.conversation import GenerationParameters
from rm.vlm.sampling import sampling

IDS: Any = torch.zeros(1, 1, dtype=torch.long)


def draw(logits: Any, count: int, temperature: float, top_p: float = 1.0) -> torch.Tensor:
    steps = sampling(GenerationParameters(temperature=temperature, top_p=top_p), range(count))
    return torch.as_tensor(steps(IDS.expand(count, 1), logits.expand(count, -1).clone())).argmax(dim=-1)


def test_samples_have_the_probabilities_of_the_softmax() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0, -1.0, 0.5])
    counts = draw(logits, 4000, 0.7).bincount(minlength=5)
    expected = (logits / 0.7).softmax(dim=0).double() * 4000
    assert chisquare(counts.numpy(), expected.numpy() / expected.sum().item() * 4000).pvalue > 1e-3


def test_top_p_keeps_the_smallest_set_of_likely_tokens_that_holds_the_mass() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    assert set(draw(logits, 500, 1.0, top_p=0.75).tolist()) == {0, 1}
    assert set(draw(logits, 2000, 1.0).tolist()) == {0, 1, 2, 3}


def test_a_row_draws_the_same_in_any_batch_and_another_at_the_next_token() -> None:
    parameters = GenerationParameters(temperature=1.0)
    logits: Any = torch.zeros(3, 1000)
    together, alone = sampling(parameters, [5, 6, 7]), sampling(parameters, [6])
    for _ in range(3):
        several = torch.as_tensor(together(IDS.expand(3, 1), logits.clone()))
        one = torch.as_tensor(alone(IDS, logits[:1].clone()))
        assert torch.equal(several[1], one[0])
    later = torch.as_tensor(alone(IDS, logits[:1].clone()))
    assert not torch.equal(later, one)


def test_half_precision_does_not_tie_likely_tokens() -> None:
    logits = torch.full((1, 50), 20.0, dtype=torch.bfloat16)
    assert len(set(draw(logits[0], 400, 1.0).tolist())) > 40


def test_nothing_is_done_at_temperature_zero() -> None:
    assert len(sampling(GenerationParameters(temperature=0), [1])) == 0
