from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from gnomon.errors import UserError
from rl.ema import AdapterAverage


def make_weights() -> dict[str, torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return {
        "a": torch.nn.Parameter(torch.randn(3, 2, generator=generator)),
        "b": torch.nn.Parameter(torch.randn(5, generator=generator)),
    }


def change(weights: dict[str, torch.nn.Parameter], value: float) -> None:
    with torch.no_grad():
        for parameter in weights.values():
            parameter.add_(value)


def test_the_average_follows_its_definition() -> None:
    weights = make_weights()
    average = AdapterAverage(weights, decay=0.3)
    expected: dict[str, Tensor] = {}
    for update in range(1, 8):
        change(weights, 0.1 * update)
        average.update(update)
        decay = 0.0 if update == 1 else min(0.3, update / (9 + update))  # the ramp up to update 3
        for name, parameter in weights.items():
            value = parameter.detach().double()
            expected[name] = value if update == 1 else decay * expected[name] + (1 - decay) * value
    for name, value in average.weights.items():
        torch.testing.assert_close(value.double(), expected[name])


def test_it_moves_once_per_optimizer_step_however_often_it_is_called() -> None:
    weights = make_weights()
    average, frequent = AdapterAverage(weights, decay=0.9), AdapterAverage(weights, decay=0.9)
    for step in range(1, 4):
        change(weights, 1.0)
        average.update(step)
        for _ in range(3):  # micro-batches of one step
            frequent.update(step)
    assert all(torch.equal(frequent.weights[name], value) for name, value in average.weights.items())
    with pytest.raises(ValueError, match="4 is next, got 6"):
        average.update(6)


def test_it_is_updated_every_so_many_steps() -> None:
    weights = make_weights()
    average = AdapterAverage(weights, decay=0.9, every=3)
    start = weights["b"].detach().clone()
    for step in range(1, 6):
        change(weights, 1.0)
        average.update(step)
        torch.testing.assert_close(average.weights["b"], start if step < 3 else start + 3)


def test_applied_swaps_and_restores_to_the_bit_also_after_an_error() -> None:
    weights = make_weights()
    average = AdapterAverage(weights, decay=0.5)
    for step in range(1, 4):
        change(weights, 0.1)
        average.update(step)
    before = {name: parameter.detach().clone() for name, parameter in weights.items()}
    averaged = {name: value.clone() for name, value in average.weights.items()}
    places = {name: parameter.data_ptr() for name, parameter in weights.items()}

    def look_and_fail() -> None:
        with average.applied():
            assert all(torch.equal(weights[name], value) for name, value in averaged.items())
            assert not torch.equal(weights["a"], before["a"])
            raise KeyError

    with pytest.raises(KeyError):
        look_and_fail()
    for name, parameter in weights.items():
        assert torch.equal(parameter, before[name])
        assert parameter.data_ptr() == places[name]  # an optimizer or a flat buffer may point there
        assert torch.equal(average.weights[name], averaged[name])


def test_it_can_be_applied_and_moved_again_and_again() -> None:
    layer = torch.nn.Linear(3, 2)
    average = AdapterAverage(dict(layer.named_parameters()), decay=0.5)
    for step in range(1, 4):
        change(dict(layer.named_parameters()), 0.1)
        average.update(step)
        before = {name: value.detach().clone() for name, value in layer.named_parameters()}
        for _ in range(2):
            with average.applied():
                assert all(torch.equal(value, average.weights[name]) for name, value in layer.named_parameters())
            assert all(torch.equal(value, before[name]) for name, value in layer.named_parameters())


def test_a_reloaded_average_goes_on_like_the_one_that_was_saved() -> None:
    weights = make_weights()
    average = AdapterAverage(weights, decay=0.9, every=2)
    for step in range(1, 6):
        change(weights, 0.1)
        average.update(step)
    state = copy.deepcopy(average.state_dict())

    resumed_weights = {name: torch.nn.Parameter(value.detach().clone()) for name, value in weights.items()}
    resumed = AdapterAverage(resumed_weights, decay=0.9, every=2)
    resumed.load_state_dict(state)
    for step in range(6, 9):
        change(weights, 0.1)
        change(resumed_weights, 0.1)
        average.update(step)
        resumed.update(step)
    assert all(torch.equal(resumed.weights[name], value) for name, value in average.weights.items())


def test_a_saved_state_does_not_change_with_the_average() -> None:
    weights = make_weights()
    average = AdapterAverage(weights, decay=0.9)
    state = average.state_dict()
    before = state["weights"]["a"].clone()
    change(weights, 1.0)
    average.update(1)
    assert torch.equal(state["weights"]["a"], before)


def test_an_average_of_other_weights_is_refused() -> None:
    average = AdapterAverage(make_weights(), decay=0.9)
    other = AdapterAverage({"a": torch.nn.Parameter(torch.zeros(1))}, decay=0.9)
    with pytest.raises(UserError, match=r"this adapter \(2 tensors\), got 1"):
        average.load_state_dict(other.state_dict())


@pytest.mark.parametrize(("decay", "every"), [(1.0, 1), (-0.1, 1), (0.9, 0)])
def test_settings_out_of_range_are_named(decay: float, every: int) -> None:
    with pytest.raises(UserError, match=r"model\.ema"):
        AdapterAverage(make_weights(), decay=decay, every=every)
