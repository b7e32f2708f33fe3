"""What a training reads besides its cases: hashes of every file and folder that its config names.

A config names a judge by its folder. When the judge is trained again in place, the same config means another run, and
going on with the old one would mix two rewards. So the contents belong to a run's identity, and they are found without
loading a model: whatever string below `generator`, `reward`, `monitors` and `algorithm` is the path of something that
exists, and the file of each class there that is the user's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from gnomon.manifest import flatten

_PARTS = ("generator", "reward", "monitors", "algorithm")
_FOLDERS = ("model", "lora")  # keys under which a single word is a folder too
_OURS = ("gnomon", "rm", "bench", "rl", "data_build")  # of one version, which a manifest records
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
        name = key.rpartition(".")[2]
        path = _code_of_class(value) if name == "class_path" else _existing_path(value, is_folder=name in _FOLDERS)
        if path is not None:
            found[key] = content_hash_of_path(path)
    return found


def _code_of_class(class_path: object) -> Path | None:
    """Return the file of a class that the user wrote; not what that file imports, nor what is installed."""
    module = str(class_path).rpartition(".")[0]
    if not module or module.partition(".")[0] in _OURS:
        return None
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.has_location or spec.origin is None or "site-packages" in Path(spec.origin).parts:
        return None
    return Path(spec.origin)


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


def _existing_path(value: object, *, is_folder: bool) -> Path | None:
    """Return the path that a value of a config is; `folder/file.py:name` counts as the file.

    Args:
        value: of the config.
        is_folder: whether a single word is a path as well, for its key says so.
    """
    if not isinstance(value, str) or not value:
        return None
    for text in (value, value.rpartition(":")[0]):
        path = Path(text)
        # A single word may be a choice that happens to be a folder's name too, such as `data`.
        looks_like_path = "/" in text or path.suffix != "" or is_folder
        try:
            if text and looks_like_path and path.exists():
                return path
        except OSError:  # too long for a path, or with a zero byte in it
            continue
    return None
