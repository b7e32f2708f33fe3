"""Asking ahead: so many calls of a judge at once that the server always has what it can take."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Generic, TypeVar

from rm.background import Calls

_Element = TypeVar("_Element")
_Value = TypeVar("_Value")

_PATIENCE = 16
"""How many times as long as the others the slowest question may take before it holds them up."""


def ask_ahead(
    ask: Callable[[_Element], _Value], elements: Sequence[_Element], *, max_concurrency: int, questions: float
) -> Generator[_Value, None, None]:
    """Yield what `ask` returns for each element, in order, while later elements are being asked about.

    An element whose answers are all there but one is still a call, so there is one thread for each question in flight,
    and some more for elements whose pictures are being loaded. Beyond that, elements are asked about before the first
    one is done only as far as a slow question makes it necessary: what nobody has taken yet is lost in a kill.

    Where `ask` raises, elements behind are given up, those before are ended and yielded, and then it is raised. Closing
    the generator, as Ctrl-C does where it waits, gives up all that is in flight. No thread is left in either case.

    Args:
        ask: asks about one element; called in several threads.
        elements: what to ask about.
        max_concurrency: questions in flight at once, which `ask` itself sees to.
        questions: how many `ask` asks about an element, about.
    """
    calls = max_concurrency / max(questions, 1.0)
    threads = max_concurrency + math.ceil(calls)
    yield from _Ahead(ask, elements, threads + math.ceil(_PATIENCE * calls)).values(min(threads, len(elements)))


class _Ahead(Generic[_Element, _Value]):
    """The state of :func:`ask_ahead`: which elements may begin.

    Args:
        ask: asks about one element.
        elements: what to ask about.
        window: how many elements are begun before the first of them is taken.
    """

    def __init__(self, ask: Callable[[_Element], _Value], elements: Sequence[_Element], window: int) -> None:
        self.ask, self.elements, self.window = ask, elements, window
        self.calls = Calls()
        self._lock = threading.Lock()
        self.end = len(elements)  # elements begin below this place; an error lowers it

    def values(self, threads: int) -> Generator[_Value, None, None]:
        """Yield the values in order; an error ends it once the values before are out."""
        if not threads:
            return
        pool = ThreadPoolExecutor(threads, thread_name_prefix="gnomon-ahead", initializer=self.calls.join)
        places = iter(range(len(self.elements)))
        try:
            with self.calls.as_part():
                waiting = deque(pool.submit(self._one, place) for place in islice(places, self.window))
                while waiting:
                    yield waiting.popleft().result()
                    # One for one: threads that waited for their turn would all be woken by each value that is taken.
                    waiting.extend(pool.submit(self._one, place) for place in islice(places, 1))
        finally:
            self._end_before(0)
            self.calls.give_up()
            pool.shutdown(cancel_futures=True)

    def _one(self, place: int) -> _Value:
        try:
            with self.calls.turn():
                if place >= self.end:
                    raise asyncio.CancelledError
                return self.ask(self.elements[place])
        except BaseException:
            self._end_before(place)
            raise

    def _end_before(self, place: int) -> None:
        with self._lock:
            self.end = min(self.end, place)
