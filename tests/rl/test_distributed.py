"""Trainings on two ranks and across kills: real processes, gloo between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch import Tensor

from gnomon.checkpoints import usable_checkpoint
from gnomon.runs import read_manifest
from rl.callbacks import read_curve
from tests.distributed.launcher import Zygote, strategy_flags

ALGORITHMS = {
    "grpo": {"class_path": "rl.algorithms.FlowGRPO", "init_args": {"ratio_tolerance": 1e-5, "kl_weight": 0.1}},
    "nft": {"class_path": "rl.algorithms.DiffusionNFT", "init_args": {"eta_start": 1, "eta_rate": 0.1}},
}


def _train(zygote: Zygote, config: Path, out: Path, *flags: str, ranks: int = 1) -> None:
    """Run `gnomon rl fit`, which has to succeed on all ranks."""
    codes, log = zygote.run(["rl", "fit", "--config", str(config), "--out", str(out), *flags], ranks=ranks)
    assert codes == [0] * ranks, log


@pytest.fixture(scope="module")
def configs(
    tmp_path_factory: pytest.TempPathFactory, tiny_editor: Path, case_folders: tuple[Path, Path]
) -> dict[str, Path]:
    """Write one config per algorithm: 4 groups of 4, of which three have one reference and one has two."""
    folder = tmp_path_factory.mktemp("configs")
    paths = {}
    for name, algorithm in ALGORITHMS.items():
        settings = {
            "trainer": {
                "max_epochs": 3,
                "accelerator": "cpu",
                "enable_progress_bar": False,
                "gradient_clip_val": 1.0,
                "callbacks": [{"class_path": "cpu_deepspeed.Killer"}],
            },
            "model": {
                "generator": {
                    "class_path": "rl.generator.DiffusersGenerator",
                    "init_args": {
                        "model": str(tiny_editor),
                        "num_inference_steps": 4,
                        "height": 64,
                        "width": 64,
                        "batch_size": 3,
                        "pipeline_kwargs": {"max_sequence_length": 12, "text_encoder_out_layers": [1, 2]},
                    },
                },
                "reward": {"class_path": "cpu_deepspeed.Brightness", "init_args": {"fails": "case-3"}},
                "algorithm": algorithm,
                "rollout": {
                    "num_prompts": 4, "num_candidates": 4, "micro_batch_size": 4, "window_size": 2, "window_last": 0,
                    "max_failed_share": 0.5,
                },
                "lora": {"rank": 4, "alpha": 8},
                "optimizer": {"learning_rate": 1e-3},
                "ema": {"decay": 0.5},
            },
            "data": {"train": str(case_folders[0]), "validation": str(case_folders[1]), "validation_batch_size": 2},
        }  # fmt: skip
        paths[name] = folder / f"{name}.yaml"
        paths[name].write_text(yaml.safe_dump(settings))
    return paths


@pytest.fixture(scope="module")
def whole_runs(zygote: Zygote, configs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Train once per algorithm on one rank, with as many optimizer steps per iteration as two ranks have."""
    folder = tmp_path_factory.mktemp("whole")
    for name, config in configs.items():
        _train(zygote, config, folder / name, *_steps(name, ranks=1))
    return {name: folder / name for name in configs}


