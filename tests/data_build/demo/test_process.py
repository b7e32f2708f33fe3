from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from data_build.demo.process import run_command
from gnomon.errors import UserError


def test_a_command_is_run_and_measured_and_its_output_kept(tmp_path: Path) -> None:
    measured = run_command(["bench", "list"], tmp_path / "logs" / "list.log")
    assert "tabletop" in (tmp_path / "logs" / "list.log").read_text()
    assert 0 < measured.seconds < 60
    assert measured.peak_memory > 1e6


def test_a_failing_command_is_an_error_with_its_last_lines(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="exit code 1") as caught:
        run_command(["data", "validate", str(tmp_path / "nothing")], tmp_path / "validate.log")
    assert str(tmp_path / "nothing") in str(caught.value)


def test_a_killed_command_is_an_error_and_ctrl_c_is_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gnomon.cli

    def die(argv: list[str]) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    monkeypatch.setattr(gnomon.cli, "main", die)
    with pytest.raises(UserError, match="signal 9"):
        run_command(["bench", "list"], tmp_path / "a.log")
    monkeypatch.setattr(gnomon.cli, "main", lambda argv: 130)
    with pytest.raises(KeyboardInterrupt):
        run_command(["bench", "list"], tmp_path / "b.log")
