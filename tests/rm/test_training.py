"""`gnomon rm fit` as a user types it: run, kill, resume, finish, and every refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from gnomon.cli import main
from rm.module import RewardModule
from rm.reward_model import RewardModel

Write = Callable[..., Path]


@pytest.fixture
def arguments(base_folder: Path, write_comparisons: Write, tmp_path: Path) -> list[str]:
    """Arguments of a tiny training: six steps, a validation every second one, passes of four steps."""
    train = write_comparisons(tmp_path / "train", 8)
    validation = write_comparisons(tmp_path / "validation", 4, seed=1)
    settings = {
        "trainer.accelerator": "cpu",
        "trainer.max_steps": 6,
        "trainer.val_check_interval": 2,
        "trainer.check_val_every_n_epoch": "null",
        "trainer.enable_model_summary": "false",
        "trainer.enable_progress_bar": "false",
        "trainer.log_every_n_steps": 1,
        "model.base": base_folder,
        "model.lora.r": 2,
        "model.lora.alpha": 4,
        "model.lora.dropout": 0.2,
        "model.regression_weight": 0.5,
        "model.learning_rate": 0.005,
        "data.train": train,
        "data.validation": validation,
        "data.batch_size": 2,
    }
    return ["rm", "fit", *(f"--{name}={value}" for name, value in settings.items())]


def _weights(out: Path) -> dict[str, torch.Tensor]:
    files = ("adapter_model.safetensors", "head.safetensors")
    return {name: value for file in files for name, value in load_file(out / "model" / file).items()}


def _last(out: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = torch.load(out / "checkpoints/last.ckpt", weights_only=True)
    return loaded


def test_fit_writes_a_reward_model_and_says_when_it_is_finished(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main([*arguments, f"--out={out}"]) == 0, capsys.readouterr().err
    model = RewardModel.from_pretrained(out / "model")
    assert model.dimensions == ("instruction_awareness", "visual_consistency", "visual_quality", "overall")
    results = json.loads((out / "results.json").read_text())
    assert results["steps"] == 6
    assert results["step"] in (2, 4, 6)
    assert results["validation"]["overall"]["n"] == 12
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["status"], manifest["seed"]) == ("finished", 0)
    assert manifest["config"]["model"]["lora"] == {"r": 2, "alpha": 4, "dropout": 0.2, "targets": "language"}
    assert (out / "logs").is_dir()
    assert set(_last(out)["state_dict"]) == {
        name for name in _last(out)["state_dict"] if "lora_" in name or ".head." in name
    }
    before = {file: file.stat().st_mtime_ns for file in (out / "model").iterdir()}
    capsys.readouterr()
    assert main([*arguments, f"--out={out}"]) == 0
    assert "is finished" in capsys.readouterr().out
    assert {file: file.stat().st_mtime_ns for file in (out / "model").iterdir()} == before


@pytest.mark.parametrize("killed_after", [3, 4, 5])
def test_a_killed_training_resumes_to_the_same_bits(
    arguments: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    killed_after: int,
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert main([*arguments, f"--out={whole}"]) == 0

    class Killed(BaseException):
        pass

    step = RewardModule.training_step

    def dying(self: RewardModule, batch: Any, batch_idx: int) -> Any:
        if self.global_step == killed_after:
            raise Killed
        return step(self, batch, batch_idx)

    with monkeypatch.context() as patched:
        patched.setattr(RewardModule, "training_step", dying)
        with pytest.raises(Killed):
            main([*arguments, f"--out={killed}"])
    assert not (killed / "model").exists()
    torch.rand(5)  # the second process starts with another state of the generator
    capsys.readouterr()
    assert main([*arguments, f"--out={killed}"]) == 0
    assert "resuming" in capsys.readouterr().out
    first, second = _last(whole), _last(killed)
    assert first["global_step"] == second["global_step"] == 6
    for name, value in first["state_dict"].items():
        assert torch.equal(second["state_dict"][name], value), name
    assert json.loads((whole / "results.json").read_text()) == json.loads((killed / "results.json").read_text())
    for name, value in _weights(whole).items():
        assert torch.equal(_weights(killed)[name], value), name


def test_what_is_wrong_is_said_before_a_folder_is_made(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    cases = [
        (["--model.los=bt"], "model.los", 2),
        (["--model.loss=bt"], "model.loss", 2),
        (["--model.base=nowhere"], "no such folder", 1),
        (["--model.lora.targets=all"], "lora.targets", 1),
        ([f"--data.train={tmp_path / 'nothing'}"], "comparisons.jsonl", 1),
        (["--data.batch_size=100"], "smaller batch size", 1),
    ]
    for extra, message, code in cases:
        assert main([*arguments, f"--out={out}", *extra]) == code
        assert message in capsys.readouterr().err
        assert not out.exists(), extra


def test_a_run_without_validation_says_so(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shortened = [*arguments, "--trainer.max_steps=1", f"--out={tmp_path / 'run'}"]
    assert main(shortened) == 1
    assert "no validation ran" in capsys.readouterr().err


def test_another_config_does_not_go_on_in_the_folder(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = f"--out={tmp_path / 'run'}"
    assert main([*arguments, "--trainer.max_steps=2", out]) == 0
    assert main([*arguments, "--trainer.max_steps=4", out]) == 1
    assert "trainer.max_steps" in capsys.readouterr().err


def test_the_seed_reaches_model_and_data(arguments: list[str], tmp_path: Path) -> None:
    for seed in (1, 2):
        out = tmp_path / str(seed)
        assert main([*arguments, "--trainer.max_steps=2", f"--seed_everything={seed}", f"--out={out}"]) == 0
        assert json.loads((out / "manifest.json").read_text())["seed"] == seed
    first, second = _weights(tmp_path / "1"), _weights(tmp_path / "2")
    assert not any(torch.equal(first[name], second[name]) for name in first if "lora_A" in name or name == "weight")
