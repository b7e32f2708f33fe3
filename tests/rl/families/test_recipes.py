"""The shipped recipes run on tiny twins: the same settings, but for sizes, data, reward and devices."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from PIL.Image import Image

from gnomon.cli import main
from gnomon.datasets import write_records
from gnomon.images import save_png
from gnomon.records import Case, Reference, Text
from rl.callbacks import read_curve

CONFIGS = Path(__file__).parents[3] / "configs" / "rl"
TWINS = {
    "tabletop": "flux2_klein",
    "tabletop_nft": "flux2_klein",
    "puzzle_optimal_path": "flux2_klein",
    "flux2_klein_grpo": "flux2_klein",
    "flux1_kontext_grpo": "flux_kontext",
    "qwen_image_edit_plus_grpo_cps": "qwen_image_edit_plus",
    "qwen_image_edit_plus_nft": "qwen_image_edit_plus",
}


@pytest.fixture
def one_reference_cases(tmp_path: Path, pictures: list[Image]) -> Path:
    """Write two cases with a picture each."""
    root = tmp_path / "cases"
    save_png(pictures[0], root / "a.png")
    write_records(
        root / "cases.jsonl",
        [
            Case(id=name, benchmark="toy", task="x", instruction=Text(en=f"make {name} red"),
                 references=[Reference(path="a.png")])
            for name in "ab"
        ],
    )  # fmt: skip
    return root


def test_every_recipe_has_a_twin() -> None:
    assert {path.stem for path in CONFIGS.glob("*.yaml")} == set(TWINS)


@pytest.mark.parametrize("recipe", TWINS)
def test_a_recipe_takes_its_optimizer_steps_on_its_twin(
    recipe: str,
    family_folder: Callable[[str], Path],
    one_reference_cases: Path,
    toy_rewards: ModuleType,
    tmp_path: Path,
) -> None:
    config = yaml.safe_load((CONFIGS / f"{recipe}.yaml").read_text())
    model, arguments = config["model"], config["model"]["generator"]["init_args"]
    twin: Any = importlib.import_module(f"tests.rl.families.{TWINS[recipe]}")
    module, _, name = model["algorithm"]["class_path"].rpartition(".")
    algorithm = getattr(importlib.import_module(module), name)(**model["algorithm"]["init_args"])
    schedule = arguments.get("num_inference_steps", 8)  # the tiny editor's gnomon.json says 8
    steps = algorithm.num_trained_steps(model["rollout"].get("window_size", 3), schedule)
    kwargs = {**arguments.get("pipeline_kwargs", {}), **twin.SETTINGS.get("pipeline_kwargs", {})}
    changes = {
        "trainer.accelerator": "cpu", "trainer.devices": 1, "trainer.strategy": "auto", "trainer.max_epochs": 1,
        "trainer.accumulate_grad_batches": steps, "trainer.enable_progress_bar": "false",
        "model.generator.init_args.model": family_folder(TWINS[recipe]),
        "model.generator.init_args.num_inference_steps": schedule,
        "model.generator.init_args.height": twin.SETTINGS["height"],
        "model.generator.init_args.width": twin.SETTINGS["width"],
        "model.generator.init_args.pipeline_kwargs": json.dumps(kwargs),
        "model.reward.class_path": "toy_rewards.Brightness",
        "model.rollout.num_prompts": 2, "model.rollout.num_candidates": 2, "model.rollout.micro_batch_size": 2,
        "model.lora.rank": 4,
        "data.train": one_reference_cases, "data.validation": "null",
    }  # fmt: skip
    flags = [part for key, value in changes.items() for part in (f"--{key}", str(value))]
    out = tmp_path / "run"
    assert main(["rl", "fit", "--config", str(CONFIGS / f"{recipe}.yaml"), "--out", str(out), *flags]) == 0
    (point,) = read_curve(out)
    assert (point.metrics["train/grad_norm"] or 0) > 0
    if algorithm.stochastic:
        assert 0 <= (point.metrics["train/log_prob_gap"] or 0.0) < 1e-2  # with weights in bfloat16
    assert (out / "lora" / "last" / "pytorch_lora_weights.safetensors").is_file()
    assert (out / "lora" / "ema").is_dir() == ("ema" in model)
