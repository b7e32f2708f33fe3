"""Technical quality: sharp, clean and colourful or not, where no aesthetic predictor can be had.

It says nothing of taste. Two metrics that are not mixed: `technical_quality` by BRISQUE, and `colourfulness` (Hasler
and Suesstrunk 2003, Measuring Colourfulness in Natural Images, Proc. SPIE 5007).
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.evaluators.brisque import features, load_regression
from bench.evaluators.offline import BRISQUE_RANGES, BRISQUE_SVM
from gnomon.hashing import stable_hash
from gnomon.records import Verdict
from rm.judge import JudgeRequest
from rm.protocols.asking import Asked, Outcome, Shell

if TYPE_CHECKING:
    from PIL import Image

TECHNICAL_QUALITY, COLOURFULNESS = "technical_quality", "colourfulness"


class TechnicalQualityJudge:
    """BRISQUE turned round, and colourfulness.

    `technical_quality` is 1 less BRISQUE's hundredth, cut to 0..1, so that higher is better; `raw` has BRISQUE's own
    number. `colourfulness` is 0 for grey and about 80 to 110 for what people call very colourful.

    Args:
        svm: path of BRISQUE's regression; it is looked for where packages are by default.
        ranges: path of its features' ranges, likewise.
        batch_size: candidates whose pictures are in memory together.
        name: for people.

    Raises:
        UserError: when the files are not there.
    """

    metrics: tuple[str, ...] = (TECHNICAL_QUALITY, COLOURFULNESS)

    def __init__(
        self,
        svm: str | Path | None = None,
        ranges: str | Path | None = None,
        *,
        batch_size: int = 8,
        name: str = "technical quality (BRISQUE)",
    ) -> None:
        self._regression, self.batch_size, self.name = load_regression(svm, ranges), batch_size, name

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the files."""
        return stable_hash(["technical quality", 1, BRISQUE_SVM.sha256, BRISQUE_RANGES.sha256])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order.

        `out_of_range` where BRISQUE has nothing to go by: a picture below 16 pixels or of one colour.
        """
        return Shell(
            self.fingerprint,
            problem=lambda request: (
                None if request.metric in self.metrics else f"the judge's metrics are {', '.join(self.metrics)}"
            ),
            prompt_hash=lambda request: None,
            answer=lambda asked: [self._answer(one) for one in asked],
            batch_size=self.batch_size * len(self.metrics),
            shown=lambda request: [],
        ).judge(requests)

    def _answer(self, asked: Asked) -> Outcome:
        start = time.perf_counter()
        image = asked.pictures.candidates[0]
        if asked.request.metric == COLOURFULNESS:
            return Outcome(colourfulness(image), "ok", seconds=time.perf_counter() - start)
        try:
            score = self._regression(features(image))
        except ValueError as error:
            return Outcome(None, "out_of_range", str(error))
        raw = json.dumps({"brisque": score})
        value = float(np.clip(1 - score / 100, 0, 1))
        return Outcome(value, "ok", f"BRISQUE {score:.1f}", raw, time.perf_counter() - start)


def colourfulness(image: Image.Image) -> float:
    """Return how colourful a picture is: deviation and mean of its opponent colours; 0 for grey."""
    red, green, blue = np.moveaxis(np.asarray(image.convert("RGB"), dtype=np.float64), -1, 0)
    opponents = red - green, (red + green) / 2 - blue
    deviation = np.hypot(*(each.std() for each in opponents))
    mean = np.hypot(*(each.mean() for each in opponents))
    return float(deviation + 0.3 * mean)
