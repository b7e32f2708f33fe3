"""One tiny checkpoint per family, and tests that run over all of them.

A family is a module here, loaded by path: `build(folder, tiny_editor)` saves a checkpoint of the real classes with
random weights, which a seed decides (parts of the FLUX.2-klein in `tiny_editor` may be used again; what several
families share is in `parts.py`). Its constants say what it takes:

* `SETTINGS`: arguments of `DiffusersGenerator`, but for the model;
* `REFERENCES`: how many pictures a case may have;
* `GUIDANCE`: further `pipeline_kwargs` for "off" and, where the family has guidance, "on";
* `CLASSIC_DIFFERS` (optional): why the classic pipeline makes another picture, per name in `GUIDANCE`;
* `UNREACHED` (optional): beginnings of names of layers that only pictures go through, so that an adapter there gets no
  gradient from a case without references.

Tests ask for the fixtures `family`, `guidance` and `num_references` and get all combinations that exist.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from gnomon.records import Case, Text
from rl.generator import DiffusersGenerator

NAMES = (
    "flux3",
    "flux3_distilled",
    "flux_kontext",
    "flux2",
    "flux2_klein",
    "flux2_klein_base",
    "qwen_image",
    "qwen_image_edit",
    "qwen_image_edit_plus",
    "qwen_image_21",
    "qwen_image_21_turbo",
    "sd3",
    "z_image",
)


@dataclass(frozen=True)
class Family:
    """A tiny checkpoint and what the family takes; see the module's docstring."""

    name: str
    folder: Path
    settings: dict[str, Any]
    references: tuple[int, ...]
    guidance: dict[str, dict[str, Any]]
    classic_differs: dict[str, str]
    unreached: tuple[str, ...]

    def arguments(self, guidance: str) -> dict[str, Any]:
        """Return arguments of `DiffusersGenerator` with guidance "off" or "on"."""
        kwargs = {**self.settings.get("pipeline_kwargs", {}), **self.guidance[guidance]}
        return {"model": str(self.folder), **self.settings, "pipeline_kwargs": kwargs}


@cache
def load_module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"rl_family_{name}", Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    axes = [name for name in ("family", "guidance", "num_references") if name in metafunc.fixturenames]
    if "family" not in axes:
        return
    rows: dict[tuple[Any, ...], str] = {}
    for name in NAMES:
        module = load_module(name)
        for guidance in module.GUIDANCE if "guidance" in axes else ("off",):
            for count in module.REFERENCES if "num_references" in axes else (1,):
                values = {"family": name, "guidance": guidance, "num_references": count}
                parts = {"family": name, "guidance": f"guidance_{guidance}", "num_references": f"{count}_references"}
                rows[tuple(values[axis] for axis in axes)] = "-".join(parts[axis] for axis in axes)
    metafunc.parametrize(axes, list(rows), ids=list(rows.values()), indirect=["family"])


@pytest.fixture(scope="session")
def family_folder(tmp_path_factory: pytest.TempPathFactory, tiny_editor: Path) -> Callable[[str], Path]:
    """Return a function that gives a family's checkpoint, built at its first use."""
    root = tmp_path_factory.mktemp("families")

    def folder(name: str) -> Path:
        if not (root / name).is_dir():
            with torch.random.fork_rng():
                torch.manual_seed(0)
                load_module(name).build(root / name, tiny_editor)
        return root / name

    return folder


@pytest.fixture(scope="session")
def family_module() -> Callable[[str], Any]:
    """Return a function that loads a family's module."""
    return load_module


@pytest.fixture
def family(request: pytest.FixtureRequest, family_folder: Callable[[str], Path]) -> Family:
    """Return the family that the test is run for."""
    module = load_module(request.param)
    return Family(
        name=request.param,
        folder=family_folder(request.param),
        settings=module.SETTINGS,
        references=module.REFERENCES,
        guidance=module.GUIDANCE,
        classic_differs=getattr(module, "CLASSIC_DIFFERS", {}),
        unreached=getattr(module, "UNREACHED", ()),
    )


@pytest.fixture(scope="session")
def family_generator() -> Callable[[Family, str], DiffusersGenerator]:
    """Return a function that loads a family's generator once; for tests that do not change it."""
    loaded: dict[tuple[str, str], DiffusersGenerator] = {}

    def generator(family: Family, guidance: str) -> DiffusersGenerator:
        key = (family.name, guidance)
        if key not in loaded:
            loaded[key] = DiffusersGenerator(**family.arguments(guidance))
        return loaded[key]

    return generator


@pytest.fixture
def cases() -> list[Case]:
    """Return two cases with different instructions."""
    return [
        Case(id=name, benchmark="toy", task="recolour", instruction=Text(en=text))
        for name, text in (("a", "make it red"), ("b", "add a hat"))
    ]
