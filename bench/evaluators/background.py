"""BG-Sim: how far the place in a picture is the place of the background reference, whoever stands before it.

Source: Nguyen et al. 2026 (arXiv 2606.15867), section 4 and appendix C.5. The foreground is masked in both pictures,
and the features of what remains are compared by their cosine. The paper does not say where its mean is taken. Here
either the features of the cells that remain are averaged in each picture, and one cosine is taken of the two means
("pooled": the camera may have moved); or a cosine is taken for each cell that remains in both, and these are averaged
("cells": the place has to be where it was).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bench.cogcanvas.cases import BACKGROUND, ITEMS, TEXT_TO_IMAGE
from bench.evaluators.reference_cache import ReferenceCache
from bench.generators import REFERENCE_ROLES
from gnomon.hashing import stable_hash
from gnomon.records import Reference, Verdict
from rm.judge import JudgeRequest
from rm.pictures import Pictures
from rm.protocols.asking import Asked, Outcome, Shell

if TYPE_CHECKING:
    from bench.evaluators.vision.embedding import CellEmbedder
    from bench.evaluators.vision.segmentation import Segmenter

METRIC = "bg_sim"
PERSON = "person"

Aggregate = Literal["pooled", "cells"]
Cells = NDArray[np.float32]
"""Features of a picture's cells: shape (row, column, dimension)."""


class BackgroundJudge:
    """Compares what is not foreground with the background reference.

    Args:
        segmenter: masks the foreground: people, and the case's items by their names.
        embedder: describes the cells of a picture.
        aggregate: how cells become one number, see the module.
        max_foreground: cells with a larger share of foreground are left out, 0..1.
        has_background_input: whether the method is given the background as a picture; where it is not, the metric does
            not apply. None takes it from the run (`gnomon bench generate --reference-roles`).
        cache: folder for the features of references, shared by ranks and runs; None keeps them in memory.
        batch_size: candidates whose pictures are in memory together.
        name: for people.
    """

    metrics: tuple[str, ...] = (METRIC,)

    def __init__(
        self,
        segmenter: Segmenter,
        embedder: CellEmbedder,
        *,
        aggregate: Aggregate = "pooled",
        max_foreground: float = 0.1,
        has_background_input: bool | None = None,
        cache: str | Path | None = None,
        batch_size: int = 8,
        name: str | None = None,
    ) -> None:
        if not 0 <= max_foreground < 1:
            raise ValueError(f"expected max_foreground in 0..1, without 1, got {max_foreground}")
        self.segmenter, self.embedder, self.aggregate = segmenter, embedder, aggregate
        self.max_foreground, self.has_background_input = max_foreground, has_background_input
        self.batch_size = batch_size
        self.name = name or f"bg-sim ({embedder.name}, {segmenter.name}, {aggregate})"
        self.references = ReferenceCache(cache)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of segmenter, embedder and settings."""
        settings = [self.aggregate, self.max_foreground, self.has_background_input]
        return stable_hash(["background", self.segmenter.fingerprint, self.embedder.fingerprint, settings])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order.

        `not_applicable` where the method or the case has no background reference, or the case is to be drawn from its
        text alone; `out_of_range` where no background is left to compare.
        """
        return Shell(
            self.fingerprint,
            problem=self._problem,
            prompt_hash=lambda request: stable_hash(concepts(request)),
            answer=lambda asked: [self._answer(one) for one in asked],
            batch_size=self.batch_size,
            shown=_backgrounds,
        ).judge(requests)

    def _problem(self, request: JudgeRequest) -> str | None:
        if request.metric != METRIC:
            return f"the judge's metric is {METRIC}"
        if request.case.task == TEXT_TO_IMAGE:
            return "the case is to be drawn from its text alone"
        if len(_backgrounds(request)) != 1:
            return f"the case has {len(_backgrounds(request)) or 'no'} background references"
        given = request.candidate.sampling.get(REFERENCE_ROLES)
        from_run = given is None or BACKGROUND in given
        has_input = from_run if self.has_background_input is None else self.has_background_input
        return None if has_input else "the method has no background reference as input"

    def _answer(self, asked: Asked) -> Outcome:
        from bench.evaluators.vision.segmentation import shares_of_cells

        start = time.perf_counter()
        words = concepts(asked.request) if self.segmenter.takes_words else []
        pictures = asked.pictures
        image, place = pictures.candidates[0], pictures.references[0]
        try:
            candidate, mask = self.embedder.cells(image), self.segmenter.foreground(image, words)
            reference = self._kept(self.embedder.fingerprint, pictures, lambda: self.embedder.cells(place))
            segmenter = stable_hash([self.segmenter.fingerprint, words])
            place_mask = self._kept(segmenter, pictures, lambda: self.segmenter.foreground(place, words))
        except ValueError as error:
            return Outcome(None, "unreadable_image", str(error))
        left = [
            shares_of_cells(one, *cells.shape[:2]) <= self.max_foreground
            for one, cells in ((mask, candidate), (place_mask, reference))
        ]
        raw = json.dumps(
            {"grid": list(left[0].shape), "background": {"candidate": _rows(left[0]), "reference": _rows(left[1])}}
        )
        seconds = time.perf_counter() - start
        value = _compare(candidate, reference, left[0], left[1], self.aggregate)
        if value is None or not np.isfinite(value):
            return Outcome(None, "out_of_range", "no background is left to compare", raw, seconds)
        rationale = f"{left[0].mean():.0%} of the picture and {left[1].mean():.0%} of the reference are background"
        return Outcome(value, "ok", rationale, raw, seconds)

    def _kept(self, backend: str, pictures: Pictures, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return what a backend computes of the reference, computed once."""
        return self.references.get(backend, pictures.hashes[0], compute)


def _compare(
    candidate: Cells, reference: Cells, candidate_left: NDArray[Any], reference_left: NDArray[Any], aggregate: Aggregate
) -> float | None:
    """Return the similarity of two pictures' cells where they are left; None where none are."""
    if aggregate == "cells":
        both = candidate_left & reference_left
        return _mean_cosine(candidate[both], reference[both]) if both.any() else None
    if not (candidate_left.any() and reference_left.any()):
        return None
    means = [
        one[left].mean(0, dtype=np.float64) for one, left in ((candidate, candidate_left), (reference, reference_left))
    ]
    return _mean_cosine(*means)


def _mean_cosine(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the mean of the cosines of each two vectors; NaN where one has no direction."""
    return float((_directions(first) * _directions(second)).sum(-1).mean())


def _directions(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Return vectors of unit length; NaN where one has no direction."""
    double = vectors.astype(np.float64)
    lengths = np.linalg.norm(double, axis=-1, keepdims=True)
    directions: NDArray[np.float64] = np.divide(double, lengths, out=np.full_like(double, np.nan), where=lengths > 0)
    return directions


def concepts(request: JudgeRequest) -> list[str]:
    """Return what is foreground in a case: people, and its items by name."""
    names = {reference.name for reference in request.case.references if reference.role in ITEMS and reference.name}
    return [PERSON, *sorted(names)]


def _backgrounds(request: JudgeRequest) -> list[Reference]:
    return [reference for reference in request.case.references if reference.role == BACKGROUND]


def _rows(left: NDArray[Any]) -> list[str]:
    """Return a grid as lines of text: "." where background is left, "#" where foreground is."""
    return ["".join("." if cell else "#" for cell in row) for row in left.tolist()]
