"""Pictures that rows name or hold, and how they come into a comparison folder."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from PIL import Image

from data_build.importers.rows import RowError
from gnomon.files import TEMPORARY_SUFFIX, atomic_write_bytes, writing

FOLDER = "images"


class Pictures:
    """The pictures of one row: notes where each comes from and says where it will lie.

    Args:
        root: the source folder.

    Attributes:
        root: the source folder.
        sources: by relative path in the comparison folder, the path below the source or the file's bytes.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sources: dict[str, str | bytes] = {}

    def find(self, value: str, folders: Sequence[PurePosixPath], field: str) -> str:
        """Note a picture by its whole path below the source, and return its relative path in the dataset folder.

        Paths that count from their own file's folder are alike in several files; here they stay apart.

        Args:
            value: a path below one of `folders`.
            folders: relative to the source, in the order in which they are looked at.
            field: where the path was found, for messages.

        Raises:
            RowError: for a path that leaves the folder, and for a file that is not there.
        """
        _inner_path(value, field)
        found = next((folder / value for folder in folders if _is_file(self.root / folder / value)), None)
        if found is None:
            raise RowError(f"there is no picture {value!r} below {self.root}", "missing_picture")
        return self.add(found.as_posix(), field)

    def add(self, value: object, field: str) -> str:
        """Note a picture and return its relative path in the comparison folder.

        Args:
            value: a path, the bytes of a file, or how parquet files hold either: `{"bytes": ..., "path": ...}`.
            field: where it was found, for messages.

        Raises:
            RowError: for anything else, a path that leaves the folder, and bytes that are no picture.
        """
        if isinstance(value, dict):
            value = value.get("bytes") or value.get("path")
        if isinstance(value, str) and value.strip():
            path = _inner_path(value, field)
            self.sources[path] = PurePosixPath(value).as_posix()
        elif isinstance(value, bytes) and value:
            path = f"{FOLDER}/{hashlib.sha256(value).hexdigest()[:32]}.{_format(io.BytesIO(value), field)}"
            self.sources[path] = value
        else:
            raise RowError(f"expected a picture under '{field}', got {value!r:.80}", "missing_picture")
        return path


def _inner_path(value: str, field: str) -> str:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or "\\" in value or "\0" in value or not path.parts:
        raise RowError(f"expected a path below the source folder under '{field}', got {value!r:.80}")
    return (FOLDER / path).as_posix()


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a folder that may not be entered
        return False


def _format(file: Path | io.BytesIO, field: str) -> str:
    """Return the suffix of a picture's format by its first bytes; the pixels are not read."""
    try:
        with Image.open(file) as image:
            return (image.format or "img").lower().replace("jpeg", "jpg")
    except Exception as error:  # broken files make Pillow raise nearly anything; see gnomon.images.load_image
        raise RowError(f"expected a picture under '{field}': {error}", "unreadable_picture") from error


def store(sources: dict[str, str | bytes], folders: list[Path], out: Path) -> None:
    """Bring pictures into the comparison folder: by a hard link, by a copy where there can be none, or as bytes.

    Args:
        sources: see :class:`Pictures`.
        folders: where the paths are looked for, in this order.
        out: the comparison folder.

    Raises:
        RowError: for a file that is not there or no picture.
        UserError: when the system refuses to write.
    """
    for path, source in sources.items():
        target = out / path
        if isinstance(source, bytes):
            if not target.exists():
                atomic_write_bytes(target, source)
            continue
        file = next((folder / source for folder in folders if _is_file(folder / source)), None)
        if file is None:
            raise RowError(f"there is no picture {source!r} below {folders[0]}", "missing_picture")
        if not target.exists():
            _format(file, source)
            _link(file.resolve(), target)


def _link(file: Path, target: Path) -> None:
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(file, target)
        except OSError:  # another disk, or a file system without hard links
            temporary = target.parent / f".{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"
            try:
                shutil.copyfile(file, temporary)
                temporary.replace(target)
            finally:
                temporary.unlink(missing_ok=True)
