"""One event loop per process for all requests over HTTP, and how those who wait for it give them up.

Requests of any thread meet on one loop, so that a limit on what is in flight holds for all threads together, and
connections can be shared. The loop runs in a daemon thread that starts with the first request and ends with the
process; a process that was forked starts its own.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

_Value = TypeVar("_Value")

_MOST_AT_WORK = 1
"""Threads of one :class:`Calls` that work while others wait; the interpreter runs no more at a time anyway."""
_ENDING_SECONDS = 5.0
"""How long what was given up may take to close its connections; after that nobody waits for it."""


class Calls:
    """What several threads wait for, to be given up together; also a part of what its maker's thread waits for.

    Each of the threads says that it belongs here by :meth:`join`, and works in its :meth:`turn`. Only a few are at work
    at the same time: dozens that are woken by answers at once would spend their time on passing the interpreter's lock
    around. While one waits for an answer, another has its turn.
    """

    def __init__(self) -> None:
        self._turns = threading.Semaphore(_MOST_AT_WORK)
        self._lock = threading.Lock()
        self._is_over = False
        self._cancels: set[Callable[[], None]] = set()
        self._whole = _CALLS.get()

    def join(self) -> None:
        """Make what the current thread waits for from now on a part of this."""
        _CALLS.set(self)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Be one of the few threads that are at work."""
        with self._turns:
            yield

    @contextmanager
    def _away(self) -> Iterator[None]:
        """Let another thread have this one's turn."""
        self._turns.release()
        try:
            yield
        finally:
            self._turns.acquire()

    def give_up(self) -> None:
        """Cancel what is waited for, and whatever would be from now on: it raises :class:`asyncio.CancelledError`."""
        with self._lock:
            self._is_over = True
            cancels = list(self._cancels)
        for cancel in cancels:
            cancel()

    @contextmanager
    def waiting(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Wait inside the context for what `cancel` cancels, in the midst of a :meth:`turn`.

        Raises:
            asyncio.CancelledError: when this was given up before.
        """
        with self.including(cancel), self._away():
            yield

    @contextmanager
    def including(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Let `cancel` be called when this is given up inside the context.

        Raises:
            asyncio.CancelledError: when it was given up before.
        """
        with self._lock:
            if self._is_over:
                raise asyncio.CancelledError
            self._cancels.add(cancel)
        try:
            yield
        finally:
            with self._lock:
                self._cancels.discard(cancel)

    @contextmanager
    def as_part(self) -> Iterator[None]:
        """Let this be given up inside the context when that is which its maker's thread belongs to."""
        if self._whole is None:
            yield
            return
        with self._whole.including(self.give_up):
            yield


_CALLS: ContextVar[Calls | None] = ContextVar("gnomon_calls", default=None)


def is_part_of_calls() -> bool:
    """Tell whether the current thread is one of those that :meth:`Calls.join`, so that others ask beside it."""
    return _CALLS.get() is not None


class _Background:
    """The loop of a process and its thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="gnomon-requests", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def stop(self) -> None:
        """Cancel everything and stop, so that the process does not end in the middle of something."""
        asyncio.run_coroutine_threadsafe(self._end(), self.loop)
        self.thread.join(_ENDING_SECONDS)

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_ENDING_SECONDS / 2)
        self.loop.stop()


class _Process:
    """What this process has: perhaps a loop, and those of processes that it was forked from.

    The latter are kept for good: when their connections are freed, they leave the polling of the process that goes on
    using them.
    """

    def __init__(self, inherited: list[_Background]) -> None:
        self.lock = threading.Lock()
        self.background: _Background | None = None
        self.inherited = inherited

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop, which is started when there is none."""
        with self.lock:
            self.background = self.background or _Background()
            return self.background.loop

    def stop(self) -> None:
        """Stop the loop."""
        if self.background is not None:
            self.background.stop()

    def forked(self) -> _Process:
        """Return what a forked process has."""
        return _Process(self.inherited + ([self.background] if self.background else []))


_process = _Process([])


def _after_fork() -> None:
    global _process
    _process = _process.forked()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _process.stop())


class _Call(Generic[_Value]):
    """A coroutine that is to run on the loop."""

    def __init__(self, coroutine: Coroutine[Any, Any, _Value], loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._coroutine = loop, coroutine
        self._task: asyncio.Task[_Value] | None = None
        self._ended = threading.Event()

    def start(self) -> None:
        """Start it; it may not have begun yet when this returns."""
        self._loop.call_soon_threadsafe(self._start)

    def _start(self) -> None:
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(lambda _: self._ended.set())

    def cancel(self) -> None:
        """Cancel it; it may not have ended yet when this returns."""
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:  # Ctrl-C came before it was started
            self._coroutine.close()
            self._ended.set()

    def result(self) -> _Value:
        """Wait for the end, and return or raise what came of it."""
        self._ended.wait()
        assert self._task is not None
        return self._task.result()

    def give_up(self) -> None:
        """Cancel it, and wait until it has ended, unless that takes long."""
        self.cancel()
        self._ended.wait(_ENDING_SECONDS)


def run_to_end(coroutine: Coroutine[Any, Any, _Value]) -> _Value:
    """Run a coroutine on the process's loop and wait for it, in any thread, also where a loop is running (a notebook).

    Whatever ends the waiting, such as Ctrl-C, ends the coroutine as well: nothing goes on in the background.

    Raises:
        asyncio.CancelledError: when the :class:`Calls` that the thread belongs to are given up.
        RuntimeError: on the loop itself, which would wait for itself.
    """
    loop = _process.loop()
    if _running_loop() is loop:
        coroutine.close()
        raise RuntimeError("expected another thread than that of the requests, which would wait for itself")
    call = _Call(coroutine, loop)
    calls = _CALLS.get()
    try:
        with nullcontext() if calls is None else calls.waiting(call.cancel):
            call.start()
            return call.result()
    except BaseException:
        call.give_up()
        raise


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
