"""Fixtures: a dataset of small grey pictures, a judge of brightness, a generator that copies with noise; checklists."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

from bench.workflow import generate, judge
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


@pytest.fixture(scope="session")
def checklist_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Return two run folders on cases of every family of MDMR-Bench, judged by their checklists."""
    importable = str(Path(__file__).parent / "importable")
    sys.path.insert(0, importable)
    brightness, checklists = import_module("brightness"), import_module("checklists")
    folder = tmp_path_factory.mktemp("checklists")
    checklists.write_cases(folder / "cases")
    generators = {
        "plain <b>copy</b>": brightness.NoisyCopy(),
        "bright": brightness.MoodyCopy({"<case> '3'": "refused"}),
    }
    for position, (name, generator) in enumerate(generators.items()):
        generate(folder / "cases", folder / f"run-{position}", generator, name=name, repeats=2)
        judge(folder / f"run-{position}", checklists.RuleJudge("rules", checklists.seen))
    yield folder / "run-0", folder / "run-1"
    sys.path.remove(importable)
