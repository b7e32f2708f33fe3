"""Loggers: the real ones write where they should, without network or account."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import pytest

from gnomon.errors import UserError
from gnomon.tracking import make_logger

pytest.importorskip("pytorch_lightning")


def log_two_steps(logger: Any) -> None:
    for step in range(2):
        logger.log_metrics({"loss": 1.0 / (step + 1)}, step=step)
    logger.save()
    logger.finalize("success")


def test_csv_keeps_the_rows_of_earlier_starts(tmp_path: Path) -> None:
    for _ in range(2):
        log_two_steps(make_logger("csv", tmp_path))
    files = sorted(tmp_path.glob("logs/csv/version_*/metrics.csv"))
    assert len(files) == 2
    for file in files:
        with file.open() as rows:
            assert [row["loss"] for row in csv.DictReader(rows)] == ["1.0", "0.5"]


def test_tensorboard_writes_its_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    log_two_steps(make_logger("tensorboard", tmp_path))
    (events,) = tmp_path.glob("logs/tensorboard/version_0/events.out.tfevents.*")
    assert events.stat().st_size > 100


@pytest.mark.parametrize("mode", ["offline", None])
def test_wandb_works_without_a_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mode: str | None
) -> None:
    wandb = pytest.importorskip("wandb")
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_SILENT", "true")
    if mode:
        monkeypatch.setenv("WANDB_MODE", mode)
    logger: Any = make_logger("wandb", tmp_path / "my_run", project="tests")
    log_two_steps(logger)
    assert logger.experiment.settings.mode == "offline"
    assert (logger.experiment.name, logger.experiment.project) == ("my_run", "tests")
    wandb.finish()
    assert len(list((tmp_path / "my_run").glob("logs/wandb/offline-run-*/*.wandb"))) == 1
    assert ("no W&B login found" in capsys.readouterr().err) == (mode is None)


def test_wandb_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "disabled")
    log_two_steps(make_logger("wandb", tmp_path / "run"))
    wandb.finish()
    assert list((tmp_path / "run").rglob("*.wandb")) == []


@pytest.mark.parametrize("name", ["wandb", "tensorboard"])
def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"logger needs the package {name}, .*pip install 'gnomon\[{name}\]'"):
        make_logger(name, tmp_path)  # type: ignore[arg-type]


def test_an_unknown_logger_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected the logger csv, tensorboard or wandb, got 'mlflow'"):
        make_logger("mlflow", tmp_path)  # type: ignore[arg-type]
