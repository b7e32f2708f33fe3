"""Tags out of a file: for people who have some, and for tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data_build.mdmr.annotations import Annotation
from data_build.mdmr.annotators import tags_of
from data_build.mdmr.choosing import names_of, resolve_names
from gnomon.errors import UserError
from gnomon.records import Record


class LineProblem(Record):
    """A line of a file of tags that says nothing of any picture."""

    file: str
    line: int
    message: str


def annotations_of_file(file: Path, gallery: Any, problems: list[LineProblem]) -> Iterator[Annotation]:
    """Yield what a file says of pictures of the gallery, one annotation for each that it names.

    Args:
        file: see :class:`data_build.mdmr.settings.AnnotateSettings`.
        gallery: table with the columns id, source and member.
        problems: gets the lines that are about no picture.

    Raises:
        UserError: when there is no such file.
    """
    lines = [(number, line) for number, line in enumerate(_lines(file), start=1) if line.strip()]
    ids = gallery["id"].to_pylist()

    def named() -> Iterator[tuple[int, tuple[str, ...]]]:
        rows = zip(ids, gallery["source"].to_pylist(), gallery["member"].to_pylist(), strict=True)
        yield from ((place, names_of(source, member, image)) for place, (image, source, member) in enumerate(rows))

    asked = [_subject(line) for _, line in lines]
    places = resolve_names([name for name in asked if name is not None], named)
    first: dict[str, int] = {}
    for (number, line), name in zip(lines, asked, strict=True):
        place = None if name is None else places[name]
        if place is None:
            message = (
                "expected an object {image, tags}" if name is None else f"{name!r} is no picture, or one of several"
            )
            problems.append(LineProblem(file=file.name, line=number, message=message))
        elif first.setdefault(ids[place], number) != number:
            message = f"line {first[ids[place]]} is about the same picture, and counts"
            problems.append(LineProblem(file=file.name, line=number, message=message))
        else:
            reading = tags_of(json.loads(line).get("tags"))
            reason = None if reading.problem is None else f"{file.name}:{number}: {reading.problem}"
            yield Annotation(
                image=ids[place], annotator=file.name, tags=reading.value, status=reading.status, reason=reason
            )


def _lines(file: Path) -> list[bytes]:
    try:
        return file.read_bytes().split(b"\n")
    except OSError as error:
        raise UserError(f"expected a file of tags at {file}: {error.strerror}; check annotate.file") from error


def _subject(line: bytes) -> str | None:
    """Return which picture a line is about; None where it does not say."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    name = content.get("image") if isinstance(content, dict) else None
    return name if isinstance(name, str) else None
