"""The oracle as a judge for `gnomon bench` and as a reward or monitor for `gnomon rl`.

Both look up the true scenes in `case.meta` (`scene` and `target`, as :mod:`data_build.tabletop.cases` writes them) and
the outcome in the pixels.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from data_build.tabletop import draw, oracle, world
from data_build.tabletop.world import Scene
from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_hash
from gnomon.images import content_hash, load_image
from gnomon.records import Case, Status, Verdict
from rm.judge import JudgeRequest

if TYPE_CHECKING:
    from rl.rewards import RewardOutput

METRICS = ("instruction", "consistency", "quality", "overall", "success")
ORACLE_VERSION = 2
"""Raised when the oracle's scores change their meaning in a way that its source does not show."""


def scenes_of(case: Case) -> tuple[Scene, Scene]:
    """Return the source and the target scene of a tabletop case.

    Raises:
        UserError: when the case does not hold them.
    """
    try:
        return Scene.from_dict(case.meta["scene"]), Scene.from_dict(case.meta["target"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"expected the scenes of a tabletop case in meta of {case.id!r} ('scene' and 'target'), got {error!r}; "
            "the oracle judges only what `gnomon data build tabletop` made"
        ) from error


def score_case(case: Case, image: Image.Image) -> dict[str, float]:
    """Return the oracle's scores of one candidate, each in 0..1, by the names in `METRICS`.

    Raises:
        UserError: when the case does not hold its scenes.
    """
    score = oracle.score(image, *scenes_of(case))
    return {name: float(getattr(score, name)) for name in METRICS}


class OracleJudge:
    """The oracle as a judge: it answers for tabletop cases only, all five metrics from one look at the picture."""

    name: str = "oracle"
    metrics: tuple[str, ...] = METRICS

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the code that the scores depend on."""
        return stable_hash([ORACLE_VERSION, *(file_hash(str(module.__file__)) for module in (oracle, draw, world))])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order.

        Statuses: the candidate's own where there is no picture, `missing_output` and `unreadable_image` for its file,
        `not_applicable` for another metric and for a case without scenes.
        """
        looks: dict[tuple[str, str, int, Path | None], _Look] = {}
        verdicts = []
        for request in requests:
            key = (request.case.id, request.candidate.generator, request.candidate.seed, request.image)
            if key not in looks:
                looks[key] = _look(request)
            verdicts.append(self._verdict(request, looks[key]))
        return verdicts

    def _verdict(self, request: JudgeRequest, look: _Look) -> Verdict:
        unknown = request.metric not in METRICS
        reason = f"the oracle's metrics are {', '.join(METRICS)}" if unknown else look.reason
        return Verdict(
            case_id=request.case.id,
            generator=request.candidate.generator,
            seed=request.candidate.seed,
            metric=request.metric,
            value=look.scores.get(request.metric),
            status="not_applicable" if unknown else look.status,
            rationale=reason,
            judge=self.fingerprint,
            image_hashes=list(look.image_hashes),
            seconds=look.seconds,
        )


@dataclass(frozen=True)
class _Look:
    """What came of one candidate: its scores, or why there are none."""

    scores: dict[str, float]
    status: Status = "ok"
    reason: str | None = None
    image_hashes: tuple[str, ...] = ()
    seconds: float | None = None


def _look(request: JudgeRequest) -> _Look:
    if request.image is None:
        status = request.candidate.status
        return _Look({}, "missing_output" if status == "ok" else status, "the generator made no picture")
    if not request.image.exists():
        return _Look({}, "missing_output", f"there is no file {request.image}")
    start = time.perf_counter()
    try:
        image = load_image(request.image)
    except UserError as error:
        return _Look({}, "unreadable_image", str(error))
    hashes = (content_hash(image),)
    try:
        scores = score_case(request.case, image)
    except UserError as error:
        return _Look({}, "not_applicable", str(error), hashes)
    return _Look(scores, "ok", None, hashes, time.perf_counter() - start)


class OracleReward:
    """The oracle as a reward, for tests and as a monitor of a policy that another judge rewards."""

    def __init__(self, metric: str = "overall") -> None:
        """Choose what is maximised.

        Args:
            metric: one of `METRICS`; all of them are in the breakdown.

        Raises:
            UserError: for another name.
        """
        if metric not in METRICS:
            raise UserError(f"expected a metric of the oracle out of {', '.join(METRICS)}, got {metric!r}")
        self.metric = metric

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image.Image]], images: Sequence[Image.Image]
    ) -> RewardOutput:
        """Score `images`; a case without scenes is a failed row with its reason."""
        # Whoever judges with the oracle should not wait for torch and transformers.
        import torch

        from rl.rewards import RewardOutput

        values = torch.full((len(METRICS), len(images)), torch.nan, dtype=torch.float64)
        reasons: dict[int, str] = {}
        for row, (case, image) in enumerate(zip(cases, images, strict=True)):
            try:
                values[:, row] = torch.tensor(list(score_case(case, image).values()), dtype=torch.float64)
            except UserError as error:
                reasons[row] = str(error)
        breakdown = dict(zip(METRICS, values, strict=True))
        return RewardOutput(breakdown[self.metric], breakdown, values.isnan().any(dim=0), reasons)
