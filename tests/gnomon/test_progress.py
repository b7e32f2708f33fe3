"""Progress: the items pass through, a terminal gets a bar, a log file a line now and then."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from gnomon.progress import track


def test_items_pass_through_in_order_and_short_work_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track([3, 1, 2], "sorting")) == [3, 1, 2]
    assert list(track((letter for letter in "ab"), "spelling")) == ["a", "b"]
    assert capsys.readouterr() == ("", "")


def test_a_log_gets_a_line_at_most_every_ten_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("gnomon.progress.time.monotonic", lambda: now)
    for _ in track(range(10), "judging"):
        now += 4.0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "judging: 3/10 in 0:00:12, 0:00:28 left",
        "judging: 6/10 in 0:00:24, 0:00:16 left",
        "judging: 9/10 in 0:00:36, 0:00:04 left",
    ]
    for _ in track(iter(range(2)), "counting"):
        now += 4000.0
    assert capsys.readouterr().err == "counting: 1 in 1:06:40\n"


PROGRAM = """
from gnomon.progress import track
for outer in track(range(2), "outer [red]"):
    for inner in track(iter(range(3)), "inner", total=3):
        pass
print("done")
"""


def test_a_terminal_gets_a_bar_with_counts_and_time_left_also_nested() -> None:
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], stderr=child, stdout=subprocess.PIPE, env=environment, text=True, check=True
    )
    os.close(child)
    shown = b""
    while chunk := _read(parent):
        shown += chunk
    os.close(parent)
    assert done.stdout == "done\n"
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert re.search(r"outer \[red\] .*2/2 0:00:0\d", text)
    assert re.search(r"inner .*3/3 0:00:0\d", text)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux says EIO where the other end is closed
        return b""
