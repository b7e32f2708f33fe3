"""Person count: whether a picture shows as many people as its text asks for.

Source: Nguyen et al. 2026 (arXiv 2606.15867), section 4.3: for text-to-image generation, the number of people that a
detector finds is compared with the number of identities.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from bench.cogcanvas.cases import TEXT_TO_IMAGE, people
from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.records import Verdict
from rm.judge import JudgeRequest
from rm.protocols.asking import Asked, Outcome, Shell

if TYPE_CHECKING:
    from bench.evaluators.vision.detection import ObjectDetector

METRIC = "person_count"


class PersonCountJudge:
    """Counts people by a detector: 1 where there are as many as the case has identities, 0 otherwise.

    Args:
        detector: finds people.
        label: the detector's word for a person.
        tasks: what the metric applies to.
        batch_size: candidates whose pictures are in memory together.
        name: for people.

    Raises:
        UserError: when the detector does not know the word.
    """

    metrics: tuple[str, ...] = (METRIC,)

    def __init__(
        self,
        detector: ObjectDetector,
        *,
        label: str = "person",
        tasks: Sequence[str] = (TEXT_TO_IMAGE,),
        batch_size: int = 8,
        name: str | None = None,
    ) -> None:
        labels = sorted(set(detector.labels.values()))
        if label not in labels:
            raise UserError(f"expected label to be one of the detector's, got {label!r}; it has {', '.join(labels)}")
        self.detector, self.label, self.tasks = detector, label, tuple(tasks)
        self.batch_size, self.name = batch_size, name or f"person count ({detector.name})"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of detector, label and tasks."""
        return stable_hash(["person count", self.detector.fingerprint, self.label, self.tasks])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order.

        `not_applicable` for other tasks and for cases without people.
        """
        return Shell(
            self.fingerprint,
            problem=self._problem,
            prompt_hash=lambda request: stable_hash([self.label]),
            answer=lambda asked: [self._answer(one) for one in asked],
            batch_size=self.batch_size,
            shown=lambda request: [],
        ).judge(requests)

    def _problem(self, request: JudgeRequest) -> str | None:
        if request.metric != METRIC:
            return f"the judge's metric is {METRIC}"
        if request.case.task not in self.tasks:
            return f"people are counted where the task is {', '.join(self.tasks)}"
        return None if people(request.case) else "the case has no identities"

    def _answer(self, asked: Asked) -> Outcome:
        start = time.perf_counter()
        image = asked.pictures.candidates[0]
        try:
            found = self.detector.detect(image, self.label)
        except ValueError as error:
            return Outcome(None, "unreadable_image", str(error))
        expected = len(people(asked.request.case))
        raw = {
            "size": list(image.size),
            "expected": expected,
            "people": [
                {"box": [round(side, 1) for side in box], "score": round(score, 4)}
                for box, score in zip(found.boxes.tolist(), found.scores.tolist(), strict=True)
            ],
        }
        rationale = f"{len(found)} people, expected {expected}"
        return Outcome(float(len(found) == expected), "ok", rationale, json.dumps(raw), time.perf_counter() - start)
