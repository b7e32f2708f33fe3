"""`gnomon rl fit` and `rl export` through the real command line: resume after a kill, bad input, what is kept."""

from __future__ import annotations

import importlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import yaml
from pytorch_lightning import Trainer
from safetensors.torch import load_file

from gnomon.cli import main
from gnomon.runs import RunFolder, read_manifest
from rl.callbacks import CurvePoint, KeepLora, WriteCurve, read_curve
from rl.module import PolicyTraining
from rl.samplers import sde_window
from rl.settings import RolloutSettings
from rl.training import RLCommandLine, parse

Run = Callable[..., int]


@pytest.fixture
def config(
    tmp_path: Path, generator_settings: dict[str, Any], case_folders: tuple[Path, Path], toy_rewards: ModuleType
) -> Path:
    settings = {
        "trainer": {
            "max_epochs": 3,
            "accelerator": "cpu",
            "accumulate_grad_batches": 2,
            "check_val_every_n_epoch": 1,
            "enable_progress_bar": False,
        },
        "model": {
            "generator": {"class_path": "rl.generator.DiffusersGenerator", "init_args": generator_settings},
            "reward": {"class_path": "toy_rewards.Brightness"},
            "monitors": {"half": {"class_path": "toy_rewards.Brightness", "init_args": {"scale": 0.5}}},
            "algorithm": {
                "class_path": "rl.algorithms.FlowGRPO", "init_args": {"clip_low": 2e-3, "clip_high": 2e-3},
            },
            "rollout": {
                "num_prompts": 3, "num_candidates": 4, "micro_batch_size": 6, "window_size": 2, "window_last": 1,
            },
            "lora": {"rank": 4, "alpha": 8},
            "optimizer": {"learning_rate": 1e-2},
        },
        "data": {"train": str(case_folders[0]), "validation": str(case_folders[1])},
    }  # fmt: skip
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


@pytest.fixture
def run(config: Path) -> Run:
    def command(out: Path, *overrides: str) -> int:
        return main(["rl", "fit", "--config", str(config), "--out", str(out), *overrides])

    return command