def _steps(algorithm: str, *, ranks: int) -> list[str]:
    # 16 samples / 4 per micro-batch x 2 or 3 trained steps; one optimizer step, so that all ranks see all of them.
    micro_batches = 4 * {"grpo": 2, "nft": 3}[algorithm]
    return ["--trainer.accumulate_grad_batches", str(micro_batches // ranks)]


def _adapters(run: Path) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name in ("best", "last", "ema"):
        weights = load_file(run / "lora" / name / "pytorch_lora_weights.safetensors")
        found |= {f"{name}.{key}": value for key, value in weights.items()}
    return found


def _metrics(run: Path) -> dict[tuple[int, str, str], float | None]:
    return {
        (point.iteration, point.kind, name): value
        for point in read_curve(run)
        for name, value in point.metrics.items()
        if not name.startswith("time/")
    }


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
@pytest.mark.parametrize("strategy", ["ddp", "zero2", "zero3"])
def test_two_ranks_do_what_one_does(
    strategy: str, algorithm: str, zygote: Zygote, configs: dict[str, Path], whole_runs: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    _train(zygote, configs[algorithm], out, *strategy_flags(strategy), *_steps(algorithm, ranks=2), ranks=2)
    one, two = _adapters(whole_runs[algorithm]), _adapters(out)
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=0, atol=1e-5)
    changes = [value.abs().max().item() for name, value in one.items() if "last" in name and "lora_B" in name]
    assert max(changes) > 1e-3  # two runs that learned nothing would be equal too

    expected = _metrics(whole_runs[algorithm])
    found = _metrics(out)
    assert expected.keys() == found.keys()
    for key, number in expected.items():
        assert found[key] == pytest.approx(number, rel=1e-3, abs=1e-5), key
    manifest = read_manifest(out)
    assert manifest is not None
    assert (manifest.status, manifest.num_starts) == ("finished", 1)
    assert len(read_curve(out)) == 3 + 4


# --------------------------------------------------------------------------------------------------------------- kills


def _assert_same(found: Any, expected: Any, place: str) -> None:
    assert type(found) is type(expected), place
    if isinstance(expected, Tensor):
        assert torch.equal(found, expected), place
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), place
        for key, value in expected.items():
            _assert_same(found[key], value, f"{place}.{key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), place
        for number, value in enumerate(expected):
            _assert_same(found[number], value, f"{place}.{number}")
    else:
        assert found == expected, place


@pytest.mark.parametrize(
    ("algorithm", "places"),
    [
        ("grpo", ["reward:0:5", "batch:1:1", "end:1:0"]),
        ("nft", ["batch:0:4", "checkpoint:1:0"]),
    ],
)
def test_a_run_that_is_killed_again_and_again_ends_like_an_uninterrupted_one(
    algorithm: str,
    places: list[str],
    zygote: Zygote,
    configs: dict[str, Path],
    whole_runs: dict[str, Path],
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    arguments = ["rl", "fit", "--config", str(configs[algorithm]), "--out", str(out), *_steps(algorithm, ranks=1)]
    for place in places:
        codes, log = zygote.run(arguments, kill_at=place)
        assert codes == [-9], f"{place}: {log}"
    codes, log = zygote.run(arguments)
    assert codes == [0], log
    assert "resuming" in log
    whole = whole_runs[algorithm]
    for name in ("best", "last", "ema"):
        file = Path("lora") / name / "pytorch_lora_weights.safetensors"
        assert (out / file).read_bytes() == (whole / file).read_bytes(), name
    assert _metrics(out) == _metrics(whole)

    checkpoints = [torch.load(run / "checkpoints" / "last.ckpt", weights_only=True) for run in (out, whole)]
    found, expected = checkpoints
    assert {"state_dict", "optimizer_states", "ema", "policy_copies"} <= expected.keys()
    for key in ("state_dict", "optimizer_states", "ema", "policy_copies", "hacking_watch", "epoch", "global_step"):
        _assert_same(found[key], expected[key], key)
    assert len(expected["policy_copies"]) == (1 if algorithm == "nft" else 0)


def test_two_sharded_ranks_go_on_after_a_kill(zygote: Zygote, configs: dict[str, Path], tmp_path: Path) -> None:
    common = [*strategy_flags("zero3"), *_steps("nft", ranks=2)]
    _train(zygote, configs["nft"], tmp_path / "whole", *common, ranks=2)
    arguments = ["rl", "fit", "--config", str(configs["nft"]), "--out", str(tmp_path / "killed"), *common]
    codes, log = zygote.run(arguments, ranks=2, kill_at="batch:1:0")
    assert codes == [-9, -9], log
    checkpoint = usable_checkpoint(tmp_path / "killed" / "checkpoints" / "last.ckpt")
    assert checkpoint is not None
    assert checkpoint.is_dir()
    codes, log = zygote.run(arguments, ranks=2)
    assert codes == [0, 0], log
    whole = _adapters(tmp_path / "whole")
    for name, value in _adapters(tmp_path / "killed").items():
        assert torch.equal(value, whole[name]), name


def test_every_rank_sees_that_a_run_is_finished(
    zygote: Zygote, configs: dict[str, Path], whole_runs: dict[str, Path]
) -> None:
    arguments = ["rl", "fit", "--config", str(configs["grpo"]), "--out", str(whole_runs["grpo"])]
    codes, log = zygote.run([*arguments, *_steps("grpo", ranks=1)], ranks=2)
    assert codes == [0, 0], log
    assert log.count("is finished") == 2


# -------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("place", ["user/validation:1", "reward:1", "user/reward:0", "replay:1", "user/training:1"])
def test_an_error_of_one_rank_ends_all_with_its_words(
    place: str, zygote: Zygote, configs: dict[str, Path], tmp_path: Path
) -> None:
    arguments = ["rl", "fit", "--config", str(configs["grpo"]), "--out", str(tmp_path / "run"), *strategy_flags("ddp")]
    failing = ["--model.algorithm", "cpu_deepspeed.Failing", *_steps("grpo", ranks=2), "--trainer.max_epochs", "1"]
    codes, log = zygote.run([*arguments, *failing], ranks=2, raise_at=place)
    assert codes == [1, 1], log
    part, _, rank = place.removeprefix("user/").partition(":")
    wanted = f"nothing works in {part}"
    logs = log.split("\n----\n")
    assert all(wanted in one for one in logs), log
    assert f"rank {rank}" in logs[1 - int(rank)]
    assert "onnection" not in log  # nobody found out by the silence of another rank
    manifest = read_manifest(tmp_path / "run")
    assert manifest is not None
    assert manifest.status == "failed"
    assert wanted in (manifest.error or "")
