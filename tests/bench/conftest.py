"""Fixtures: a dataset of small grey pictures, a judge of brightness and a generator that copies with noise."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

from gnomon.datasets import write_records
from gnomon.images import save_png
from gnomon.records import Case, Reference, Text


@pytest.fixture
def importable() -> Path:
    """Return the folder of modules that tests name by class path."""
    return Path(__file__).parent / "importable"


@pytest.fixture
def brightness(importable: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module `brightness`, importable by that name."""
    monkeypatch.syspath_prepend(str(importable))
    return import_module("brightness")


@pytest.fixture
def make_dataset(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a dataset of `num_cases` cases with grey sources of rising brightness."""

    def make(num_cases: int = 6, name: str = "cases", instruction: str = "make it brighter") -> Path:
        root = tmp_path / name
        cases = []
        for position in range(num_cases):
            level = 20 + 5 * position
            save_png(Image.new("RGB", (16, 16), (level, level, level)), root / f"images/{position}.png")
            cases.append(
                Case(
                    id=f"case-{position}",
                    benchmark="grey",
                    task=("dark", "light")[position % 2],
                    instruction=Text(en=f"{instruction} {position}"),
                    references=[Reference(path=f"images/{position}.png")],
                )
            )
        write_records(root / "cases.jsonl", cases)
        return root

    return make
