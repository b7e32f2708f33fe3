"""Reward models trained on two ranks: the same weights as on one, every validation pair counted once, exact resume."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

from gnomon.checkpoints import usable_checkpoint
from rm.reward_model import RewardModel
from tests.distributed.launcher import Zygote, strategy_flags

Write = Callable[..., Path]
DIMENSIONS = ["instruction_awareness", "visual_consistency", "overall"]  # of the fourth there are only ties


@pytest.fixture(scope="module")
def config(base_folder: Path, write_comparisons: Write, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four comparisons a step, of which two ranks take two each; five for validation, which two cannot share evenly."""
    folder = tmp_path_factory.mktemp("config")
    settings = {
        "trainer": {
            "accelerator": "cpu",
            "max_steps": 4,
            "val_check_interval": 2,
            "check_val_every_n_epoch": None,
            "gradient_clip_val": 1.0,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "callbacks": [{"class_path": "cpu_deepspeed.Killer"}],
        },
        "model": {
            "base": str(base_folder),
            "dimensions": DIMENSIONS,
            "lora": {"r": 2, "alpha": 4, "dropout": 0.0},
            "uncertainty": True,
            "learning_rate": 0.01,
        },
        "data": {
            "train": str(write_comparisons(folder / "train", 8)),
            "validation": str(write_comparisons(folder / "validation", 5, seed=1)),
            "validation_batch_size": 2,
        },
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    return folder / "config.yaml"


def _fit(zygote: Zygote, config: Path, out: Path, *flags: str, ranks: int = 1, kill_at: str = "") -> list[int]:
    size = ["--data.batch_size", str(4 // ranks)]
    command = ["rm", "fit", "--config", str(config), "--out", str(out), *size, *flags]
    codes, log = zygote.run(command, ranks=ranks, kill_at=kill_at)
    assert kill_at or codes == [0] * ranks, log
    return codes


def _best(run: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)
    return loaded


@pytest.fixture(scope="module")
def whole_run(zygote: Zygote, config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    _fit(zygote, config, out)
    return out


@pytest.mark.parametrize("strategy", ["ddp", "zero2", "zero3"])
def test_two_ranks_learn_what_one_does(
    strategy: str, zygote: Zygote, config: Path, whole_run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    _fit(zygote, config, out, *strategy_flags(strategy), ranks=2)
    one, two = _best(whole_run), _best(out)
    assert one["state_dict"].keys() == two["state_dict"].keys()
    assert one["global_step"] == two["global_step"]
    for name, value in one["state_dict"].items():
        assert value.numel() > 0
        rows = slice(None)
        if name.endswith("head.bias"):
            # What is added to both scores of a pair has no gradient, and Adam makes steps out of its rounding errors.
            rows = slice(len(DIMENSIONS), None)
        torch.testing.assert_close(two["state_dict"][name][rows], value[rows], rtol=0, atol=1e-5, msg=name)
    results = [json.loads((run / "results.json").read_text())["validation"] for run in (whole_run, out)]
    for name in DIMENSIONS:
        assert results[1][name]["n"] == 15  # five comparisons of three pairs, none of them twice
        assert results[1][name]["failures"] == 0
        for key in ("strict", "half_credit", "ci_low", "num_groups"):
            assert results[1][name][key] == pytest.approx(results[0][name][key]), (name, key)
        assert results[1][name]["ece"] == pytest.approx(results[0][name]["ece"], abs=1e-3)
    ours, theirs = RewardModel.from_pretrained(out / "model"), RewardModel.from_pretrained(whole_run / "model")
    torch.testing.assert_close(ours.head.weight, theirs.head.weight, rtol=0, atol=1e-5)


def test_one_rank_moved_the_weights(whole_run: Path, base_folder: Path) -> None:
    """Two runs that learned nothing would be equal too."""
    moved: list[Tensor] = [value for name, value in _best(whole_run)["state_dict"].items() if "lora_B" in name]
    assert max(value.abs().max().item() for value in moved) > 1e-3


@pytest.mark.parametrize("strategy", ["ddp", "zero3"])
def test_two_ranks_go_on_after_a_kill(strategy: str, zygote: Zygote, config: Path, tmp_path: Path) -> None:
    flags = strategy_flags(strategy)
    _fit(zygote, config, tmp_path / "whole", *flags, ranks=2)
    codes = _fit(zygote, config, tmp_path / "killed", *flags, ranks=2, kill_at="batch:1:0")
    assert codes == [-9, -9]
    checkpoint = usable_checkpoint(tmp_path / "killed" / "checkpoints" / "last.ckpt")
    assert checkpoint is not None
    assert checkpoint.is_dir() == (strategy == "zero3")
    _fit(zygote, config, tmp_path / "killed", *flags, ranks=2)
    whole, killed = _best(tmp_path / "whole"), _best(tmp_path / "killed")
    assert whole["global_step"] == killed["global_step"]
    for name, value in whole["state_dict"].items():
        assert torch.equal(killed["state_dict"][name], value), name
