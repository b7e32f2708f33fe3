"""What the benchmark says of its figures."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def script(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the script, which belongs to no package."""
    spec = importlib.util.spec_from_file_location("rl_throughput", repository / "benchmarks" / "rl_throughput.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("more_sampling", "more_training", "verdicts"),
    [
        # 12 more candidates keep 5 latents each, of 64 tokens x 32 channels x 4 bytes: 480 KiB.
        (480 * 2**10, 0, ["met", "met"]),
        (2 * 480 * 2**10, 0, ["MISSED", "met"]),
        (480 * 2**10, 50 * 2**20, ["met", "MISSED"]),
    ],
)
def test_memory_has_a_verdict_against_the_latents_that_are_kept(
    script: ModuleType, more_sampling: int, more_training: int, verdicts: list[str]
) -> None:
    first = script.MemoryRow(4, 2, 50 * 2**20, 100 * 2**20)
    second = script.MemoryRow(16, 2, first.sampling + more_sampling, first.training + more_training)
    *_, line = script.memory_report([first, second])
    words = line.replace(")", " ").split()
    assert [word for word in words if word in ("met", "MISSED")] == verdicts