def test_a_run_leaves_adapters_a_curve_and_a_small_checkpoint_and_then_says_that_it_is_finished(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(out) == 0
    manifest = read_manifest(out)
    assert manifest is not None
    assert (manifest.status, manifest.seed) == ("finished", 0)
    code = ["monitors.half.class_path", "reward.class_path"]
    assert sorted(manifest.inputs) == ["generator.init_args.model", *code, "train", "validation"]
    curve = read_curve(out)
    assert [(point.iteration, point.kind) for point in curve] == [
        (0, "validation"),
        *((iteration, kind) for iteration in (1, 2, 3) for kind in ("train", "validation")),
    ]
    assert curve[0].metrics["validation/half"] == pytest.approx((curve[0].metrics["validation/reward"] or 0) / 2)
    assert {"rollout/reward_mean", "train/grad_norm", "time/iteration"} <= set(curve[1].metrics)

    rewards = [point.metrics["validation/reward"] or 0.0 for point in curve if point.kind == "validation"]
    best = json.loads((out / "lora" / "best" / "iteration.json").read_text())
    assert best == {"iteration": rewards.index(max(rewards)), "validation_reward": max(rewards)}
    assert json.loads((out / "lora" / "last" / "iteration.json").read_text())["iteration"] == 3

    state = torch.load(out / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    assert all("lora_" in name for name in state)
    last = load_file(out / "lora" / "last" / "pytorch_lora_weights.safetensors")
    assert len(last) == len(state) == 28

    capsys.readouterr()
    assert run(out) == 0
    assert "is finished" in capsys.readouterr().out


def test_a_run_that_was_stopped_at_any_point_ends_like_an_uninterrupted_one(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert run(whole) == 0

    def stop_before_validation(self: KeepLora, trainer: Trainer, pl_module: PolicyTraining) -> None:
        if trainer.state.fn == "fit" and trainer.current_epoch == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(KeepLora, "on_validation_start", stop_before_validation)
        assert run(stopped) == 130
    manifest = read_manifest(stopped)
    assert manifest is not None
    assert manifest.status == "interrupted"

    def stop_before_checkpoint(self: WriteCurve, trainer: Trainer, pl_module: PolicyTraining) -> None:
        # The curve of this iteration is written, its checkpoint is not.
        write(self, trainer, pl_module)
        if trainer.current_epoch == 2:
            raise KeyboardInterrupt

    write = WriteCurve.on_train_epoch_end
    with monkeypatch.context() as patch:
        patch.setattr(WriteCurve, "on_train_epoch_end", stop_before_checkpoint)
        assert run(stopped) == 130

    def stop_before_the_last_adapter(self: KeepLora, trainer: Trainer, pl_module: PolicyTraining) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(KeepLora, "save_last", stop_before_the_last_adapter)
        assert run(stopped) == 130
    assert run(stopped) == 0
    assert "resuming" in capsys.readouterr().out

    for name in ("best", "last"):
        expected = load_file(whole / "lora" / name / "pytorch_lora_weights.safetensors")
        for key, value in load_file(stopped / "lora" / name / "pytorch_lora_weights.safetensors").items():
            assert torch.equal(value, expected[key])
    assert without_times(read_curve(stopped)) == without_times(read_curve(whole))


def without_times(points: list[CurvePoint]) -> list[tuple[str, int, dict[str, float | None]]]:
    return [
        (point.kind, point.iteration, {k: v for k, v in point.metrics.items() if not k.startswith("time/")})
        for point in points
    ]


def test_export_tries_the_adapter_in_the_stock_pipeline_first(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(out, "--trainer.max_epochs", "1") == 0
    for which in ("best", "last"):
        target = tmp_path / which
        assert main(["rl", "export", str(out), str(target), "--which", which]) == 0
        assert "Flux2KleinPipeline with it makes our picture" in capsys.readouterr().out
        exported = (target / "pytorch_lora_weights.safetensors").read_bytes()
        assert exported == (out / "lora" / which / "pytorch_lora_weights.safetensors").read_bytes()
    assert main(["rl", "export", str(tmp_path), str(tmp_path / "x")]) == 1
    assert "expected a folder of `gnomon rl fit`" in capsys.readouterr().err


def test_without_held_out_cases_there_is_only_a_last_adapter(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(out, "--trainer.max_epochs", "1", "--data.validation", "null") == 0
    assert [folder.name for folder in (out / "lora").iterdir()] == ["last"]
    assert main(["rl", "export", str(out), str(tmp_path / "lora")]) == 1
    assert "'best' needs a validation" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("overrides", "code", "message"),
    [
        (["--model.rollout.num_promts", "2"], 2, "num_promts"),
        (["--model.generator.init_args.steps", "2"], 2, "steps"),
        (["--model.reward.class_path", "toy_rewards.Missing"], 2, "Missing"),
        (["--trainer.accumulate_grad_batches", "3"], 1, "divide the 4 micro-batches"),
        (["--model.rollout.micro_batch_size", "5"], 1, "3 x 4 = 12, got 5"),
        (["--model.lora.targets", "[nothing]"], 1, "nothing matches nothing"),
        (["--data.train", "/no/such/folder"], 1, "/no/such/folder"),
        (["--data.validation", "/no/such/folder"], 1, "/no/such/folder"),
        (["--model.rollout.num_prompts", "6"], 1, "got 5; give more cases, or lower num_prompts"),
        (["--model.rollout.window_last", "9"], 1, "make last at most 2"),
        (["--model.rollout.num_candidates", "1"], 1, "model.rollout.num_candidates >= 2"),
        (["--model.generator.init_args.num_inference_steps", "0"], 1, "num_inference_steps"),
        (["--model.monitors.reward", "toy_rewards.Brightness"], 1, "model.monitors"),
        (["--trainer.precision", "bf16-true"], 1, "Use bf16-mixed"),
        (["--trainer.devices", "5"], 1, "5 ranks (trainer.devices"),
        (["--trainer.devices", "two"], 1, "trainer.devices to be a number"),
        (["--trainer.limit_train_batches", "2"], 1, "trainer.limit_train_batches to be left alone, got 2"),
        (["--trainer.max_steps", "3"], 1, "with trainer.max_epochs how many"),
        (["--trainer.use_distributed_sampler", "true"], 1, "trainer.use_distributed_sampler"),
    ],
)
def test_bad_input_names_the_thing(
    overrides: list[str],
    code: int,
    message: str,
    run: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(RLCommandLine, "load", lambda self: pytest.fail("the models are loaded first"))
        assert run(tmp_path / "run", *overrides) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_model_that_is_nowhere_is_named(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "run", "--model.generator.init_args.model", "/no/such/model") == 1
    assert "/no/such/model" in capsys.readouterr().err


def test_a_picture_that_cannot_be_read_is_named_before_anything_is_loaded(
    run: Run, case_folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(case_folders[0], folder)
    (folder / "images" / "4_0.png").write_bytes(b"no picture")
    assert run(tmp_path / "run", "--data.train", str(folder)) == 1
    assert "4_0.png" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_folder_that_another_process_trains_in_is_refused_by_name(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    with RunFolder.hold(out, command="rl fit", config={}, seed=0):
        assert run(out) == 1
    assert f"{out} is in use by process {os.getpid()}" in capsys.readouterr().err


def test_what_is_only_seen_of_a_run_may_change_between_its_starts(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(out, "--trainer.max_epochs", "1") == 0
    shown = ["--trainer.enable_progress_bar", "true", "--trainer.log_every_n_steps", "7", "--tracker", "tensorboard"]
    assert run(out, "--trainer.max_epochs", "1", *shown) == 0
    assert "is finished" in capsys.readouterr().out


def test_a_folder_of_another_run_is_refused_with_the_keys_that_differ(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(out, "--trainer.max_epochs", "1") == 0
    assert run(out, "--trainer.max_epochs", "1", "--model.rollout.noise_level", "0.5") == 1
    assert "noise_level" in capsys.readouterr().err


RECIPES = sorted((Path(__file__).parents[2] / "configs" / "rl").glob("*.yaml"))
HEADER = ("Command:", "Data:", "Hardware:", "Memory:", "Expect:")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_read_by_the_real_parser_and_its_batches_fit_together(recipe: Path, tmp_path: Path) -> None:
    settings = parse(["--config", str(recipe), "--out", str(tmp_path)]).resolved_config()
    model, trainer = settings["model"], settings["trainer"]
    module, _, name = model["algorithm"]["class_path"].rpartition(".")
    algorithm = getattr(importlib.import_module(module), name)(**model["algorithm"]["init_args"])
    rollout = RolloutSettings(**model["rollout"])
    steps = model["generator"]["init_args"]["num_inference_steps"] or 8  # the tiny editor's gnomon.json says 8
    layout = rollout.layout(
        accumulate=trainer["accumulate_grad_batches"],
        trained_steps=algorithm.num_trained_steps(rollout.window_size, steps),
        num_ranks=1 if trainer["devices"] == "auto" else trainer["devices"],
    )
    assert layout.optimizer_steps == (1 if recipe.stem == "qwen_image_edit_plus_nft" else 2)
    if algorithm.stochastic:
        sde_window(0, 0, steps, rollout.window_size, rollout.window_first, rollout.window_last)
    lines = recipe.read_text().splitlines()
    header = [line[2:] for line in lines[: lines.index("seed_everything: 0")] if line.startswith("# ")]
    wanted = HEADER if recipe.stem.startswith(("tabletop", "puzzle")) else (*HEADER, "Reward:", "To beat:")
    assert [word for word in wanted if not any(line.startswith(word) for line in header)] == []
