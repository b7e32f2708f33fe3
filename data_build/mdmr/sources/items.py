"""What a source yields: pictures that are not decoded yet, with what is said of them, and files that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from data_build.mdmr.settings import Source
from gnomon.images import decode_image, load_image

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")


@dataclass(frozen=True)
class Item:
    """A picture as it lies in its source.

    Attributes:
        member: which one: `folder/a.jpg`, `file.parquet#7` (row, from 0) or `file.tar#key.jpg`.
        stamp: differs when the file was written since.
        data: the file, or its bytes; None where the source has none there.
        caption: what is said of it.
        made_from: see :class:`data_build.mdmr.settings.Source`.
        problem: what is wrong with what is said of it, or why there is no `data`.
    """

    member: str
    stamp: str
    data: Path | bytes | None
    caption: str | None = None
    made_from: str | None = None
    problem: str | None = None

    def load(self) -> Image.Image:
        """Decode the picture: upright RGB.

        Raises:
            UnreadableImageError: names the picture and the reason.
        """
        assert self.data is not None
        return decode_image(self.data, self.member) if isinstance(self.data, bytes) else load_image(self.data)


@dataclass(frozen=True)
class SourceProblem:
    """A file of a source that cannot be read, in whole or from some place on."""

    member: str
    stamp: str
    message: str


Wanted = Callable[[str, str], bool]
"""Says by member and stamp whether a picture is to be read."""


def stamp_of(path: Path) -> str:
    """Return size and time of a file."""
    status = path.stat()
    return f"{status.st_size}:{status.st_mtime_ns}"


def facts_of(data: Mapping[str, Any], source: Source) -> dict[str, str | None]:
    """Return caption and made_from of an object, where they are texts that say something."""
    found = {}
    for name, key in (("caption", source.caption), ("made_from", source.made_from)):
        value = data.get(key)
        found[name] = value.strip() if isinstance(value, str) and value.strip() else None
    return found


def sidecar_facts(described: bytes | None, text: bytes | None, source: Source) -> dict[str, str | None]:
    """Return caption, made_from and problem out of a `.json` and a `.txt` file beside a picture.

    The object's own caption goes before the text.
    """
    facts: dict[str, str | None] = {"caption": None, "made_from": None, "problem": None}
    try:
        if text is not None:
            facts["caption"] = text.decode("utf-8-sig").strip() or None
        if described is not None:
            content = json.loads(described)
            if not isinstance(content, dict):
                raise ValueError(f"expected an object, got {type(content).__name__}")
            facts |= {name: value for name, value in facts_of(content, source).items() if value is not None}
    except (ValueError, RecursionError) as error:
        facts["problem"] = f"what is said of it cannot be read: {error}"
    return facts
