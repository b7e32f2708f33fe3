"""`gnomon rl rollout` and the picture that it draws."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from gnomon.cli import main
from rl.grid import TILE, GridRow, draw_grid


@pytest.fixture
def editor(tmp_path: Path, generator_settings: dict[str, Any]) -> Path:
    """Return the tiny editor with its settings in `gnomon.json`, as the shipped one has them."""
    folder = tmp_path / "editor"
    shutil.copytree(generator_settings.pop("model"), folder)
    (folder / "gnomon.json").write_text(json.dumps(generator_settings))
    return folder


def test_rollout_draws_groups(editor: Path, case_folders: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "grid.png"
    arguments = ["--num_prompts", "2", "--num_candidates", "3", "--window_size", "2"]
    assert main(["rl", "rollout", str(editor), str(case_folders[0]), str(out), *arguments]) == 0
    first = out.read_bytes()
    with Image.open(out) as picture:
        assert picture.width > 4 * TILE
        assert picture.height > 2 * TILE
    assert main(["rl", "rollout", str(editor), str(case_folders[0]), str(out), *arguments]) == 0
    assert out.read_bytes() == first


def test_a_window_that_holds_the_last_step_is_an_error_of_the_command(
    editor: Path, case_folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "grid.png"
    assert main(["rl", "rollout", str(editor), str(case_folders[0]), str(out), "--window_size", "5"]) == 1
    assert "never stochastic" in capsys.readouterr().err


def test_cases_are_looked_for_before_the_model_is_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cases.jsonl").write_text("")
    for cases, message in ((tmp_path / "nowhere", "nowhere"), (tmp_path, "at least one case")):
        assert main(["rl", "rollout", "/no/such/model", str(cases), str(tmp_path / "grid.png")]) == 1
        assert message in capsys.readouterr().err


def test_the_grid_shows_rows_of_different_length_and_failed_rewards() -> None:
    red, wide = Image.new("RGB", (64, 64), "red"), Image.new("RGB", (64, 32), "blue")
    grid = draw_grid([GridRow("make it red", [red], [red, wide], [0.5, float("nan")]), GridRow("变红", [], [red])])
    assert grid.width > 3 * TILE
    assert (255, 0, 0) in {color for _count, color in grid.getcolors(2**16) or []}
    with pytest.raises(ValueError, match="at least one row"):
        draw_grid([])


def test_importing_the_package_and_its_commands_loads_no_torch() -> None:
    code = "import sys, rl, rl.cli; print([name for name in ('torch', 'diffusers', 'numpy') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
