"""Where candidates come from: the contract of a generator, and the folder of pictures that a model already made."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import quote

from PIL import Image

from gnomon.errors import UserError
from gnomon.images import UnreadableImageError, content_hash, load_image
from gnomon.records import Candidate, Case

CONTENT_HASH = "content_hash"
"""Where in `Candidate.sampling` the hash of its picture is."""

MAX_STEM_BYTES = 200  # file systems take 255, and names add a seed and an ending
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
    """Return the case id as a file name without ending: characters that file systems refuse as %XX, the rest as is.

    Of one that is longer than 200 bytes, the beginning and a hash. Different ids have different names.
    """
    stem = _UNSAFE.sub(lambda match: quote(match[0], safe=""), case_id)
    if len(stem.encode()) <= MAX_STEM_BYTES:
        return stem
    # "%~" is in no name as it is, so none is taken for a shortened one.
    ending = f"%~{hashlib.sha256(stem.encode()).hexdigest()[:32]}"
    return stem.encode()[: MAX_STEM_BYTES - len(ending)].decode(errors="ignore") + ending


@dataclass
class FolderGenerator:
    """Takes the pictures that somebody's own model made: `<folder>/<case id>.png`, see :func:`file_stem`.

    A picture that is missing or cannot be read is a :class:`Failure`. There is one picture a case, so a second
    repeat would be the first one again and is refused.
    """

    folder: Path
    _seeds: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            is_folder = Path(self.folder).is_dir()
        except OSError:  # above it is a folder that may not be entered
            is_folder = False
        if not is_folder:
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

    def refuse_changed(self, candidates: Iterable[Candidate]) -> None:
        """Make sure that the folder still holds what was taken from it; what is gone since is no matter.

        Raises:
            UserError: for a picture that was overwritten.
        """
        for candidate in candidates:
            taken = candidate.sampling.get(CONTENT_HASH)
            picture = None if taken is None else self._load(candidate.case_id)
            if picture is None or (isinstance(picture, Failure) and picture.status == "missing_output"):
                continue
            if isinstance(picture, Failure) or content_hash(picture) != taken:
                raise UserError(
                    f"{self._path(candidate.case_id)} changed since this run took its picture; use another --out for "
                    "the new ones"
                )

    def _path(self, case_id: str) -> Path:
        return Path(self.folder) / f"{file_stem(case_id)}.png"

    def _load(self, case_id: str) -> Image.Image | Failure:
        path = self._path(case_id)
        try:
            if not path.is_file():
                return Failure("missing_output", f"no file {path.name}")
            return load_image(path)
        except (UnreadableImageError, OSError) as error:  # OSError: a folder that may not be entered
            return Failure("unreadable_image", str(error))
