"""DINO-Sim: how far each object and fashion item of a case looks in the picture as its reference shows it.

Source: Nguyen et al. 2026 (arXiv 2606.15867), section 4 and appendix C.5. Each slot is localised in the generated
picture, cut out and embedded; the value is the mean over slots of the cosine with the reference's embedding, where a
slot that is found nowhere contributes 0, as does one that its generator says it gave up on. What a method was not given
as reference is judged all the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.cogcanvas.cases import ITEMS, TEXT_TO_IMAGE, given_up
from bench.evaluators.cosine import cosines
from bench.evaluators.reference_cache import ReferenceCache
from bench.evaluators.slots import Regions, assign, exchange, pooled
from gnomon.hashing import stable_hash
from gnomon.records import Reference, Verdict
from rm.judge import JudgeRequest
from rm.protocols.asking import Asked, Outcome, Shell

if TYPE_CHECKING:
    from PIL import Image

    from bench.evaluators.vision.detection import OpenVocabularyDetector
    from bench.evaluators.vision.embedding import Embedder, Vectors

METRIC = "dino_sim"


class Localizer(Protocol):
    """Finds slots in a picture.

    Attributes:
        name: for people.
    """

    name: str

    @property
    def fingerprint(self) -> str:
        """Hash of weights and settings."""

    def locate(self, image: Image.Image, names: Sequence[str], references: Vectors) -> Regions:
        """Return where each slot may be.

        Args:
            image: the picture.
            names: of the slots.
            references: the slots' embeddings, of shape (slot, dimension).

        Raises:
            ValueError: for a picture of an impossible shape.
        """


class DetectorLocalizer:
    """Finds slots by the names of their references alone.

    Args:
        detector: asked for each name.
    """

    def __init__(self, detector: OpenVocabularyDetector) -> None:
        self.detector, self.name = detector, detector.name

    @property
    def fingerprint(self) -> str:
        """The detector's."""
        return self.detector.fingerprint

    def locate(self, image: Image.Image, names: Sequence[str], references: Vectors) -> Regions:
        """Return where each slot may be; see :class:`Localizer`."""
        unique = list(dict.fromkeys(names))
        found = dict(zip(unique, self.detector.detect(image, unique), strict=True))
        return pooled([(found[name].boxes, found[name].scores) for name in names])


@dataclass(frozen=True)
class _Slot:
    """What came of one slot."""

    reference: Reference
    similarity: float
    box: NDArray[np.float64] | None = None
    score: float | None = None


