"""The loop that all requests run on: one for all threads, given up as a whole, and no hindrance to a process's end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from rm.background import Calls, run_to_end


class Endless:
    """A coroutine that never ends by itself, and says how it ended."""

    def __init__(self) -> None:
        self.running, self.cancelled = threading.Event(), threading.Event()

    async def run(self) -> None:
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


async def thread_name() -> str:
    return threading.current_thread().name


def test_runs_inside_and_outside_of_a_loop() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    async def fail() -> int:
        raise KeyError("x")

    async def inside() -> int:
        with pytest.raises(KeyError):
            run_to_end(fail())
        return run_to_end(answer())

    assert run_to_end(answer()) == 42
    assert asyncio.run(inside()) == 42


def test_all_threads_share_one_loop() -> None:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    with ThreadPoolExecutor(8) as pool:
        loops = set(pool.map(lambda _: run_to_end(loop()), range(32)))
    assert len(loops) == 1
    assert run_to_end(thread_name()) == "gnomon-requests"


def test_what_would_wait_for_itself_is_an_error() -> None:
    async def inside() -> None:
        run_to_end(thread_name())

    with pytest.raises(RuntimeError, match="expected another thread"):
        run_to_end(inside())


def test_ctrl_c_ends_what_is_waited_for() -> None:
    endless = Endless()

    def interrupt() -> None:
        endless.running.wait()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run_to_end(endless.run())
    assert endless.cancelled.is_set()  # and not some time later
    thread.join()


def test_giving_up_ends_what_the_threads_of_a_group_wait_for_and_nothing_else() -> None:
    calls, others = Calls(), Calls()
    inner, mine, other, late = (Endless() for _ in range(4))

    def wait(group: Calls, endless: Endless) -> None:
        group.join()
        run_to_end(endless.run())

    def wait_in_part() -> None:
        calls.join()
        part = Calls()
        with part.as_part():
            wait(part, inner)

    def outcome(waiting: Future[None]) -> object:
        return type(waiting.exception(timeout=30))

    with ThreadPoolExecutor(4) as pool:
        nested, plain = pool.submit(wait_in_part), pool.submit(wait, calls, mine)
        elsewhere = pool.submit(wait, others, other)
        try:
            for endless in (inner, mine, other):
                assert endless.running.wait(30)
            calls.give_up()
            assert outcome(nested) == outcome(plain) == asyncio.CancelledError
            assert inner.cancelled.is_set()
            assert mine.cancelled.is_set()
            assert outcome(pool.submit(wait, calls, late)) == asyncio.CancelledError
            assert not late.running.is_set()
            assert not elsewhere.done()
        finally:
            calls.give_up()
            others.give_up()
        assert outcome(elsewhere) == asyncio.CancelledError


def test_a_forked_process_has_a_loop_of_its_own() -> None:
    before = run_to_end(thread_name())
    child = os.fork()
    if child == 0:
        os._exit(0 if run_to_end(thread_name()) == before else 1)
    deadline = time.monotonic() + 30
    done, status = os.waitpid(child, os.WNOHANG)
    while not done and time.monotonic() < deadline:
        time.sleep(0.01)
        done, status = os.waitpid(child, os.WNOHANG)
    if not done:
        os.kill(child, signal.SIGKILL)
    assert (done, status) == (child, 0)
    assert run_to_end(thread_name()) == before


def test_a_process_ends_while_something_is_in_flight_and_says_nothing() -> None:
    code = """
import asyncio, contextlib, threading
from rm.background import run_to_end
started = threading.Event()
async def endless():
    started.set()
    await asyncio.sleep(3600)
def wait():
    with contextlib.suppress(asyncio.CancelledError):
        run_to_end(endless())
threading.Thread(target=wait, daemon=True).start()
started.wait()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
