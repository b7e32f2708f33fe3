"""The pictures that a judge is to look at, or why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gnomon.datasets import resolve
from gnomon.errors import UserError
from gnomon.images import UnreadableImageError, content_hash, load_image
from gnomon.records import Reference, Status

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class Pictures:
    """What is looked at, as RGB pictures.

    Attributes:
        references: those that the instruction refers to.
        candidates: those that are judged.
        hashes: of the pixels of all of them, references first.
    """

    references: tuple[Image.Image, ...]
    candidates: tuple[Image.Image, ...]
    hashes: tuple[str, ...]


@dataclass(frozen=True)
class NoPictures:
    """Why there is nothing to look at."""

    status: Status
    reason: str


def load_pictures(
    root: Path, references: Sequence[Reference], candidates: Sequence[Path | None], *, status: Status = "ok"
) -> Pictures | NoPictures:
    """Load references and candidates.

    Args:
        root: the folder below which the references are.
        references: as the case lists them.
        candidates: files; None where the generator made none.
        status: how the generator did, which is the reason where a candidate is None.
    """
    if None in candidates:
        return NoPictures("missing_output" if status == "ok" else status, "the generator made no picture")
    files = [file for file in candidates if file is not None]
    try:
        try:
            shown = tuple(load_image(file) for file in files)
        except UnreadableImageError:
            if missing := [file for file in files if not file.exists()]:
                return NoPictures("missing_output", f"there is no file {missing[0]}")
            raise
        sources = tuple(load_image(resolve(root, reference.path)) for reference in references)
    except (UserError, OSError) as error:  # a folder that may not be entered, a name that is too long
        return NoPictures("unreadable_image", str(error))
    return Pictures(sources, shown, tuple(content_hash(picture) for picture in (*sources, *shown)))
