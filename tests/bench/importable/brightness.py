"""A small real judge and a small real generator, on the path of tests that name them by class path; moody ones fail."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageChops

from bench.generators import Failure
from gnomon.images import load_image
from gnomon.records import Case, Verdict
from rm.judge import JudgeRequest


class BrightnessJudge:
    """Scores how bright and how red a picture is, 0..1."""

    def __init__(self, name: str = "brightness", version: int = 1, delay: float = 0.0) -> None:
        self.name = name
        self.metrics = ("brightness", "redness")
        self.fingerprint = f"brightness-{version}"
        self.delay = delay
        self.num_calls = 0
        self.num_requests = 0

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Look at each picture; `delay` seconds for each."""
        self.num_calls += 1
        self.num_requests += len(requests)
        return [self._judge(request) for request in requests]

    def _judge(self, request: JudgeRequest) -> Verdict:
        time.sleep(self.delay)
        assert request.image is not None
        pixels = np.asarray(load_image(request.image), np.float64) / 255
        value = pixels.mean() if request.metric == "brightness" else pixels[..., 0].mean()
        return Verdict(
            case_id=request.case.id,
            generator=request.candidate.generator,
            seed=request.candidate.seed,
            metric=request.metric,
            value=float(value),
            judge=self.fingerprint,
        )


class NoisyCopy:
    """Returns the first reference, brightened by `offset` plus noise of the seed."""

    def __init__(self, offset: int = 0) -> None:
        self.fingerprint = f"offset {offset}"
        self.offset = offset
        self.calls: list[list[str]] = []

    def generate(
        self, cases: Sequence[Case], references: Sequence[list[Image.Image]], seeds: Sequence[int]
    ) -> Sequence[Image.Image | Failure]:
        """Make one picture a case."""
        self.calls.append([case.id for case in cases])
        made = []
        for pictures, seed in zip(references, seeds, strict=True):
            shift = self.offset + int(np.random.default_rng(seed).integers(0, 20))
            made.append(ImageChops.add(pictures[0], Image.new("RGB", pictures[0].size, (shift, shift, shift))))
        return made


class MoodyCopy(NoisyCopy):
    """Fails for some cases with the statuses that it is told; the fingerprint does not know its mood."""

    def __init__(self, failures: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.failures = failures or {}

    def generate(
        self, cases: Sequence[Case], references: Sequence[list[Image.Image]], seeds: Sequence[int]
    ) -> Sequence[Image.Image | Failure]:
        """Make a picture or a failure for every case."""
        made = super().generate(cases, references, seeds)
        return [
            Failure(self.failures[case.id], "bad mood") if case.id in self.failures else picture
            for case, picture in zip(cases, made, strict=True)
        ]


class MoodyJudge(BrightnessJudge):
    """Fails for the redness of some cases with the statuses that it is told."""

    def __init__(self, failures: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.failures = failures or {}
        self.asked: list[tuple[str, str]] = []

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Look at each picture, or fail."""
        self.asked += [(request.case.id, request.metric) for request in requests]
        return [self._moody(verdict) for verdict in super().judge(requests)]

    def _moody(self, verdict: Verdict) -> Verdict:
        if verdict.metric != "redness" or verdict.case_id not in self.failures:
            return verdict
        return verdict.model_copy(update={"value": None, "status": self.failures[verdict.case_id]})


class ExplainingJudge(BrightnessJudge):
    """Gives a long reason for each score, full of markup that must stay text."""

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Look at each picture and say why."""
        reason = "<script>document.title = 'run'</script> \"bright\" & <b>clean</b>, " + "because of its light, " * 20
        return [verdict.model_copy(update={"rationale": reason}) for verdict in super().judge(requests)]


class CapriciousJudge(BrightnessJudge):
    """Adds something to the scores of some generators."""

    def __init__(self, likes: Mapping[str, float]) -> None:
        super().__init__(name="capricious", version=3)
        self.likes = likes

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Look at each picture, and at who made it."""
        return [
            verdict.model_copy(update={"value": (verdict.value or 0.0) + self.likes.get(verdict.generator, 0.0)})
            for verdict in super().judge(requests)
        ]
