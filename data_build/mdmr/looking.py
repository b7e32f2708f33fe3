"""One look at every picture of the sources: can it be read, how large is it, what are its hashes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Literal, TypeVar

from data_build.mdmr.index import ID_LENGTH
from data_build.mdmr.sources import Item, SourceProblem
from gnomon.images import UnreadableImageError, content_hash
from gnomon.optional import require
from gnomon.records import Record

Given = TypeVar("Given")
Result = TypeVar("Result")

LOOK_VERSION = "pixels sha256/64, phash 64"
"""What the two hashes are; looks of another version are of no use."""


class Look(Record):
    """What was seen of one picture, or of a file with pictures that cannot be read.

    Attributes:
        source: name in the config.
        member: see :class:`data_build.mdmr.sources.Item`.
        stamp: likewise.
        status: "unreadable_file" is said of an archive, a table or a file of captions.
        id: of the pixels.
        width: of the upright picture, in pixels.
        height: likewise.
        perceptual_hash: 64 bits, as hex.
        caption: what is said of it.
        made_from: a name of the real picture that it was made from.
        message: what is wrong; of a picture that is "ok", with what is said of it.
    """

    source: str
    member: str
    stamp: str
    status: Literal["ok", "unreadable_image", "unreadable_file"]
    id: str | None = None
    width: int | None = None
    height: int | None = None
    perceptual_hash: str | None = None
    caption: str | None = None
    made_from: str | None = None
    message: str | None = None


def look(source: str, item: Item | SourceProblem) -> Look:
    """Decode a picture and take its hashes; a failure is a status."""
    if isinstance(item, SourceProblem):
        status: Literal["unreadable_file", "unreadable_image"] = "unreadable_file"
        return Look(source=source, member=item.member, stamp=item.stamp, status=status, message=item.message)
    try:
        if item.data is None:
            raise UnreadableImageError(item.problem or "there is no picture")
        picture = item.load()
    except UnreadableImageError as error:
        status = "unreadable_image"
        return Look(source=source, member=item.member, stamp=item.stamp, status=status, message=str(error))
    imagehash = require("imagehash", feature="finding near duplicates", extra="data")
    return Look(
        source=source,
        member=item.member,
        stamp=item.stamp,
        status="ok",
        id=content_hash(picture)[:ID_LENGTH],
        width=picture.width,
        height=picture.height,
        perceptual_hash=str(imagehash.phash(picture)),
        caption=item.caption,
        made_from=item.made_from,
        message=item.problem,
    )


def in_threads(function: Callable[[Given], Result], given: Iterable[Given], num_threads: int) -> Iterator[Result]:
    """Yield `function` of each, in order; some are worked on ahead, so that no more than twice the threads wait."""
    remaining = iter(given)
    with ThreadPoolExecutor(num_threads, thread_name_prefix="gnomon-look") as pool:
        try:
            waiting = deque(pool.submit(function, item) for item in islice(remaining, 2 * num_threads))
            while waiting:
                yield waiting.popleft().result()
                waiting.extend(pool.submit(function, item) for item in islice(remaining, 1))
        finally:
            pool.shutdown(cancel_futures=True)
