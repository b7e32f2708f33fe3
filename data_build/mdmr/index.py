"""The gallery's index: one record for each picture that is used, in parquet; pixels stay where they are."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gnomon.records import Record

ID_LENGTH = 16  # hex digits: among half a million pictures, two share an id with a chance of 1 in 10^8


class GalleryImage(Record):
    """One picture of the gallery.

    Attributes:
        id: the beginning of the hash of its pixels (:func:`gnomon.images.content_hash`).
        source: name of the source in the config.
        member: which picture of it: a path below a folder, `file.parquet#row` or `file.tar#member`.
        width: of the upright picture, in pixels.
        height: likewise.
        origin: photographed, or drawn by people ("real"), or generated ("synthetic").
        made_from: id of the real picture that a synthetic one was made from.
        caption: what came with it.
        perceptual_hash: 64 bits, as 16 hex digits.
    """

    id: str = Field(min_length=ID_LENGTH, max_length=ID_LENGTH)
    source: str
    member: str
    width: int = Field(ge=1)
    height: int = Field(ge=1)
    origin: Literal["real", "synthetic"]
    made_from: str | None = None
    caption: str | None = None
    perceptual_hash: str


COLUMNS = {
    "id": "string",
    "source": "string",
    "member": "string",
    "width": "int32",
    "height": "int32",
    "origin": "string",
    "made_from": "string",
    "caption": "string",
    "perceptual_hash": "string",
}
"""Of `gallery.parquet`, by pyarrow's names of types."""
assert set(COLUMNS) == set(GalleryImage.model_fields)
