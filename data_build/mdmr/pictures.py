"""Pictures of the gallery by id: read from their sources one after the other, in the sources' order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from PIL import Image

from data_build.mdmr.folder import GALLERY, BuildFolder
from data_build.mdmr.index import ID_LENGTH
from data_build.mdmr.settings import Source
from data_build.mdmr.sources import SourceProblem, items
from data_build.stages import require_output
from gnomon.errors import UserError
from gnomon.images import UnreadableImageError, content_hash

Place = tuple[str, str]
"""Source and member."""


def iterate_pictures(folder: BuildFolder, wanted: Mapping[Place, str]) -> Iterator[tuple[str, Image.Image | str]]:
    """Yield id and picture of each that is wanted, or why there is none; every one once.

    One picture is in memory at a time. Its pixels are compared with its id: a file that was replaced is no picture of
    the gallery.

    Args:
        folder: of the build.
        wanted: ids by place.

    Raises:
        UserError: when the gallery was not built, or a source is gone as a whole.
    """
    missing = dict(wanted)
    for name, source in read_sources(folder).items():
        if not any(place[0] == name for place in wanted):
            continue
        for item in items(name, source, lambda member, _, name=name: (name, member) in missing):  # type: ignore[misc]
            if isinstance(item, SourceProblem):
                continue  # what it held comes below
            image = missing.pop((name, item.member))
            try:
                if item.data is None:
                    raise UnreadableImageError(item.problem or "there is no picture")
                picture = item.load()
            except UnreadableImageError as error:
                yield image, str(error)
                continue
            is_same = content_hash(picture)[:ID_LENGTH] == image
            yield image, picture if is_same else f"{name}/{item.member} was replaced since the gallery was built"
    for (name, member), image in missing.items():
        yield image, f"{name}/{member} is no longer in its source"


def read_sources(folder: BuildFolder) -> dict[str, Source]:
    """Return where the pictures of a gallery are.

    Raises:
        UserError: when the gallery was not built.
    """
    file = require_output(folder.sources, GALLERY)
    try:
        found = json.loads(file.read_bytes())
        return {name: Source(**{**facts, "path": Path(facts["path"])}) for name, facts in found.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"expected the gallery's sources in {file}: {error}; run --stage {GALLERY} again") from error
