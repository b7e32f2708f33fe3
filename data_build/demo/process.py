"""Run a command in a child process that inherits the loaded libraries, and measure it.

Loading torch, diffusers, transformers and Lightning takes most of a short command's time. The demo loads them once and
forks: every step is still the real command in a process of its own, which can be killed, and whose memory is its own.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import shlex
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gnomon.errors import UserError

HEAVY_MODULES = (
    "torch",
    "diffusers.modular_pipelines",
    "diffusers.pipelines.flux2.pipeline_flux2_klein",
    "transformers.models.qwen3_vl.modeling_qwen3_vl",
    "peft",
    "pytorch_lightning.cli",
    "torchmetrics",
    "matplotlib.figure",
)


@dataclass(frozen=True)
class Measured:
    """What a command took: seconds, and the peak of its resident memory in bytes."""

    seconds: float
    peak_memory: int


def load_libraries() -> None:
    """Import what the steps need, before the first fork; nothing may compute here, since threads do not survive one."""
    for name in HEAVY_MODULES:
        importlib.import_module(name)
    for library in ("transformers", "diffusers"):
        # These models load in an instant: a bar for each of their parts would be all that one sees.
        importlib.import_module(f"{library}.utils.logging").disable_progress_bar()


def run_command(argv: list[str], log: Path) -> Measured:
    """Run `gnomon ARGV` in a child; its output goes to the terminal, or to `log` where there is none.

    Raises:
        UserError: when the command fails or is killed; shows the end of its output, or says where it is.
        KeyboardInterrupt: when it was interrupted.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        _be_command(argv, log)
    try:
        _, status, usage = os.wait4(child, 0)
    except KeyboardInterrupt:
        os.wait4(child, 0)  # Ctrl-C reaches the child as well; let it finish what it writes
        raise
    code = os.waitstatus_to_exitcode(status)
    if code == 130 or code == -signal.SIGINT:
        raise KeyboardInterrupt
    if code != 0:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        where = "above" if sys.stderr.isatty() else f"in {log}:\n{_tail(log)}"
        raise UserError(f"`{shlex.join(['gnomon', *argv])}` {how}; its output is {where}")
    return Measured(time.monotonic() - start, usage.ru_maxrss * 1024)


def _be_command(argv: list[str], log: Path) -> NoReturn:
    """Turn the forked child into the command; never returns."""
    _die_with_parent()
    with log.open("a", encoding="utf-8", buffering=1) as file:
        code = 1
        try:
            if not sys.stderr.isatty():
                # The streams and what lies below them: libraries write to both.
                sys.stdout = sys.stderr = file
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            from gnomon.cli import main

            code = main(argv)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            except OSError:  # a full disk; the child must not unwind into the parent's code
                code = code or 1
            finally:
                os._exit(code)


def _die_with_parent() -> None:
    """Ask Linux to kill this process when the demo dies; an orphan would go on in a folder that the next demo wants."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _tail(log: Path, lines: int = 15) -> str:
    text = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return "\n".join(text[-lines:])
