"""A tiny random FLUX.2-klein editor of the real classes, and small folders of cases to edit with it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gnomon.datasets import write_records
from gnomon.images import save_png
from gnomon.records import Case, Reference, Text
from tests import flux2_klein

PIPELINE_KWARGS = flux2_klein.PIPELINE_KWARGS


@pytest.fixture(scope="session")
def tiny_editor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return flux2_klein.build(tmp_path_factory.mktemp("tiny_editor"))


def make_case(index: int, num_references: int = 1) -> Case:
    return Case(
        id=f"case-{index}",
        benchmark="toy",
        task="recolour",
        instruction=Text(en=f"make it {index}", zh=f"变成{index}"),
        references=[Reference(path=f"images/{index}_{place}.png") for place in range(num_references)],
    )


@pytest.fixture(scope="session")
def pictures() -> list[Image.Image]:
    """Return four different pictures of 64 x 64."""
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)) for _ in range(4)]


@pytest.fixture(scope="session")
def case_folders(tmp_path_factory: pytest.TempPathFactory, pictures: list[Image.Image]) -> tuple[Path, Path]:
    """Write two folders, 5 cases to train on and 3 held out; every third case has two references."""
    folders = []
    for name, indices in (("train", range(5)), ("validation", range(5, 8))):
        root = tmp_path_factory.mktemp(name)
        cases = [make_case(index, 2 if index % 3 == 2 else 1) for index in indices]
        for case in cases:
            for place, reference in enumerate(case.references):
                save_png(pictures[place], root / reference.path)
        write_records(root / "cases.jsonl", cases)
        folders.append(root)
    return folders[0], folders[1]


TOY_REWARDS = '''
"""Rewards that need no judge, as a user would write them into a file of their own."""

import numpy as np
import torch

from rl.rewards import RewardOutput


class Brightness:
    """Mean of all channels, 0..1."""

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    def __call__(self, *, cases, references, images):
        values = torch.tensor([float(np.asarray(image).mean()) / 255 * self.scale for image in images])
        return RewardOutput(values, {"brightness": values}, torch.zeros(len(images), dtype=torch.bool))
'''


@pytest.fixture
def toy_rewards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Make `toy_rewards` importable, for class paths in configs, and return it."""
    folder = tmp_path / "user_code"
    folder.mkdir()
    (folder / "toy_rewards.py").write_text(TOY_REWARDS)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "toy_rewards", raising=False)
    return importlib.import_module("toy_rewards")


@pytest.fixture
def build(generator_settings: dict[str, Any], toy_rewards: ModuleType) -> Callable[..., Any]:
    """Return a function that makes a `PolicyTraining` which learns brightness; its arguments replace any of these."""
    from rl.algorithms import FlowGRPO
    from rl.generator import DiffusersGenerator
    from rl.module import PolicyTraining
    from rl.settings import AdvantageSettings, LoraSettings, OptimizerSettings

    def make(**changes: Any) -> PolicyTraining:
        arguments = {
            "generator": DiffusersGenerator(**generator_settings),
            "reward": toy_rewards.Brightness(),
            "algorithm": FlowGRPO(clip_low=2e-3, clip_high=2e-3),
            "advantage": AdvantageSettings(epsilon=0.02),
            "lora": LoraSettings(rank=4, alpha=8),
            "optimizer": OptimizerSettings(learning_rate=1e-2),
        }
        return PolicyTraining(**(arguments | changes))

    return make


@pytest.fixture
def generator_settings(tiny_editor: Path) -> dict[str, Any]:
    """Return arguments of a `DiffusersGenerator` that takes 5 steps to a picture of 64 x 64."""
    return {
        "model": str(tiny_editor),
        "num_inference_steps": 5,
        "height": 64,
        "width": 64,
        "pipeline_kwargs": PIPELINE_KWARGS,
    }
