"""Writing files so that a kill, a full disk or a second process never leaves half a file under the real name."""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gnomon.errors import UserError

TEMPORARY_SUFFIX = ".gnomon-tmp"


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn the system's refusal to write `path` into a message for the user.

    Raises:
        UserError: names the file, the reason and the way out.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(
                f"the disk is full: could not write {path}. What was finished before is kept; "
                "make room and run the same command again"
            ) from error
        raise UserError(
            f"could not write {path}: {error.strerror or error}. Check the folder and its permissions, "
            "or choose another one with --out"
        ) from error


def last_change(path: str | Path) -> int:
    """Return when a file, or the link that stands for it, was last written, moved or replaced, in ns.

    Unlike the time of its content, which copies and moves bring along, this one cannot be older than the change.

    Raises:
        OSError: when there is no such file.
    """
    own = os.lstat(path)
    if not stat.S_ISLNK(own.st_mode):
        return own.st_ctime_ns
    return max(own.st_ctime_ns, os.stat(path).st_ctime_ns)  # noqa: PTH116 - a path takes longer to make than the look


def atomic_write_bytes(path: str | Path, data: bytes | memoryview, *, sync: bool = False) -> None:
    """Write `data` to `path` under a temporary name and rename it: readers see the old file or the new one.

    Missing parent folders are made.

    Args:
        path: the file.
        data: its new content.
        sync: wait until the data is on the disk, so that not even a power cut leaves an empty file. Slow.

    Raises:
        UserError: when the system refuses (full disk, no permission, a file where a folder should be).
    """
    path = Path(path)
    # A plain open, not tempfile: its files are readable by nobody else, and the mode would survive the rename.
    temporary = path.parent / f".{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(data)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def atomic_write_text(path: str | Path, data: str) -> None:
    """Write `data` as UTF-8, otherwise like :func:`atomic_write_bytes`."""
    atomic_write_bytes(path, data.encode())


@contextmanager
def writing_lines(path: str | Path) -> Iterator[IO[str]]:
    """Open a file for writing line by line, in UTF-8; it appears under its name only when all is well.

    What a kill leaves in a run folder is removed by the next start.

    Raises:
        UserError: when the system refuses.
    """
    path = Path(path)
    temporary = path.parent / f".{path.name}{TEMPORARY_SUFFIX}"
    with writing(path):
        try:
            with temporary.open("w", encoding="utf-8") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
