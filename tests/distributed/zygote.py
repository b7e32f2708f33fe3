"""Imports everything once, then forks the ranks of one job after another: jobs are lines of JSON on stdin.

A job is `{"ranks": 2, "arguments": ["rl", "fit", ...], "environment": {...}, "log": "file", "timeout": 100}`; the
answer is a line with the exit codes of the ranks. The environment is what Lightning's own launcher sets.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
import traceback
from typing import Any


def run(job: dict[str, Any]) -> list[int]:
    """Run the ranks of a job; negative codes are signals."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    running = {fork(job, rank, port): rank for rank in range(job["ranks"])}
    codes = [-signal.SIGALRM] * job["ranks"]
    deadline = time.monotonic() + job["timeout"]
    while running and time.monotonic() < deadline:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            time.sleep(0.02)
            continue
        codes[running.pop(process)] = os.waitstatus_to_exitcode(status)
        if status:
            deadline = min(deadline, time.monotonic() + 15)  # the others wait for the one that is gone
    for process in running:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    return codes


def fork(job: dict[str, Any], rank: int, port: int) -> int:
    process = os.fork()
    if process:
        return process
    code = 1
    with open(f"{job['log']}.{rank}", "w") as log:  # noqa: PTH123
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        os.environ |= job["environment"]
        if job["ranks"] > 1:
            os.environ |= {"NODE_RANK": "0", "LOCAL_RANK": str(rank), "WORLD_SIZE": str(job["ranks"])}
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        from lightning_fabric.utilities.rank_zero import rank_zero_only

        setattr(rank_zero_only, "rank", rank)  # noqa: B010 - what an import of Lightning in this process would have found
        from gnomon.cli import main

        code = main(job["arguments"])
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    import cpu_deepspeed  # type: ignore[import-not-found]  # noqa: F401 - beside this file

    import rm.training  # noqa: F401

    with contextlib.suppress(ImportError):
        import deepspeed  # noqa: F401
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
