"""What backends say of a picture: how pleasant it is, how well it fits its name, how many faces it has, and its vector.

Each picture is opened once for all of them. Numbers are kept in lines, vectors in files, by backend and picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.cogcanvas.cases import BACKGROUND
from bench.evaluators.cosine import cosines
from bench.evaluators.reference_cache import ReferenceCache
from data_build.cogcanvas.manifest import Picture
from data_build.cogcanvas.settings import CurateSettings
from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.images import UnreadableImageError, load_image
from gnomon.records import Record

if TYPE_CHECKING:
    from PIL import Image


class Measured(Record):
    """What the backends say of one picture; None where one is not asked about it, or has no number for it.

    Attributes:
        id: of the entry.
        asked: hash of the picture, its name and the backends.
        aesthetic: how pleasant it is, on the backend's scale.
        text_picture: cosine of picture and name.
        num_faces: in a background.
        unreadable: why it could not be opened any more.
    """

    id: str
    asked: str
    aesthetic: float | None = None
    text_picture: float | None = None
    num_faces: int | None = None
    unreadable: str | None = None


class _Opened:
    """A picture that is opened when somebody first looks at it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def image(self) -> Image.Image:
        return load_image(self._path)


class Measurer:
    """Asks the backends about one picture after the other.

    Args:
        settings: which backends there are, and for which roles.
        vectors: folder where vectors are kept.
    """

    def __init__(self, settings: CurateSettings, vectors: Path) -> None:
        self._settings, self._cache = settings, ReferenceCache(vectors)
        self._names: dict[str, NDArray[Any]] = {}
        self._fingerprints = {
            name: None if backend is None else backend.fingerprint for name, backend in backends_of(settings).items()
        }

    def asked(self, item: Picture) -> str:
        """Return the hash of all that a picture's numbers depend on."""
        applying = {name: hash for name, hash in self._fingerprints.items() if item.entry.role in self._roles(name)}
        return stable_hash([item.pixels, item.entry.name, applying])

    def measure(self, item: Picture, path: Path) -> Measured:
        """Return what the backends say of a picture.

        Args:
            item: the picture.
            path: where it is.
        """
        opened, asked = _Opened(path), self.asked(item)
        found: dict[str, Any] = {}
        try:
            if self._is_asked("aesthetic", item):
                found["aesthetic"] = self._aesthetic(opened.image)
            if self._is_asked("text_picture", item):
                found["text_picture"] = self._fit(item, opened)
            if self._is_asked("faces", item):
                assert self._settings.faces is not None
                found["num_faces"] = len(self._settings.faces.detect(opened.image))
            if self._is_asked("near_duplicates", item):
                self._vector("near_duplicates", item, opened)
        except UnreadableImageError as error:
            return Measured(id=item.entry.id, asked=asked, unreadable=str(error))
        return Measured(id=item.entry.id, asked=asked, **found)

    def vector(self, item: Picture, path: Path) -> NDArray[Any]:
        """Return the vector by which near duplicates are found.

        Raises:
            UnreadableImageError: where it has to be made, and the picture cannot be opened any more.
        """
        return self._vector("near_duplicates", item, _Opened(path))

    def _roles(self, name: str) -> Sequence[str]:
        return [BACKGROUND] if name == "faces" else getattr(getattr(self._settings, name), "roles", [])

    def _is_asked(self, name: str, item: Picture) -> bool:
        return self._fingerprints[name] is not None and item.entry.role in self._roles(name)

    def _aesthetic(self, image: Image.Image) -> float | None:
        assert self._settings.aesthetic is not None
        return _number(self._settings.aesthetic.backend.score(image))

    def _fit(self, item: Picture, opened: _Opened) -> float | None:
        assert self._settings.text_picture is not None
        name = item.entry.name
        if name not in self._names:
            self._names[name] = np.asarray(self._settings.text_picture.backend.embed_texts([name]))
        picture = self._vector("text_picture", item, opened)
        return _number(cosines(self._names[name], picture[None])[0, 0])

    def _vector(self, check: str, item: Picture, opened: _Opened) -> NDArray[Any]:
        backend: Any = backends_of(self._settings)[check]

        def compute() -> NDArray[Any]:
            vectors = np.asarray(backend.embed([opened.image]))
            if vectors.ndim != 2 or len(vectors) != 1:
                raise UserError(f"expected one vector of {backend.name} for one picture, got shape {vectors.shape}")
            return np.asarray(vectors[0])

        return self._cache.get(backend.fingerprint, item.pixels, compute)


def backends_of(settings: CurateSettings) -> dict[str, Any]:
    """Return the backend of each check, None where it is not made."""
    filters = {
        "near_duplicates": settings.near_duplicates,
        "aesthetic": settings.aesthetic,
        "text_picture": settings.text_picture,
    }
    backends = {name: None if each is None else each.backend for name, each in filters.items()}
    return {**backends, "faces": settings.faces}


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
