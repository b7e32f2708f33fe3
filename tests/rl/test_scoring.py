"""Scoring beside sampling: the same numbers in the same order, errors where they belong, nothing left running."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from PIL import Image

from gnomon.errors import UserError
from gnomon.records import Case, Text
from rl.rewards import RewardOutput
from rl.scoring import OverlappedScoring


def group(number: int, size: int = 3) -> tuple[list[Case], list[list[Image.Image]], list[Image.Image]]:
    case = Case(id=f"case-{number}", benchmark="toy", task="edit", instruction=Text(en="x"))
    pictures = [Image.new("RGB", (4, 4), (10 * number + member, 0, 0)) for member in range(size)]
    return [case] * size, [[]] * size, pictures


class Red:
    """Rewards red; fails on multiples of 7, raises at `broken`, and waits for `gate` before each part."""

    def __init__(self, broken: int | None = None, gate: threading.Semaphore | None = None) -> None:
        self.broken, self.gate = broken, gate
        self.threads: list[str] = []
        self.parts: list[list[str]] = []
        self.modes: list[tuple[bool, bool]] = []

    def __call__(self, *, cases: Sequence[Case], references: Any, images: Sequence[Image.Image]) -> RewardOutput:
        if self.gate is not None:
            assert self.gate.acquire(timeout=10)
        self.threads.append(threading.current_thread().name)
        self.parts.append([case.id for case in cases])
        self.modes.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
        values = torch.tensor([float(image.getpixel((0, 0))[0]) for image in images])  # type: ignore[index]
        if self.broken is not None and bool((values == self.broken).any()):
            raise UserError(f"no reward for {self.broken}")
        failed = values % 7 == 0
        return RewardOutput(
            values, {"red": values}, failed, {row: "sevens" for row in range(len(values)) if failed[row]}
        )


@pytest.mark.parametrize("overlap", [True, False])
def test_rewards_come_in_the_order_in_which_groups_were_handed_in(overlap: bool) -> None:
    reward = Red()
    with OverlappedScoring(reward, overlap=overlap) as scoring:
        for number in range(6):
            scoring.submit(*group(number, size=number % 3 + 1))
        output = scoring.result()
    expected = [10 * number + member for number in range(6) for member in range(number % 3 + 1)]
    assert output.breakdown["red"].nan_to_num(-1).tolist() == [value if value % 7 else -1 for value in expected]
    assert output.reasons == {row: "sevens" for row, value in enumerate(expected) if value % 7 == 0}
    assert [len(part) for part in reward.parts] == [1, 2, 3, 1, 2, 3]
    main = threading.current_thread().name
    assert set(reward.threads) == ({"gnomon-scoring"} if overlap else {main})


def test_overlap_changes_no_number() -> None:
    outputs = []
    for overlap in (True, False):
        with OverlappedScoring(Red(), overlap=overlap) as scoring:
            for number in range(4):
                scoring.submit(*group(number))
            outputs.append(scoring.result())
    assert torch.equal(outputs[0].total.nan_to_num(-1), outputs[1].total.nan_to_num(-1))
    assert torch.equal(outputs[0].failed, outputs[1].failed)
    assert outputs[0].reasons == outputs[1].reasons


def test_handing_in_does_not_wait_for_the_judge() -> None:
    gate = threading.Semaphore(0)
    reward = Red(gate=gate)
    with OverlappedScoring(reward) as scoring:
        for number in range(3):
            scoring.submit(*group(number))  # would stand still here without overlap
        assert reward.parts == []
        gate.release(3)
        assert len(scoring.result().total) == 9


def test_gradients_and_autocast_are_off_in_the_judges_thread_too() -> None:
    reward = Red()
    with torch.autocast("cpu", dtype=torch.bfloat16), OverlappedScoring(reward) as scoring:
        scoring.submit(*group(0))
        scoring.result()
    assert reward.modes == [(False, False)]


def test_an_error_of_the_judge_is_raised_where_the_result_is_asked_for() -> None:
    gate = threading.Semaphore(0)
    reward = Red(broken=10, gate=gate)
    with OverlappedScoring(reward) as scoring:
        for number in range(4):
            scoring.submit(*group(number))
        gate.release(4)  # not before: a quick judge's error would already stop the next group
        with pytest.raises(UserError, match="no reward for 10"):
            scoring.result()
    assert len(reward.parts) == 2  # what came after it was not judged


def test_an_error_of_the_judge_stops_the_sampling_at_the_next_group() -> None:
    reward = Red(broken=10)
    with OverlappedScoring(reward) as scoring:
        scoring.submit(*group(1))
        scoring._thread.join(timeout=10)
        with pytest.raises(UserError, match="no reward for 10"):
            scoring.submit(*group(2))


def leave(scoring: OverlappedScoring, error: type[BaseException], gate: threading.Semaphore | None = None) -> None:
    with scoring:
        for number in range(5):
            scoring.submit(*group(number))
        if gate is not None:
            gate.release()
        raise error


def test_an_error_while_sampling_drops_what_waits_and_leaves_no_thread() -> None:
    gate = threading.Semaphore(0)
    reward = Red(gate=gate)
    scoring = OverlappedScoring(reward)
    with pytest.raises(ZeroDivisionError):
        leave(scoring, ZeroDivisionError, gate)  # one part may be judged, the others are dropped
    assert not scoring._thread.is_alive()
    assert len(reward.parts) <= 1


class Hurried(queue.SimpleQueue[Any]):
    """Says that something waits which the thread has just taken: what `empty` knows is over once it is told."""

    def empty(self) -> bool:
        return False


def test_leaving_does_not_wait_for_a_part_that_the_thread_has_just_taken() -> None:
    gate = threading.Semaphore(0)
    scoring = OverlappedScoring(Red(gate=gate))
    scoring._waiting = Hurried()

    def leaving() -> None:
        with contextlib.suppress(ZeroDivisionError):
            leave(scoring, ZeroDivisionError, gate)

    left = threading.Thread(target=leaving, daemon=True)
    left.start()
    left.join(timeout=10)
    assert not left.is_alive()


def test_an_interrupt_does_not_wait_for_a_judge_that_hangs() -> None:
    gate = threading.Semaphore(0)
    scoring = OverlappedScoring(Red(gate=gate))
    with pytest.raises(KeyboardInterrupt):
        leave(scoring, KeyboardInterrupt)
    assert scoring._thread.daemon  # nor does the end of the program
    assert scoring._thread.is_alive()
    gate.release(5)
    scoring._thread.join(timeout=10)


def test_without_any_group_there_is_no_result() -> None:
    with OverlappedScoring(Red()) as scoring, pytest.raises(ValueError, match="nothing was submitted"):
        scoring.result()
