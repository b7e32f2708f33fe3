"""Photographs as they come, and the copies of them that models and reviewers see."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from bench.placement import ENDINGS
from gnomon.errors import UserError
from gnomon.images import UnreadableImageError, content_hash, load_image, save_png
from gnomon.progress import track
from gnomon.records import Record

PHOTOS = "photos.jsonl"
_PICTURES = (*ENDINGS, ".bmp", ".gif", ".tif", ".tiff")


class Photo(Record):
    """A photograph: the beginning of the hash of its pixels, where it lies here, and the file that it came from."""

    id: str = Field(min_length=1)
    path: str
    file: str


class PhotoProblem(Record):
    """A file that is not used: it cannot be read, or has the pixels of another one."""

    file: str
    status: Literal["unreadable_image", "duplicate"]
    message: str


def picture_files(folder: Path) -> list[Path]:
    """Return the files below a folder that look like pictures, in order; hidden ones belong to the system.

    Raises:
        UserError: when there is no such folder, or none in it.
    """
    if not folder.is_dir():
        raise UserError(f"expected a folder of photographs at {folder}, there is none; check --photos")
    found: list[Path] = []
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        seen = [Path(parent) / name for name in sorted(files) if not name.startswith(".")]
        found += [path for path in seen if path.suffix.lower() in _PICTURES]
    if not found:
        raise UserError(f"expected photographs ({', '.join(_PICTURES)}) in {folder}, found none; check --photos")
    return found


def take_photos(root: Path, files: Sequence[Path], out: Path) -> tuple[list[Photo], list[PhotoProblem]]:
    """Copy photographs upright and without metadata: where they were made is nobody's business.

    Args:
        root: the folder below which the files are.
        files: the files.
        out: the folder in which the copies lie in `images/`.

    Returns:
        The photographs, and the files that are none or show the same as an earlier one.
    """
    found: dict[str, Photo] = {}
    problems = []
    for file in track(files, "reading photographs"):
        name = file.relative_to(root).as_posix()
        try:
            picture = load_image(file)
        except UnreadableImageError as error:
            problems.append(PhotoProblem(file=name, status="unreadable_image", message=str(error)))
            continue
        pixels = content_hash(picture)[:16]
        if pixels in found:
            message = f"{name} shows the same as {found[pixels].file}"
            problems.append(PhotoProblem(file=name, status="duplicate", message=message))
            continue
        found[pixels] = Photo(id=pixels, path=f"images/{pixels}.png", file=name)
        if not (out / found[pixels].path).exists():  # pictures are written whole or not at all
            save_png(picture, out / found[pixels].path)
    return list(found.values()), problems
