from __future__ import annotations

import random

import pytest
import torch

from data_build.tabletop.observations import sample_observation
from data_build.tabletop.tiny_judge import make_judge_base, make_processor
from data_build.tabletop.train_judge import Pretraining, encode_observations, pretraining_loss
from rm.prompt import PromptEncoder, PromptTemplate


@pytest.fixture(scope="module")
def model() -> tuple[Pretraining, PromptEncoder]:
    torch.manual_seed(0)
    processor = make_processor()
    return Pretraining(make_judge_base(processor, hidden=64, layers=2)), PromptEncoder(processor, PromptTemplate())


def test_a_picture_is_sixteen_tokens_and_the_answers_stand_behind_the_end_token(
    model: tuple[Pretraining, PromptEncoder],
) -> None:
    pretraining, encoder = model
    rng = random.Random(0)
    observations = [sample_observation(rng) for _ in range(5)]
    inputs, labels = encode_observations(observations, encoder)
    ids = inputs["input_ids"]
    assert ((ids == pretraining.base.config.image_token_id).sum(1) == 32).all()
    words = encoder.processor.tokenizer
    for row, observation in zip(ids, observations, strict=True):
        start = int((row == encoder.end_marker_id).int().argmax())
        answer = words.decode(row[start + 1 : start + 4])
        assert answer == "".join(" yes" if good else " no" for good in observation.answers)
    assert labels["candidate"].shape == (5, 16, 4)


def test_every_weight_that_looks_learns(model: tuple[Pretraining, PromptEncoder]) -> None:
    pretraining, encoder = model
    rng = random.Random(1)
    batch = encode_observations([sample_observation(rng) for _ in range(4)], encoder)
    terms = pretraining_loss(pretraining, *batch, encoder)
    terms["loss"].backward()
    silent = [name for name, p in pretraining.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert silent == []


def test_a_few_steps_on_one_batch_bring_its_loss_down(model: tuple[Pretraining, PromptEncoder]) -> None:
    pretraining, encoder = model
    rng = random.Random(2)
    batch = encode_observations([sample_observation(rng) for _ in range(6)], encoder)
    optimizer = torch.optim.AdamW(pretraining.parameters(), lr=3e-3)
    losses = []
    for _ in range(12):
        loss = pretraining_loss(pretraining, *batch, encoder)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