class SubjectJudge:
    """Localises a case's items, and compares each with its reference.

    Slots share out the regions so that the sum of the localiser's scores is largest: none serves two of them. Those of
    one name are told apart by how alike they are to their references.

    Args:
        localizer: finds the slots.
        embedder: embeds references, and what was cut out.
        crop_embedder: embeds what was cut out in its place, in the same space; None for one that embeds both.
        margin: what is added to each side of a box, as a share of its width and height.
        cache: folder for the embeddings of references, shared by ranks and runs; None keeps them in memory.
        batch_size: candidates whose pictures are in memory together.
        name: for people.
    """

    metrics: tuple[str, ...] = (METRIC,)

    def __init__(
        self,
        localizer: Localizer,
        embedder: Embedder,
        *,
        crop_embedder: Embedder | None = None,
        margin: float = 0.05,
        cache: str | Path | None = None,
        batch_size: int = 8,
        name: str | None = None,
    ) -> None:
        if margin < 0:
            raise ValueError(f"expected margin >= 0, got {margin}")
        self.localizer, self.embedder, self.margin = localizer, embedder, margin
        self.crop_embedder = crop_embedder or embedder
        self.batch_size = batch_size
        self.name = name or f"dino-sim ({embedder.name}, {localizer.name})"
        self.references = ReferenceCache(cache)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of localiser, embedders and margin."""
        embedders = [self.embedder.fingerprint, self.crop_embedder.fingerprint]
        return stable_hash(["subject", self.localizer.fingerprint, embedders, self.margin])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order.

        `not_applicable` for a case without items, with one that has no name, or that is to be drawn from its text
        alone; `unreadable_image` where a picture or reference is, or has a shape that no model takes.
        """
        return Shell(
            self.fingerprint,
            problem=_problem,
            prompt_hash=lambda request: stable_hash([item.name for item in items(request)]),
            answer=lambda asked: [self._answer(one) for one in asked],
            batch_size=self.batch_size,
            shown=items,
        ).judge(requests)

    def _answer(self, asked: Asked) -> Outcome:
        start = time.perf_counter()
        image = asked.pictures.candidates[0]
        try:
            slots = self._slots(image, items(asked.request), asked)
        except ValueError as error:
            return Outcome(None, "unreadable_image", str(error))
        value = float(np.mean([slot.similarity for slot in slots]))
        if not np.isfinite(value):
            return Outcome(None, "out_of_range", "the embedding of a picture has no direction")
        missing = [slot.reference.name for slot in slots if slot.box is None]
        rationale = f"{len(slots) - len(missing)} of {len(slots)} found" + (
            f"; missing: {', '.join(map(str, missing))}" if missing else ""
        )
        raw = {"size": list(image.size), "slots": [_as_json(slot) for slot in slots]}
        return Outcome(value, "ok", rationale, json.dumps(raw, ensure_ascii=False), time.perf_counter() - start)

    def _slots(self, image: Image.Image, references: Sequence[Reference], asked: Asked) -> list[_Slot]:
        lost = given_up(asked.request.candidate)
        kept = [place for place, reference in enumerate(references) if reference.path not in lost]
        slots = [_Slot(reference, 0.0) for reference in references]
        found = self._found(image, [references[place] for place in kept], asked, kept) if kept else []
        for place, slot in zip(kept, found, strict=True):
            slots[place] = slot
        return slots

    def _found(
        self, image: Image.Image, references: Sequence[Reference], asked: Asked, places_of: Sequence[int]
    ) -> list[_Slot]:
        """Return what came of some references, whose places in the case's list are `places_of`."""
        from bench.evaluators.vision.boxes import crop

        names = [reference.name or "" for reference in references]
        known = self._embedded(asked, places_of)
        regions = self.localizer.locate(image, names, known)
        given = assign(regions.scores)
        places = sorted({place for place in given if place is not None})
        similarity = np.zeros_like(regions.scores)
        if places:
            seen = self.crop_embedder.embed([crop(image, regions.boxes[place], self.margin) for place in places])
            similarity[:, places] = cosines(known, seen)
        return [
            _Slot(reference, 0.0)
            if place is None
            else _Slot(
                reference, float(similarity[slot, place]), regions.boxes[place], float(regions.scores[slot, place])
            )
            for slot, (reference, place) in enumerate(zip(references, exchange(given, names, similarity), strict=True))
        ]

    def _embedded(self, asked: Asked, places: Sequence[int]) -> Vectors:
        """Return the embeddings of the references at some places: shape (slot, dimension)."""
        pictures = asked.pictures
        kept = [
            self.references.get(
                self.embedder.fingerprint, pictures.hashes[place], partial(self._vector, pictures.references[place])
            )
            for place in places
        ]
        vectors: Vectors = np.stack(kept)
        return vectors

    def _vector(self, picture: Image.Image) -> Vectors:
        vector: Vectors = self.embedder.embed([picture])[0]
        return vector


def items(request: JudgeRequest) -> list[Reference]:
    """Return the references of a request's case that are slots."""
    return [reference for reference in request.case.references if reference.role in ITEMS]


def _problem(request: JudgeRequest) -> str | None:
    if request.metric != METRIC:
        return f"the judge's metric is {METRIC}"
    if request.case.task == TEXT_TO_IMAGE:
        return "the case is to be drawn from its text alone"
    slots = items(request)
    if not slots:
        return "the case has no object and no fashion item"
    unnamed = [reference.path for reference in slots if not reference.name]
    return f"{', '.join(unnamed)} has no name to look for" if unnamed else None


def _as_json(slot: _Slot) -> dict[str, object]:
    box = None if slot.box is None else [round(float(side), 1) for side in slot.box]
    return {
        "name": slot.reference.name,
        "role": slot.reference.role,
        "box": box,
        "score": None if slot.score is None else round(slot.score, 4),
        "similarity": round(slot.similarity, 6),
    }
