"""Atomic writes: all or nothing, ordinary permissions, and a message when the system refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gnomon.errors import UserError
from gnomon.files import atomic_write_bytes, atomic_write_text, last_change


def test_a_file_is_written_into_folders_that_did_not_exist(tmp_path: Path) -> None:
    atomic_write_text(tmp_path / "a" / "b.txt", "é")
    assert (tmp_path / "a" / "b.txt").read_bytes() == "é".encode()
    assert os.listdir(tmp_path / "a") == ["b.txt"]  # noqa: PTH208 - hidden leftovers would count too


def test_others_may_read_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    atomic_write_text(tmp_path / "atomic", "x")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_folder_in_the_way_is_named_and_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "taken" / "inside").mkdir(parents=True)
    with pytest.raises(UserError, match=r"could not write .*taken"):
        atomic_write_bytes(tmp_path / "taken", b"x")
    assert [item.name for item in tmp_path.iterdir()] == ["taken"]


def test_a_file_in_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"file/below: (Not a directory|File exists).* --out"):
        atomic_write_bytes(tmp_path / "file" / "below", b"x")


FULL_DISK = """
import sys
from pathlib import Path
from gnomon.errors import UserError
from gnomon.files import atomic_write_bytes
folder = Path(sys.argv[1])
atomic_write_bytes(folder / "kept", b"old")
try:
    atomic_write_bytes(folder / "kept", b"x" * 1_000_000)
except UserError as error:
    print(error)
print((folder / "kept").read_bytes(), len(list(folder.iterdir())))
"""


def test_a_full_disk_keeps_the_old_file_and_says_what_to_do(tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o size=64k tmpfs "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), sys.executable, FULL_DISK]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no small disk can be mounted here: {error}")
    assert done.stdout.splitlines() == [
        f"the disk is full: could not write {tmp_path}/kept. What was finished before is kept; "
        "make room and run the same command again",
        "b'old' 1",
    ]


def test_the_last_change_is_seen_where_the_time_of_the_content_is_an_old_one(tmp_path: Path) -> None:
    old, link = tmp_path / "old", tmp_path / "link"
    (tmp_path / "mark").write_text("x")
    mark = last_change(tmp_path / "mark")
    old.write_text("x")
    os.utime(old, (0, 0))
    link.symlink_to(old)
    assert old.stat().st_mtime == 0
    assert mark <= last_change(old) <= last_change(link)
    with pytest.raises(FileNotFoundError):
        last_change(tmp_path / "nothing")
