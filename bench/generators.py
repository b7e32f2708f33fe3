"""Where candidates come from: the contract of a generator, and the folder of pictures that a model already made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import quote

from PIL import Image

from gnomon.errors import UserError
from gnomon.images import UnreadableImageError, load_image
from gnomon.records import Case

_UNSAFE = re.compile(r'[\x00-\x1f%/\\:*?"<>|]')


@dataclass(frozen=True)
class Failure:
    """What stands in the place of a picture that could not be made: how it failed, and why."""

    status: Literal["missing_output", "unreadable_image", "refused", "api_error"]
    reason: str


class Generator(Protocol):
    """Makes one picture for each case.

    `cases`, `references` and `seeds` have equal length; `references[k]` are the pictures of `cases[k].references` in
    RGB. The result has that length and order. A generator that fails for one item says so with a :class:`Failure` in
    its place; what it raises stops the run. One with settings that change its pictures tells them apart by an
    attribute `fingerprint`, so that a run folder is not filled by two.
    """

    def generate(
        self, cases: Sequence[Case], references: Sequence[list[Image.Image]], seeds: Sequence[int]
    ) -> Sequence[Image.Image | Failure]:
        """Return a picture or a failure for every case."""
        ...


def file_stem(case_id: str) -> str:
    """Return the case id as a file name without ending: characters that file systems refuse as %XX, the rest as is."""
    return _UNSAFE.sub(lambda match: quote(match[0], safe=""), case_id)


@dataclass
class FolderGenerator:
    """Takes the pictures that somebody's own model made: `<folder>/<case id>.png`, see :func:`file_stem`.

    A picture that is missing or cannot be read is a :class:`Failure`. There is one picture a case, so a second
    repeat would be the first one again and is refused.
    """

    folder: Path
    _seeds: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not Path(self.folder).is_dir():
            raise UserError(f"expected a folder of pictures named <case id>.png at {self.folder}; check the path")

    @property
    def fingerprint(self) -> str:
        """The folder's absolute path."""
        return f"folder {Path(self.folder).resolve()}"

    def generate(
        self, cases: Sequence[Case], references: Sequence[list[Image.Image]], seeds: Sequence[int]
    ) -> list[Image.Image | Failure]:
        """Return the picture of every case.

        Raises:
            UserError: when one case is asked for with two seeds.
        """
        for case, seed in zip(cases, seeds, strict=True):
            if self._seeds.setdefault(case.id, seed) != seed:
                raise UserError(f"{self.folder} holds one picture of case {case.id!r}; use --repeats 1 with it")
        return [self._load(case.id) for case in cases]

    def _load(self, case_id: str) -> Image.Image | Failure:
        path = Path(self.folder) / f"{file_stem(case_id)}.png"
        if not path.is_file():
            return Failure("missing_output", f"no file {path.name}")
        try:
            return load_image(path)
        except UnreadableImageError as error:
            return Failure("unreadable_image", str(error))
