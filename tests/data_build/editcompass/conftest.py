"""Folders of photographs, and a file of scenarios."""

from __future__ import annotations

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
def scenarios(tmp_path: Path) -> Path:
    """A file of three scenarios, one of them with two pictures."""
    write_records(tmp_path / "scenarios.jsonl", SCENARIOS)
    return tmp_path / "scenarios.jsonl"
