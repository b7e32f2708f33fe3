"""Each rank's judge runs on the rank's own device; there is no GPU here, so what CUDA would say is told to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from gnomon.errors import UserError
from rm import devices
from rm.devices import check_device, own_device

Machine = Callable[..., None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Return a function that makes this a process on a machine with GPUs; `current` None: CUDA is not in use yet."""

    def pretend(*, count: int, current: int | None, local_rank: str | None = None) -> None:
        devices._own_index.cache_clear()
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: current is not None)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: current)
        monkeypatch.delenv("LOCAL_RANK", raising=False)
        if local_rank is not None:
            monkeypatch.setenv("LOCAL_RANK", local_rank)

    yield pretend
    devices._own_index.cache_clear()


@pytest.mark.parametrize(
    ("current", "local_rank", "index"),
    [
        (2, "2", 2),  # a trainer gave it its device
        (3, "1", 3),  # with devices: [2, 3]
        (0, "1", 0),  # with devices: [1, 0]
        (None, None, 0),  # no ranks
        (None, "1", 1),  # ranks on CPUs
        (None, "5", 1),  # more of them than GPUs
    ],
)
def test_cuda_is_this_ranks_device(machine: Machine, current: int | None, local_rank: str | None, index: int) -> None:
    machine(count=4, current=current, local_rank=local_rank)
    assert own_device(check_device("cuda")) == torch.device("cuda", index)


def test_a_process_has_one_device_also_in_threads_that_have_another_current_one(machine: Machine) -> None:
    machine(count=4, current=3)
    assert own_device(torch.device("cuda")).index == 3
    machine_of_a_new_thread = pytest.MonkeyPatch()
    with machine_of_a_new_thread.context() as patched:
        patched.setattr(torch.cuda, "current_device", lambda: 0)
        assert own_device(torch.device("cuda")).index == 3


def test_a_device_with_a_number_and_a_cpu_are_taken_at_their_word(machine: Machine) -> None:
    machine(count=4, current=2)
    assert own_device(check_device("cuda:1")) == torch.device("cuda", 1)
    assert own_device(check_device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize(("count", "name"), [(0, "cuda"), (0, "cuda:0"), (2, "cuda:2"), (2, "gpu"), (2, "")])
def test_a_device_that_is_not_there_is_named(machine: Machine, count: int, name: str) -> None:
    machine(count=count, current=None)
    with pytest.raises(UserError, match=f"expected a device .*got '{name}'"):
        check_device(name)
