"""Asking ahead: everything in order, never too far, and nothing left where it ends early."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm.ahead import ask_ahead
from rm.background import run_to_end


def threads_left() -> list[str]:
    """Return the names of threads that ask ahead."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("gnomon-ahead")]


class Counting:
    """Counts what has begun and what is going on."""

    def __init__(self, answer: Callable[[int], int]) -> None:
        self.answer, self.lock = answer, threading.Lock()
        self.begun: list[int] = []
        self.at_once = self.most_at_once = 0

    def __call__(self, number: int) -> int:
        with self.lock:
            self.begun.append(number)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return self.answer(number)
        finally:
            with self.lock:
                self.at_once -= 1


@settings(max_examples=30, deadline=None)
@given(
    count=st.integers(0, 60),
    max_concurrency=st.integers(1, 9),
    questions=st.floats(0.0, 20.0),
    slow=st.sets(st.integers(0, 59), max_size=3),
)
def test_everything_comes_in_order_whatever_takes_long(
    count: int, max_concurrency: int, questions: float, slow: set[int]
) -> None:
    def answer(number: int) -> int:
        time.sleep(0.01 * (number in slow))
        return number**2

    asked = ask_ahead(answer, range(count), max_concurrency=max_concurrency, questions=questions)
    assert list(asked) == [number**2 for number in range(count)]
    assert not threads_left()


def test_the_first_one_holds_the_others_up_only_when_they_are_far_ahead() -> None:
    release = threading.Event()
    counting = Counting(lambda number: number if number or release.wait(30) else -1)
    asked = ask_ahead(counting, range(1000), max_concurrency=4, questions=2)

    first = threading.Thread(target=lambda: next(asked))
    first.start()
    window = (4 + 2) + 16 * 2  # a thread for each question and each call, and 16 times what is asked at once
    deadline = time.monotonic() + 30
    while len(counting.begun) < window and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(0.05)  # for more to begin, if that were possible
    assert sorted(counting.begun) == list(range(window))
    assert counting.most_at_once <= 6
    release.set()
    first.join()
    assert list(asked) == list(range(1, 1000))


def test_an_error_comes_after_what_was_asked_before_it_and_leaves_nothing() -> None:
    before = threading.Event()

    def answer(number: int) -> int:
        if number == 2:
            before.wait(30)
        if number == 5:
            before.set()
            raise KeyError("five")
        if number > 5:
            run_to_end(asyncio.sleep(3600))
        return number

    counting = Counting(answer)
    found: list[int] = []
    with pytest.raises(KeyError, match="five"):
        found.extend(ask_ahead(counting, range(1000), max_concurrency=3, questions=1))
    assert found == [0, 1, 2, 3, 4]
    assert max(counting.begun) < 5 + 6  # what was already in flight, and nothing that came later
    assert not threads_left()


def test_closing_gives_up_what_is_in_flight_also_in_a_call_of_a_call() -> None:
    ended: list[int] = []

    def endless(number: int) -> int:
        try:
            run_to_end(asyncio.sleep(0 if number == 0 else 3600))
        finally:
            ended.append(number)
        return number

    def several(number: int) -> list[int]:
        return list(ask_ahead(endless, [number, 10 * number], max_concurrency=2, questions=1))

    asked = ask_ahead(several, range(100), max_concurrency=2, questions=1)
    assert list(islice(asked, 1)) == [[0, 0]]
    asked.close()
    assert not threads_left()
    assert len(ended) < 20


def test_nothing_to_ask_starts_no_thread() -> None:
    assert list(ask_ahead(lambda _: pytest.fail("asked"), [], max_concurrency=8, questions=1)) == []


def test_one_cannot_be_left_to_start_by_itself() -> None:
    counting = Counting(lambda number: number)
    asked = ask_ahead(counting, range(10), max_concurrency=8, questions=1)
    time.sleep(0.02)
    assert counting.begun == []  # whoever never takes a value has nothing to close
    asked.close()
