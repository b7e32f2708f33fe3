from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
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


def test_a_step_dies_with_the_demo(tmp_path: Path) -> None:
    # The command waits for ever; only its own process is killed, as `kill PID` does.
    code = (
        "import sys, time, gnomon.cli\n"
        "from pathlib import Path\n"
        "from data_build.demo.process import run_command\n"
        "def wait(argv):\n"
        "    Path(sys.argv[1]).write_text(str(__import__('os').getpid()))\n"
        "    time.sleep(600)\n"
        "gnomon.cli.main = wait\n"
        "run_command(['bench', 'list'], Path(sys.argv[1] + '.log'))\n"
    )
    mark = tmp_path / "pid"
    demo = subprocess.Popen([sys.executable, "-c", code, str(mark)])
    while not (mark.exists() and mark.read_text()):
        assert demo.poll() is None
        time.sleep(0.02)
    step = int(mark.read_text())
    demo.kill()
    demo.wait()
    for _ in range(500):
        try:
            state = Path(f"/proc/{step}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.02)
    os.kill(step, signal.SIGKILL)
    pytest.fail("the step went on without its demo")


def test_a_step_that_cannot_write_its_output_ends_in_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gnomon.cli

    def print_on_a_full_disk(argv: list[str]) -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        sys.stdout.write("no room for this")
        return 0

    monkeypatch.setattr(gnomon.cli, "main", print_on_a_full_disk)
    here = os.getpid()
    with pytest.raises(UserError, match="exit code 1"):
        run_command(["bench", "list"], tmp_path / "a.log")
    assert os.getpid() == here
