"""Folders of photographs, and what is compared between two run folders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gnomon.images import save_png
from gnomon.jsonl import write_records
from tests.data_build.editcompass.test_scenarios import SCENARIOS
from tests.data_build.editcompass.writers import noise


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three photographs, one of them in a folder below."""
    folder = tmp_path / "photos"
    for seed, name in enumerate(("a.png", "b.png", "holiday/c.png")):
        save_png(noise(seed), folder / name)
    return folder


@pytest.fixture
def contents() -> Callable[[Path], dict[str, bytes]]:
    """A function that returns all that a run folder holds but for its manifest."""

    def read(folder: Path) -> dict[str, bytes]:
        files = [path for path in folder.rglob("*") if path.is_file() and path.name not in ("manifest.json", ".lock")]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(files)}

    return read


@pytest.fixture
def kill_when(repository: Path) -> Callable[[str, Callable[[], bool]], None]:
    """A function that runs a program and kills it as soon as something is seen."""

    def run(program: str, seen: Callable[[], bool]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1"}
        deadline = time.monotonic() + 120
        with subprocess.Popen([sys.executable, "-c", program], cwd=repository, env=environment) as process:
            while not seen():
                assert process.poll() is None, "the program ended before it could be killed"
                assert time.monotonic() < deadline
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL

    return run


@pytest.fixture
def scenarios(tmp_path: Path) -> Path:
    """A file of three scenarios, one of them with two pictures."""
    write_records(tmp_path / "scenarios.jsonl", SCENARIOS)
    return tmp_path / "scenarios.jsonl"
