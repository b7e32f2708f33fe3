"""What a training reads besides its cases: hashes of every file and folder that its config names.

A config names a judge by its folder. When the judge is trained again in place, the same config means another run, and
going on with the old one would mix two rewards. So the contents belong to a run's identity, and they are found without
loading a model: whatever string below `generator`, `reward` and `monitors` is the path of something that exists.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gnomon.manifest import flatten

_PARTS = ("generator", "reward", "monitors")
_WHOLE = 2**28  # files up to 256 MiB are read whole
_PIECE, _NUM_PIECES = 2**20, 64


def input_hashes(model: Mapping[str, object]) -> dict[str, str]:
    """Hash what the model section of a training's config names by path.

    Args:
        model: the resolved section, plain values.

    Returns:
        By dotted key, such as `reward.init_args.model`, the hash of the file or folder there. What is named otherwise
        (a repository on the hub, a service) is not in it.
    """
    found = {}
    for key, value in flatten({part: model.get(part) for part in _PARTS}).items():
        path = _existing_path(value)
        if path is not None:
            found[key] = content_hash_of_path(path)
    return found


def content_hash_of_path(path: Path) -> str:
    """Hash the names and contents of all files at or below a path.

    Files over 256 MiB, which hold weights, are read in 64 evenly spaced pieces of 1 MiB and their size: training
    touches layers all over a file, and nobody wants to wait until 40 GB are read at each start.
    """
    files = path.rglob("*") if path.is_dir() else [path]
    return content_hash_of_files(
        path, [file for file in files if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    )


def content_hash_of_files(root: Path, paths: Iterable[Path]) -> str:
    """Hash the files among some paths as `content_hash_of_path` does, by their names below `root`."""
    digest = hashlib.sha256()
    for file in sorted(path for path in paths if path.is_file()):
        name = file.relative_to(root).as_posix()
        digest.update(f"{len(name)}:{name}:{file.stat().st_size}:".encode())
        for piece in _pieces(file):
            digest.update(piece)
    return digest.hexdigest()


def _pieces(file: Path) -> Iterator[bytes]:
    size = file.stat().st_size
    with file.open("rb") as stream:
        if size <= _WHOLE:
            while piece := stream.read(_PIECE):
                yield piece
            return
        for number in range(_NUM_PIECES):
            stream.seek(number * (size - _PIECE) // (_NUM_PIECES - 1))
            yield stream.read(_PIECE)


def _existing_path(value: object) -> Path | None:
    """Return the path that a value of a config is; `folder/file.py:name` counts as the file."""
    if not isinstance(value, str) or not value:
        return None
    for text in (value, value.rpartition(":")[0]):
        path = Path(text)
        # A single word may be a choice that happens to be a folder's name too, such as `data`.
        looks_like_path = "/" in text or path.suffix != ""
        try:
            if text and looks_like_path and path.exists():
                return path
        except OSError:  # too long for a path, or with a zero byte in it
            continue
    return None
