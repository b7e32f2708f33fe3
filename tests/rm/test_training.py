"""`gnomon rm fit` as a user types it: run, kill, resume, finish, and every refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.utilities import rank_zero_only
from safetensors.torch import load_file

from gnomon.cli import main
from gnomon.datasets import COMPARISONS, read_comparisons, write_records
from gnomon.training import run_folder_of_rank_zero
from rm.data import EDITREWARD_COMPASS
from rm.module import RewardModule
from rm.reward_model import RewardModel
from rm.training import COMMAND, parse

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
        "model.loss": "rao_kupper",  # the pairs are all tied in one dimension
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


def test_reading_references_once_trains_the_same_judge(arguments: list[str], tmp_path: Path) -> None:
    weights = []
    for share in ("false", "true"):
        out = tmp_path / share
        flags = ["--model.lora.dropout=0", f"--model.share_prefix={share}", f"--out={out}"]
        assert main([*arguments, *flags]) == 0
        weights.append(_weights(out))
    whole, packed = weights
    assert max(value.abs().max() for name, value in whole.items() if "lora_B" in name) > 1e-3
    for name, value in whole.items():
        # A bias that is added to both scores of a pair has no gradient: Adam makes steps out of its rounding errors.
        if name != "bias":
            torch.testing.assert_close(packed[name], value, rtol=0, atol=1e-4, msg=name)


ACCUMULATING = ["--trainer.accumulate_grad_batches=3", "--trainer.val_check_interval=6", "--data.batch_size=1"]


@pytest.mark.parametrize(
    ("killed_after", "extra"),
    [(3, []), (4, []), (5, []), (3, ACCUMULATING), (5, ACCUMULATING)],
    ids=["3", "4", "5", "3 steps of several batches", "5 steps of several batches"],
)
def test_a_killed_training_resumes_to_the_same_bits(
    arguments: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    killed_after: int,
    extra: list[str],
) -> None:
    arguments += extra
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
        (["--trainer.accumulate_grad_batches=5", "--trainer.val_check_interval=5"], "smaller batch size", 1),
        ([f"--data.validation={tmp_path / 'train'}"], "8 of", 1),
        (["--trainer.accumulate_grad_batches=2", "--trainer.val_check_interval=3"], "trainer.val_check_interval", 1),
        (["--trainer.accumulate_grad_batches=2", "--trainer.val_check_interval=0.5"], "got 0.5", 1),
        (["--trainer.accumulate_grad_batches=2", "--trainer.limit_train_batches=3"], "trainer.limit_train_batches", 1),
        (["--model.loss=bradley_terry"], "for visual_quality (", 1),
        (["--data.validation=null"], "got none; give data.validation, or data.editreward_compass", 1),
        ([f"--data.editreward_compass={tmp_path / 'validation'}"], "got data.validation and data.editreward_comp", 1),
        (
            ["--data.validation=null", f"--data.editreward_compass={tmp_path / 'validation'}"],
            "expected nothing but EditReward-Compass in data.editreward_compass, 4 comparisons of",
            1,
        ),
    ]
    for extra, message, code in cases:
        assert main([*arguments, f"--out={out}", *extra]) == code
        assert message in capsys.readouterr().err
        assert not out.exists(), extra


def _leave_out(folder: Path, dimension: str) -> None:
    """Take all that is said in a dimension out of a comparison folder."""
    comparisons = read_comparisons(folder)
    for comparison in comparisons:
        comparison.judgements[:] = [judged for judged in comparison.judgements if judged.dimension != dimension]
        for candidate in comparison.candidates:
            candidate.scores.pop(dimension, None)
    write_records(folder / COMPARISONS, comparisons)


def test_a_head_that_nothing_teaches_is_refused(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _leave_out(tmp_path / "train", "overall")
    out = tmp_path / "run"
    assert main([*arguments, f"--out={out}"]) == 1
    message = capsys.readouterr().err
    assert "has no decided label and no score that counts for overall" in message
    assert "have some: instruction_awareness, visual_consistency, visual_quality" in message
    assert not out.exists()


def test_the_mean_chooses_where_validation_decides_nothing_overall(arguments: list[str], tmp_path: Path) -> None:
    _leave_out(tmp_path / "validation", "overall")
    out = tmp_path / "run"
    assert main([*arguments, f"--out={out}"]) == 0
    assert json.loads((out / "results.json").read_text())["validation"]["overall"]["n"] == 0
    figures = json.loads((out / "results.json").read_text())["validation"]
    known = [values["strict"] for values in figures.values() if values["strict"] is not None]
    (kept,) = [state for name, state in _last(out)["callbacks"].items() if name.startswith("KeepBest")]
    assert kept["best"] == pytest.approx(sum(known) / len(known))


def test_validation_without_any_decided_pair_is_refused(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for dimension in ("instruction_awareness", "visual_consistency", "overall"):
        _leave_out(tmp_path / "validation", dimension)
    out = tmp_path / "run"
    assert main([*arguments, f"--out={out}"]) == 1
    assert f"{tmp_path / 'validation'} has only ties" in capsys.readouterr().err
    assert not out.exists()


LOCAL = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
TORCHRUN = {**LOCAL, "TORCHELASTIC_RUN_ID": "run", "WORLD_SIZE": "4", "LOCAL_RANK": "0"}
SLURM = {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_JOB_NAME": "judge", "SLURM_NODEID": "0"}
TWO, FOUR = ["--trainer.devices=2"], ["--trainer.devices=2", "--trainer.num_nodes=2"]


@pytest.mark.parametrize(
    ("flags", "environment", "opens"),
    [
        (FOUR, {**TORCHRUN, "RANK": "0", "GROUP_RANK": "0"}, True),
        (FOUR, {**TORCHRUN, "RANK": "2", "GROUP_RANK": "1"}, False),
        (TWO, {**SLURM, "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}, True),
        (TWO, {**SLURM, "SLURM_PROCID": "1", "SLURM_LOCALID": "1"}, False),
        (FOUR, {**LOCAL, "NODE_RANK": "0", "LOCAL_RANK": "0"}, True),
        (FOUR, {**LOCAL, "NODE_RANK": "0", "LOCAL_RANK": "1"}, False),
        (FOUR, {**LOCAL, "NODE_RANK": "1", "LOCAL_RANK": "0"}, False),
        ([], {**SLURM, "SLURM_PROCID": "1", "SLURM_LOCALID": "1"}, True),  # a task of its own, such as one of a sweep
    ],
)
def test_the_first_rank_alone_opens_the_folder(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    environment: dict[str, str],
    opens: bool,
) -> None:
    monkeypatch.setattr(rank_zero_only, "rank", 0)  # trainers change it
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out = tmp_path / "run"
    command_line = parse([*arguments[2:], "--model.lora=null", "--data.batch_size=1", *flags, f"--out={out}"])
    command_line.load()
    is_first = command_line.trainer.is_global_zero
    with run_folder_of_rank_zero(out, is_first, command=COMMAND, config={}, seed=0, inputs={}) as run:
        assert (run is not None) == opens
    assert out.exists() == opens


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


def test_the_benchmark_chooses_where_it_is_given_and_the_model_card_says_so(
    arguments: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "validation"
    _leave_out(folder, "overall")  # the benchmark has no such dimension
    comparisons = read_comparisons(folder)
    named = [comparison.model_copy(update={"source": EDITREWARD_COMPASS}) for comparison in comparisons]
    write_records(folder / COMPARISONS, named)
    flags = [flag for flag in arguments if not flag.startswith("--data.validation")]
    out = tmp_path / "run"
    assert main([*flags, f"--data.editreward_compass={folder}", f"--out={out}"]) == 0
    assert json.loads((out / "results.json").read_text())["validation"]["visual_consistency"]["n"] == 12
    card = (out / "model" / "README.md").read_text()
    assert f"validation data: EditReward-Compass ({folder}); figures on EditReward-Compass are those of the" in card
