"""The shipped recipes run two steps on a tiny twin: the same settings, but for base, data, sizes and devices."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gnomon.cli import main
from rm.reward_model import RewardModel

Write = Callable[..., Path]
CONFIGS = Path(__file__).parents[2] / "configs" / "rm"
RECIPES = sorted(path.stem for path in CONFIGS.glob("*.yaml") if "model" in yaml.safe_load(path.read_text()))


def test_recipes_of_every_announced_kind_are_there() -> None:
    assert {"tabletop", "qwen3_vl_2b_lora", "qwen3_vl_4b_lora", "qwen3_vl_8b_lora", "qwen3_vl_8b_qlora"} <= set(RECIPES)


@pytest.mark.filterwarnings("ignore:.*judgements in dimensions that the model has no head for")
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_trains_its_twin(recipe: str, base_folder: Path, write_comparisons: Write, tmp_path: Path) -> None:
    train, validation = write_comparisons(tmp_path / "train", 6), write_comparisons(tmp_path / "validation", 4, seed=1)
    settings = yaml.safe_load((CONFIGS / f"{recipe}.yaml").read_text())
    code = main(
        [
            *("rm", "fit", "--config", str(CONFIGS / f"{recipe}.yaml"), "--out", str(tmp_path / "run")),
            *("--model.base", str(base_folder), "--data.train", str(train), "--data.validation", str(validation)),
            *("--trainer.accelerator", "cpu", "--trainer.devices", "1", "--trainer.strategy", "auto"),
            *("--trainer.max_steps", "2", "--trainer.max_epochs", "-1", "--trainer.val_check_interval", "2"),
            *("--trainer.accumulate_grad_batches", "2", "--trainer.enable_progress_bar", "false"),
            # The twin's data has nothing but ties in the fourth.
            *("--model.dimensions", "[instruction_awareness,visual_consistency,overall]"),
            *("--model.learning_rate", "0.01", "--data.batch_size", "2", "--data.num_workers", "0"),
            *([] if settings["model"].get("max_pixels") is None else ["--model.max_pixels", "1024"]),
        ]
    )
    assert code == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["validation"]["overall"]["n"] == 12
    model = RewardModel.from_pretrained(tmp_path / "run" / "model")
    assert model.head.uncertainty == settings["model"].get("uncertainty", False)
    assert model.quantize == settings["model"].get("quantize")
    assert set(model.temperatures) == set(model.dimensions)
