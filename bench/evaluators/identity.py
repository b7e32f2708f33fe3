"""ID-Sim: how much the people in a picture look like those who were asked for.

Source: Nguyen et al. 2026 (arXiv 2606.15867), section 4 and appendix C.5. The value is the mean over the case's
identities of the similarity between the reference's face and the face that it is matched with, 0 for a person without
one, and for one whom the generator says it gave up on. Faces that nobody is matched with do not count.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.cogcanvas.cases import IDENTITY, given_up
from bench.evaluators.faces.embedding import FaceEmbedder
from bench.evaluators.faces.face import Face, FaceDetector, FaceParser, FaceRecognizer
from bench.evaluators.faces.matching import Matching, match
from bench.evaluators.reference_cache import ReferenceCache
from gnomon.hashing import stable_hash
from gnomon.records import Reference, Verdict
from rm.judge import JudgeRequest
from rm.protocols.asking import Asked, Outcome, Shell

METRIC = "id_sim"


class IdentityJudge:
    """Compares the faces of a picture with those of the case's identity references.

    A verdict's `raw` is JSON: `size` of the picture, `faces` from left to right, and `people` with the face that each
    is matched with and the similarity. A reference's face is its largest. A case that names one identity twice is not
    applicable, since no matching could tell the two apart; a reference without a face is an unreadable image.

    Args:
        detector: finds faces.
        recognizer: compares them; values are in its unit, a cosine as a rule.
        parser: says which pixels of a face do not count, such as the neck; all do without one.
        matching: "hungarian", by which a face stands for one person at most, or "best".
        cache: folder for the vectors of references, shared by ranks and runs; None keeps them in memory.
        name: for people; says the backends by default.
        batch_size: requests whose pictures are in memory together.
    """

    metrics: tuple[str, ...] = (METRIC,)

    def __init__(
        self,
        detector: FaceDetector,
        recognizer: FaceRecognizer,
        *,
        parser: FaceParser | None = None,
        matching: Matching = "hungarian",
        cache: str | Path | None = None,
        name: str | None = None,
        batch_size: int = 8,
    ) -> None:
        self.embedder, self.matching = FaceEmbedder(detector, recognizer, parser), matching
        self.references, self.batch_size = ReferenceCache(cache), batch_size
        how = "" if matching == "hungarian" else f", {matching} match"
        self.name = name or f"id-sim ({self.embedder.name}{how})"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of backends and matching."""
        return stable_hash([METRIC, 1, self.embedder.fingerprint, self.matching])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order."""
        return Shell(
            self.fingerprint,
            problem=_problem,
            prompt_hash=lambda _: None,
            answer=lambda asked: [self._timed(item) for item in asked],
            batch_size=self.batch_size,
            shown=lambda request: _identities(request),
        ).judge(requests)

    def _timed(self, asked: Asked) -> Outcome:
        start = time.perf_counter()
        try:
            outcome = self._outcome(asked)
        except ValueError as error:  # landmarks by which no face can be straightened
            outcome = Outcome(None, "unreadable_image", str(error))
        return replace(outcome, seconds=time.perf_counter() - start)

    def _outcome(self, asked: Asked) -> Outcome:
        people = [_called(identity) for identity in _identities(asked.request)]
        images, pictures = asked.pictures.references, asked.pictures.hashes
        if twice := _repeated(pictures[: len(people)]):
            names = ", ".join(name for name, picture in zip(people, pictures, strict=False) if picture in twice)
            return Outcome(None, "not_applicable", f"the case has one identity twice, with the same picture: {names}")
        vectors = [
            self.references.get(self.embedder.fingerprint, picture, partial(self.embedder.largest_face, image))
            for image, picture in zip(images, pictures, strict=False)
        ]
        if without := [name for name, vector in zip(people, vectors, strict=True) if not len(vector)]:
            return Outcome(None, "unreadable_image", f"no face was found in the reference of {', '.join(without)}")
        candidate = asked.pictures.candidates[0]
        faces, embedded = self.embedder.all_faces(candidate)
        similarity = self.embedder.recognizer.similarity(np.concatenate(vectors), embedded)
        if not np.isfinite(similarity).all():
            return Outcome(None, "out_of_range", "a similarity is not a finite number")
        lost = given_up(asked.request.candidate)
        kept = [identity.path not in lost for identity in _identities(asked.request)]
        return self._scored(people, faces, similarity, kept, candidate.size)

    def _scored(
        self,
        people: Sequence[str],
        faces: Sequence[Face],
        similarity: NDArray[Any],
        kept: Sequence[bool],
        size: tuple[int, int],
    ) -> Outcome:
        matched = iter(match(similarity[list(kept)], self.matching))
        found = [next(matched) if is_kept else None for is_kept in kept]
        values = [0.0 if face is None else float(similarity[row, face]) for row, face in enumerate(found)]
        words = [
            f"{name} {'has no face' if face is None else f'{value:.3f}'}"
            for name, face, value in zip(people, found, values, strict=True)
        ]
        matches = [
            {"person": name, "face": face, "similarity": value}
            for name, face, value in zip(people, found, values, strict=True)
        ]
        described = [
            {"box": face.box, "landmarks": face.landmarks, "score": face.score, "similarities": column.tolist()}
            for face, column in zip(faces, similarity.T, strict=True)
        ]
        raw = json.dumps({"size": size, "faces": described, "people": matches}, ensure_ascii=False)
        return Outcome(fmean(values), "ok", f"{len(faces)} faces; {', '.join(words)}", raw)


def _problem(request: JudgeRequest) -> str | None:
    if request.metric != METRIC:
        return f"the judge's metric is {METRIC}"
    identities = _identities(request)
    if not identities:
        return "the case has no identities"
    if twice := _repeated([identity.name for identity in identities if identity.name]):
        return f"the case names one identity twice: {', '.join(twice)}"
    return None


def _identities(request: JudgeRequest) -> list[Reference]:
    return [reference for reference in request.case.references if reference.role == IDENTITY]


def _called(identity: Reference) -> str:
    return identity.name or identity.path


def _repeated(values: Sequence[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]
