from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.make_venv import STAMP, UNDER_WAY, reason_to_start_afresh, wanted_stamp


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\n")
    return tmp_path


@pytest.fixture
def venv(root: Path) -> Path:
    """A folder that passes for an environment: its Python is the one that runs the tests."""
    folder = root / ".venv"
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return folder


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_the_stamp_changes_with_each_file_that_decides_what_is_installed(root: Path, changed: str) -> None:
    before = wanted_stamp(root, "dev")
    (root / changed).write_text("# another content\n")

    assert wanted_stamp(root, "dev") != before


def test_the_stamp_changes_with_the_extras(root: Path) -> None:
    assert wanted_stamp(root, "dev") != wanted_stamp(root, "dev,serve")


def test_a_sound_environment_without_or_with_an_old_stamp_is_built_upon(root: Path, venv: Path) -> None:
    assert reason_to_start_afresh(venv, wanted_stamp(root, "dev")) is None

    (venv / STAMP).write_text(wanted_stamp(root, "serve"))

    assert reason_to_start_afresh(venv, wanted_stamp(root, "dev")) is None


def test_a_missing_environment_is_made(root: Path) -> None:
    assert reason_to_start_afresh(root / ".venv", wanted_stamp(root, "dev")) == "there is none yet"


def test_an_install_that_was_killed_is_started_afresh(root: Path, venv: Path) -> None:
    (venv / UNDER_WAY).touch()

    assert reason_to_start_afresh(venv, wanted_stamp(root, "dev")) == "an earlier install did not finish"


def test_an_environment_whose_python_is_gone_is_made_afresh(root: Path, venv: Path) -> None:
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").symlink_to(root / "uninstalled")

    assert reason_to_start_afresh(venv, wanted_stamp(root, "dev")) == "it has no working Python"


def test_an_environment_whose_pip_is_broken_is_made_afresh(root: Path, venv: Path) -> None:
    (venv / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")

    assert reason_to_start_afresh(venv, wanted_stamp(root, "dev")) == "its pip does not run"


def test_an_environment_that_was_moved_is_made_afresh(root: Path, venv: Path) -> None:
    (venv / STAMP).write_text(wanted_stamp(root, "dev").replace(str(root), "/elsewhere"))

    assert "another folder" in str(reason_to_start_afresh(venv, wanted_stamp(root, "dev")))
