"""A tiny editor with random weights and tabletop cases to edit with it, and how runs are killed and compared."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from data_build.tabletop.cases import build_cases
from data_build.tabletop.tiny_editor import (
    CALL_ARGUMENTS,
    make_autoencoder,
    make_text_encoder,
    make_tokenizer,
    make_transformer,
    save_pipeline,
    vocabulary_words,
)


@pytest.fixture(scope="session")
def random_editor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save an untrained editor of the shipped one's classes, smaller, with four sampling steps."""
    folder = tmp_path_factory.mktemp("random_editor")
    tokenizer = make_tokenizer(vocabulary_words())
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_pipeline(
            folder,
            make_autoencoder(),
            tokenizer,
            make_text_encoder(len(tokenizer), hidden=32),
            make_transformer(text_hidden=32, heads=1, double=1, single=1),
        )
    kwargs = {name: list(value) if isinstance(value, tuple) else value for name, value in CALL_ARGUMENTS.items()}
    settings = {"pipeline_kwargs": kwargs, "num_inference_steps": 4}
    (folder / "gnomon.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="session")
def tabletop_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write eleven test cases, one of each kind."""
    folder = tmp_path_factory.mktemp("tabletop_cases")
    build_cases(folder, num=11, seed=0, split="test")
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
