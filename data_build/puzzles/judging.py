"""The verification of puzzles as a judge for `gnomon bench` and as a reward or monitor for `gnomon rl`.

As a reward it cannot be exploited, as a judge it is the truth that other judges of these tasks are held against.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from data_build.puzzles.changes import Source
from data_build.puzzles.puzzle import Value
from data_build.puzzles.verify import verify
from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_hash
from gnomon.images import to_rgb
from gnomon.records import Case, Verdict
from rm.judge import JudgeRequest
from rm.pictures import NoPictures, load_pictures

if TYPE_CHECKING:
    from rl.rewards import RewardOutput

METRICS = ("solved", "valid")
"""1 for a `correct` edit, and for one that keeps the rules (`correct` or `suboptimal`); else 0."""
_WORTH: dict[str, tuple[Value, ...]] = {"solved": ("correct",), "valid": ("correct", "suboptimal")}


def verifier_hash() -> str:
    """Return a hash of the code that verdicts depend on."""
    return stable_hash([file_hash(path) for path in sorted(Path(__file__).parent.glob("*.py"))])


class PuzzleJudge:
    """Verification as a judge: it answers for puzzles only, both metrics from one look at the picture."""

    name: str = "verifier"
    metrics: tuple[str, ...] = METRICS

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the code that the values depend on."""
        return verifier_hash()

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order.

        Statuses: those of :func:`rm.pictures.load_pictures`, `not_applicable` for another metric and for a case that
        holds no puzzle. A picture that cannot be held against its source is worth 0, as an edit it failed.
        """
        known: dict[tuple[str, str, int, Path | None], Verdict] = {}
        verdicts = []
        for request in requests:
            key = (request.case.id, request.candidate.generator, request.candidate.seed, request.image)
            if key not in known:
                known[key] = self._look(request)
            verdicts.append(self._about(request.metric, known[key]))
        return verdicts

    def _about(self, metric: str, look: Verdict) -> Verdict:
        if metric not in METRICS:
            reason = f"the verifier's metrics are {', '.join(METRICS)}"
            return look.model_copy(
                update={"metric": metric, "value": None, "status": "not_applicable", "rationale": reason, "raw": None}
            )
        value = None if look.raw is None else float(look.raw in _WORTH[metric])
        return look.model_copy(update={"metric": metric, "value": value})

    def _look(self, request: JudgeRequest) -> Verdict:
        """Return the verdict under "solved"; what verification said is its `raw`."""
        start = time.perf_counter()
        found = load_pictures(
            request.root, request.case.references[:1], [request.image], status=request.candidate.status
        )
        verdict = Verdict(
            case_id=request.case.id,
            generator=request.candidate.generator,
            seed=request.candidate.seed,
            metric="solved",
            value=None,
            status="not_applicable",
            judge=self.fingerprint,
        )
        if isinstance(found, NoPictures):
            return verdict.model_copy(update={"status": found.status, "rationale": found.reason})
        verdict = verdict.model_copy(update={"image_hashes": list(found.hashes)})
        try:
            outcome = verify(request.case, found.references[0], found.candidates[0])
        except UserError as error:
            return verdict.model_copy(update={"rationale": str(error)})
        return verdict.model_copy(
            update={
                "value": float(outcome.value == "correct"),
                "status": "ok",
                "rationale": f"{outcome.value}: {outcome.reason}",
                "raw": outcome.value,
                "seconds": time.perf_counter() - start,
            }
        )


class PuzzleReward:
    """Verification as a reward: 1 for a correct edit, 0 for one that breaks the rules, and what is in between."""

    def __init__(self, suboptimal: float = 0.5) -> None:
        """Set the reward of an edit that keeps the rules but is not the best.

        Args:
            suboptimal: from 0 to 1; at 1 rules are all that counts.

        Raises:
            UserError: for a number out of range.
        """
        if not 0 <= suboptimal <= 1:
            raise UserError(f"expected suboptimal in 0..1, got {suboptimal}")
        self.suboptimal = suboptimal

    @property
    def fingerprint(self) -> str:
        """Hash of the code and the setting."""
        return stable_hash([verifier_hash(), self.suboptimal])

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image.Image]], images: Sequence[Image.Image]
    ) -> RewardOutput:
        """Score `images`; a case that holds no puzzle is a failed row with its reason."""
        # Whoever verifies a folder should not wait for torch.
        import torch

        from rl.rewards import RewardOutput

        solved, valid = (torch.full((len(images),), torch.nan, dtype=torch.float64) for _ in METRICS)
        reasons: dict[int, str] = {}
        sources: dict[int, Source] = {}  # a group's candidates share theirs
        for row, (case, shown, image) in enumerate(zip(cases, references, images, strict=True)):
            try:
                if not shown:
                    raise UserError(f"expected a puzzle with its source as reference, got case {case.id!r} without")
                if id(shown[0]) not in sources:
                    sources[id(shown[0])] = Source(to_rgb(shown[0]))
                value = verify(case, sources[id(shown[0])], image).value
            except UserError as error:
                reasons[row] = str(error)
                continue
            solved[row], valid[row] = (float(value in _WORTH[metric]) for metric in METRICS)
        total = solved + self.suboptimal * (valid - solved)
        return RewardOutput(total, {"solved": solved, "valid": valid}, total.isnan(), reasons)
