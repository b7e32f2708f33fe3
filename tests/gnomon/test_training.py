"""The command line that training commands share: it parses first, loads later, resumes, and passes Ctrl-C on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric.utilities.rank_zero import _get_rank
from pytorch_lightning import LightningDataModule, LightningModule
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.plugins.io import AsyncCheckpointIO
from pytorch_lightning.utilities import rank_zero_only
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from gnomon.checkpoints import AtomicCheckpointIO
from gnomon.errors import UserError
from gnomon.training import (
    CHECKPOINTS,
    LAST,
    TrainingCommandLine,
    is_finished,
    is_global_zero,
    run_folder_of_rank_zero,
)


class Line(LightningModule):
    """A least-squares line that can press Ctrl-C."""

    def __init__(self, seed: int = 0, interrupt_at: int | None = None) -> None:
        super().__init__()
        self.seed, self.interrupt_at = seed, interrupt_at
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch: list[Tensor]) -> Tensor:
        if self.interrupt_at is not None and self.global_step >= self.interrupt_at:
            os.kill(os.getpid(), signal.SIGINT)
        loss: Tensor = (self.layer(batch[0]) - 2 * batch[0]).square().mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Points(LightningDataModule):
    """Eight points."""

    def train_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        return DataLoader(TensorDataset(torch.linspace(-1, 1, 8)[:, None]), batch_size=4)


def _command_line(out: Path, *flags: str) -> TrainingCommandLine:
    arguments = ["--out", str(out), "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false", *flags]
    defaults = {"enable_model_summary": False, "log_every_n_steps": 1}
    return TrainingCommandLine(Line, Points, arguments, program="gnomon line fit", trainer_defaults=defaults)


def _fit(out: Path, *flags: str) -> TrainingCommandLine:
    command_line = _command_line(out, *flags)
    command_line.load()
    command_line.config_init["trainer"]["callbacks"] = [ModelCheckpoint(out / CHECKPOINTS, filename="last")]
    command_line.trainer = command_line.instantiate_trainer()
    command_line.fit()
    return command_line


def test_it_only_parses_and_leaves_out_what_a_second_start_may_change(tmp_path: Path) -> None:
    command_line = _command_line(tmp_path / "a", "--seed_everything", "3", "--tracker", "csv")
    assert not hasattr(command_line, "model")
    assert command_line.out == tmp_path / "a"
    assert command_line.seed == 3
    config = command_line.resolved_config()
    assert config == _command_line(tmp_path / "b", "--seed_everything", "3").resolved_config()
    assert config["model"] == {"interrupt_at": None}  # its seed is linked
    assert "seed_everything" in config
    assert not (tmp_path / "a").exists()


def test_a_wrong_flag_ends_with_the_commands_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _command_line(tmp_path, "--model.hight", "3")
    message = capsys.readouterr().err
    assert "gnomon line fit" in message
    assert "hight" in message


def test_a_second_start_goes_on_from_the_last_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = _fit(tmp_path, "--trainer.max_epochs", "1")
    assert first.trainer.global_step == 2
    capsys.readouterr()
    second = _fit(tmp_path, "--trainer.max_epochs", "3")
    assert f"resuming {tmp_path}" in capsys.readouterr().out
    assert second.trainer.global_step == 6
    whole = _fit(tmp_path / "whole", "--trainer.max_epochs", "3")
    assert torch.equal(second.model.layer.weight, whole.model.layer.weight)


def test_a_torn_checkpoint_is_a_message(tmp_path: Path) -> None:
    _fit(tmp_path, "--trainer.max_epochs", "1")
    last = tmp_path / CHECKPOINTS / LAST
    last.write_bytes(last.read_bytes()[: last.stat().st_size // 2])
    with pytest.raises(UserError, match=r"could not read the checkpoint .*last\.ckpt"):
        _fit(tmp_path, "--trainer.max_epochs", "2")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], AtomicCheckpointIO),
        (["--trainer.plugins", "pytorch_lightning.plugins.io.AsyncCheckpointIO"], AsyncCheckpointIO),
    ],
)
def test_checkpoints_cannot_be_torn_unless_the_user_chose_how_they_are_written(
    tmp_path: Path, flags: list[str], expected: type
) -> None:
    command_line = _command_line(tmp_path, *flags)
    command_line.load()
    assert type(command_line.instantiate_trainer().strategy.checkpoint_io) is expected


def test_control_c_reaches_the_caller(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _fit(tmp_path, "--trainer.max_epochs", "3", "--model.interrupt_at", "1")


LONELY = '''
"""Rank 0 fails while rank 1 is busy, and so hears nothing of it."""

import os
import sys
import time
from pathlib import Path

from gnomon.errors import UserError
from test_training import _fit, Line


def start(self):
    pid = Path(sys.argv[1]) / "pid"
    if self.global_rank == 1:
        pid.with_suffix(".new").write_text(str(os.getpid()))
        pid.with_suffix(".new").rename(pid)
        time.sleep(300)
    while not pid.exists():
        time.sleep(0.05)
    raise UserError("rank 0 is at an end")


Line.on_train_start = start
_fit(Path(sys.argv[1]), "--trainer.devices", "2", "--trainer.strategy", "ddp")
'''


def test_ranks_that_lightning_started_do_not_outlive_a_failure_of_the_first(tmp_path: Path) -> None:
    script = tmp_path / "lonely.py"
    script.write_text(LONELY)
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"}
    log = tmp_path / "log"
    with log.open("w") as stream:
        result = subprocess.run(
            [sys.executable, str(script), str(tmp_path)], env=environment, stdout=stream, stderr=stream, timeout=240
        )
    assert "rank 0 is at an end" in log.read_text()
    assert result.returncode == 1
    process = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not Path(f"/proc/{process}").exists():
            return
        time.sleep(0.1)
    os.kill(process, signal.SIGKILL)
    pytest.fail("rank 1 went on")


def test_parsing_takes_no_argument_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["gnomon", "line", "fit", "--nonsense"])
    assert _command_line(tmp_path).seed == 0


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, True),
        ({"RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0"}, True),  # torchrun
        ({"RANK": "3", "LOCAL_RANK": "1", "GROUP_RANK": "1"}, False),
        ({"RANK": "2", "LOCAL_RANK": "0", "GROUP_RANK": "1"}, False),
        ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}, True),  # srun
        ({"SLURM_PROCID": "4", "SLURM_LOCALID": "0", "SLURM_NODEID": "1"}, False),
        ({"NODE_RANK": "0", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}, False),  # Lightning's own launcher
        ({"NODE_RANK": "1", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}, False),
        ({"NODE_RANK": "1"}, False),  # the process on a second node that launches the others
        ({"NODE_RANK": "0"}, True),
    ],
)
def test_only_global_rank_zero_opens_the_run_folder(
    environment: dict[str, str], expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rank_zero_only, "rank", _get_rank() or 0)  # what Lightning does when it is imported
    assert is_global_zero() == expected
    with run_folder_of_rank_zero(tmp_path / "run", is_global_zero(), command="x", config={}, seed=0, inputs={}) as run:
        assert (run is not None) == expected
    assert (tmp_path / "run").exists() == expected


def test_a_run_is_finished_only_if_it_is_this_one(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"command": "x", "config": {"a": 1}, "inputs": {"judge": "1"}}

    def finished(**changes: object) -> bool:
        return is_finished(tmp_path, **{**settings, **changes})

    def run(*, fails: bool) -> None:
        with run_folder_of_rank_zero(tmp_path, True, seed=0, **settings):
            assert not finished()
            if fails:
                raise UserError("stop")

    assert not finished()
    with pytest.raises(UserError, match="stop"):
        run(fails=True)
    assert not finished()
    run(fails=False)
    assert finished()
    assert not finished(inputs={"judge": "2"})
    assert not finished(config={"a": 2})
