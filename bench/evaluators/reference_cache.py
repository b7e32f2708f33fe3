"""What a backend computes of a reference, computed once: references come back in case after case, backends are slow.

One small file per backend and picture, written under a temporary name and renamed, so that ranks and runs may share the
folder. Two of them that start on the same reference at the same time both compute it, and write the same.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.files import atomic_write_bytes
from gnomon.hashing import stable_hash

Features = NDArray[Any]

MAX_BYTES = 256 * 2**20
BROKEN = (OSError, ValueError, EOFError, SyntaxError, TokenError, MemoryError)
"""What numpy raises for a file that is none of its own, by where the file is broken."""


class ReferenceCache:
    """Arrays by backend and picture: embeddings, features of patches, masks.

    Args:
        folder: where they are kept, and shared by ranks and runs; may be deleted at any time. None keeps them in
            memory alone.
        max_bytes: of the arrays that are in memory; those that were used longest ago go first.

    Attributes:
        num_computed: arrays that this object had to have computed.
    """

    def __init__(self, folder: str | Path | None = None, *, max_bytes: int = MAX_BYTES) -> None:
        self.folder = None if folder is None else Path(folder)
        self.max_bytes, self.num_computed = max_bytes, 0
        self._in_memory: OrderedDict[str, Features] = OrderedDict()

    def get(self, backend: str, picture: str, compute: Callable[[], Features]) -> Features:
        """Return what a backend computes of a picture; not to be written to.

        Args:
            backend: the backend's fingerprint; whatever changes the array has to change it.
            picture: the picture's content hash.
            compute: asked where nobody did before; what it raises passes through, and nothing is kept. The array may
                have any shape and any type but objects.

        Raises:
            UserError: when the system refuses to write.
        """
        key = stable_hash([backend, picture])
        found = self._in_memory.get(key)
        if found is None:
            found = self._read(key)
        if found is None:
            found = self._compute(key, compute)
        self._remember(key, found)
        return found

    def _compute(self, key: str, compute: Callable[[], Features]) -> Features:
        found = np.array(compute())
        self.num_computed += 1
        if self.folder is not None:
            buffer = io.BytesIO()
            np.save(buffer, found, allow_pickle=False)
            atomic_write_bytes(self._path(self.folder, key), buffer.getvalue())
        return found

    def _read(self, key: str) -> Features | None:
        """Return what is kept in the folder; a file that is broken counts as none, and is replaced."""
        if self.folder is None:
            return None
        try:
            with self._path(self.folder, key).open("rb") as stream:
                found: Features = np.lib.format.read_array(stream, allow_pickle=False)
        except BROKEN:
            return None
        return found

    def _remember(self, key: str, found: Features) -> None:
        found.flags.writeable = False
        self._in_memory[key] = found
        self._in_memory.move_to_end(key)
        while len(self._in_memory) > 1 and sum(each.nbytes for each in self._in_memory.values()) > self.max_bytes:
            self._in_memory.popitem(last=False)

    @staticmethod
    def _path(folder: Path, key: str) -> Path:
        return folder / key[:2] / f"{key}.npy"
