"""The commands of `rm` as a user types them; what `rm fit` does is in test_training.py."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gnomon.cli import main

Write = Callable[..., Path]


def test_eval_as_it_is_typed(write_comparisons: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_comparisons(tmp_path / "data", 3)
    typed = ["rm", "eval", "--judge", "random", "--data", str(root), "--out", str(tmp_path / "run")]
    assert main([*typed, "--min_margin", "0.5"]) == 0
    assert "margin>=0.5" in capsys.readouterr().out
    assert main([*typed[:-1], str(tmp_path / "x"), "--judge", "nobody"]) == 1
    assert "nobody" in capsys.readouterr().err
    assert main([*typed, "--colour", "red"]) == 2


def test_help_needs_no_torch() -> None:
    code = (
        "import sys; from gnomon.cli import main; code = main(['rm', 'eval', '--help']); "
        "sys.exit(code or ('torch' in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "--judge" in ran.stdout
