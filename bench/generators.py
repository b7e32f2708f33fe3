"""Where candidates come from: the contract of a generator, and the folder of pictures that a model already made."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from PIL import Image

from bench.mapping import ByMapping
from bench.placement import ENDINGS, ById, ByPattern, Placement, file_stem, unused_text
from gnomon.errors import UserError
from gnomon.files import last_change
from gnomon.hashing import stable_seed
from gnomon.images import UnreadableImageError, content_hash, load_image
from gnomon.records import Candidate, Case

__all__ = [
    "CONTENT_HASH",
    "REFERENCE_ROLES",
    "Failure",
    "FolderGenerator",
    "Generator",
    "Made",
    "check_language",
    "file_stem",
    "instruction_in",
    "language_of",
]

CONTENT_HASH = "content_hash"
REFERENCE_ROLES = "reference_roles"
"""Where in `Candidate.sampling` the hash of its picture is."""

_LANGUAGES = ("en", "zh", "mixed")
_PICTURES = (*ENDINGS, ".bmp", ".gif", ".tif", ".tiff")


@dataclass(frozen=True)
class Failure:
    """What stands in the place of a picture that could not be made: how it failed, and why."""

    status: Literal["missing_output", "unreadable_image", "refused", "api_error"]
    reason: str


@dataclass(frozen=True)
class Made:
    """A picture, and what its generator has to say about the making.

    Attributes:
        picture: the picture.
        sampling: what goes into `Candidate.sampling`; JSON's types alone.
    """

    picture: Image.Image
    sampling: Mapping[str, Any]


class Generator(Protocol):
    """Makes one picture for each case.

    `cases`, `references` and `seeds` have equal length; `references[k]` are the pictures of `cases[k].references` in
    RGB. The result has that length and order. A generator that fails for one item says so with a :class:`Failure` in
    its place; one that has something to say about a picture puts it into a :class:`Made`; what it raises stops the run.
    One with settings that change its pictures tells them apart by an attribute `fingerprint`, so that a run folder is
    not filled by two. One whose pictures do not depend, to the last bit, on what else is in a batch may say so by an
    attribute `is_itemwise`: it is never asked for a picture twice. One that knows the language of its instructions says
    so by an attribute `language`, see :func:`language_of`.
    """

    def generate(
        self, cases: Sequence[Case], references: Sequence[list[Image.Image]], seeds: Sequence[int]
    ) -> Sequence[Image.Image | Made | Failure]:
        """Return a picture or a failure for every case."""
        ...


def check_language(language: str) -> str:
    """Return the language in which a generator asks.

    Raises:
        UserError: when it is none.
    """
    if language not in _LANGUAGES:
        raise UserError(f"expected language 'en', 'zh' or 'mixed', got {language!r}")
    return language


def instruction_in(case: Case, language: str) -> str:
    """Return a case's instruction in "en", "zh", or "mixed" (per case, by a hash of its id).

    Where a case has no text in that language, the one in the other.
    """
    if language == "mixed":
        language = ("en", "zh")[stable_seed("language", case.id) % 2]
    return case.instruction.get(language)


def language_of(generator: Generator) -> str | None:
    """Return the language of the instructions that a generator follows, None where it does not say."""
    language = getattr(generator, "language", None)
    return language if language in _LANGUAGES else None


@dataclass
class FolderGenerator:
    """Takes the pictures that somebody's own model made.

    By default `<folder>/<case id>` with the ending .png, .jpg, .jpeg or .webp, see :func:`bench.placement.file_stem`;
    else where `pattern` or `mapping` says. A picture that is missing or cannot be read is a :class:`Failure`; two for
    one case are an error. Where neither a pattern nor a mapping tells seeds apart, there is one picture a case, and a
    second repeat, which would be the first one again, is refused.

    Attributes:
        folder: where the pictures are.
        pattern: path below the folder with places such as {case_id}, {seed} and {meta[KEY]}, or edit-compass; see
            :class:`bench.placement.ByPattern`.
        mapping: file with a row of case_id, path and, for repeats, seed for each picture; see
            :class:`bench.mapping.ByMapping`.
        language: of the instructions that the pictures were made by: "en", "zh" or "mixed". Nothing is done with it
            here; pages of several runs need it to tell the languages apart.
    """

    is_itemwise: ClassVar[bool] = True

    folder: Path
    pattern: str | None = None
    mapping: Path | None = None
    language: str | None = None
    _placement: Placement = field(init=False, repr=False)
    _root: str = field(init=False, repr=False)
    _seen: dict[tuple[str, int], str] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        try:
            is_folder = Path(self.folder).is_dir()
        except OSError:  # above it is a folder that may not be entered
            is_folder = False
        if not is_folder:
            raise UserError(f"expected a folder of pictures at {self.folder}; check the path")
        self._root = str(Path(self.folder).absolute())
        if self.language is not None:
            check_language(self.language)
        if self.pattern is not None and self.mapping is not None:
            raise UserError("expected a pattern or a mapping of pictures, got both; leave one of them out")
        if self.pattern is not None:
            self._placement = ByPattern(self.pattern)
        else:
            self._placement = ById() if self.mapping is None else ByMapping(self.mapping)

    @property
    def fingerprint(self) -> str:
        """The folder's absolute path, the pattern or the mapping's path, and the language where it is known."""
        parts = ["folder", str(Path(self.folder).resolve()), self._placement.label]
        return " ".join([*filter(None, parts), *([] if self.language is None else [f"language {self.language}"])])

    def generate(
        self, cases: Sequence[Case], references: Sequence[list[Image.Image]], seeds: Sequence[int]
    ) -> list[Image.Image | Failure]:
        """Return the picture of every case.

        Args:
            cases: whose pictures.
            references: not looked at.
            seeds: the run's own (0, 1, ...), by which pictures are named; not those of the noise.

        Raises:
            UserError: when a case has two pictures for one seed.
        """
        return [self._load(case, seed) for case, seed in zip(cases, seeds, strict=True)]

    def inspect(self, cases: Sequence[Case], seeds: Sequence[int]) -> None:
        """Make sure that the names fit a dataset, and warn of pictures that belong to none of its cases.

        A misnamed picture is a missing one and a picture too many; only both together show what happened.

        Args:
            cases: all of the dataset, of which a run may take some.
            seeds: of the run.

        Raises:
            UserError: for names that do not fit, for a case with two pictures, and for several seeds where each case
                has one picture.
        """
        if len(seeds) > 1 and not self._placement.has_seeds:
            raise UserError(
                f"{self.folder} holds one picture a case; use --repeats 1 with it, or name pictures by {{seed}} in a "
                "pattern or by a column seed in a mapping"
            )
        self._placement.check(cases)
        waiting: dict[str, str] = {}
        for case in cases:
            for seed in seeds:
                try:
                    path = self._find(case, seed)
                except OSError:  # a folder that may not be entered: a failure of this case, later
                    continue
                if path is None:
                    waiting[self._placement.name(case, seed)] = case.id
                else:
                    self._seen[case.id, seed] = path
        used = set(self._seen.values())
        unused = [Path(path) for path in _pictures_below(self._root) if path not in used]
        if unused:
            warnings.warn(unused_text(Path(self._root), unused, waiting), stacklevel=2)

    def refuse_changed(self, candidates: Iterable[Candidate], cases: Mapping[str, Case], run: Path) -> None:
        """Make sure that the folder still holds what was taken from it; what is gone since is no matter.

        Args:
            candidates: what was taken.
            cases: their cases by id.
            run: the run folder with the copies that were taken. A picture that is older than its copy is not opened.

        Raises:
            UserError: for a picture that was overwritten.
        """
        for candidate in candidates:
            taken = candidate.sampling.get(CONTENT_HASH)
            case = cases[candidate.case_id]
            if taken is None or self._is_older(case, candidate, run):
                continue
            picture = self._load(case, candidate.seed)
            if isinstance(picture, Failure) and picture.status == "missing_output":
                continue
            if isinstance(picture, Failure) or content_hash(picture) != taken:
                raise UserError(
                    f"{self._find(case, candidate.seed)} changed since this run took its picture; use another --out "
                    "for the new ones"
                )

    def _find(self, case: Case, seed: int) -> str | None:
        """Return the one file of a case, if there is one."""
        found = self._placement.find(self._root, case, seed)
        if len(found) > 1:
            raise UserError(
                f"expected one picture of case {case.id!r} in {self.folder}, got {found[0]} and {found[1]}; remove one"
            )
        return found[0] if found else None

    def _is_older(self, case: Case, candidate: Candidate, run: Path) -> bool:
        """Say whether a picture is older than its copy, or is gone."""
        try:
            path = self._seen.get((case.id, candidate.seed)) or self._find(case, candidate.seed)
            return path is None or last_change(path) < last_change(f"{run}/{candidate.path}")
        except OSError:  # no copy any more; or a folder that may not be entered, as loading the picture says
            return False

    def _load(self, case: Case, seed: int) -> Image.Image | Failure:
        try:
            path = self._find(case, seed)
            if path is None:
                return Failure("missing_output", f"no file {self._placement.name(case, seed)}")
            return load_image(path)
        except (UnreadableImageError, OSError) as error:  # OSError: a folder that may not be entered
            return Failure("unreadable_image", str(error))


def _pictures_below(folder: str) -> Iterator[str]:
    """Yield the files that look like pictures, in order; hidden ones belong to the system."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.lower().endswith(_PICTURES) and not name.startswith("."):
                yield f"{parent}/{name}"
