"""The score-based protocol for MDMR-Bench: each dimension as a whole, by a rubric, as a baseline for checklists."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from bench.mdmr.cases import WEIGHTS
from gnomon.hashing import stable_hash
from gnomon.records import Verdict
from rm.judge import JudgeRequest
from rm.protocols.rubric import RubricJudge
from rm.vlm.conversation import VLM, GenerationParameters

SCALE = (1, 5)
RUBRICS = "bench.mdmr.rubrics"


class ScoreJudge:
    """Asks for a score from 1 to 5 in each of the five dimensions; the value of score s is (s - 1) / 4.

    So dimensions and overall scores are on the scale of a checklist's, 0..1, and the reply itself stays in the verdict.
    Samples are drawn as :class:`rm.protocols.rubric.RubricJudge` does.

    Args:
        vlm: whom to ask.
        samples: how many replies are drawn for each question; more than one needs a temperature.
        parameters: how they are drawn; `seed` is that of the first.
        language: of the rubrics and the instruction, "en" or "zh".
        name: for people.
        batch_size: requests whose pictures are in memory together.

    Raises:
        UserError: for another language, and for samples that could not differ.
    """

    metrics: tuple[str, ...] = tuple(WEIGHTS)

    def __init__(
        self,
        vlm: VLM,
        *,
        samples: int = 1,
        parameters: GenerationParameters | None = None,
        language: str = "en",
        name: str | None = None,
        batch_size: int = 64,
    ) -> None:
        self.judged_by = RubricJudge(
            vlm,
            metrics=self.metrics,
            scale=SCALE,
            package=RUBRICS,
            samples=samples,
            parameters=parameters,
            language=language,
            batch_size=batch_size,
        )
        self.name = name or f"scores ({vlm.name})"

    @property
    def max_concurrency(self) -> int:
        """How many questions the model can work on at once."""
        return self.judged_by.max_concurrency

    @cached_property
    def fingerprint(self) -> str:
        """Hash of model, rubrics, sampling and scale."""
        return stable_hash(["mdmr-bench scores", self.judged_by.fingerprint, SCALE])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order."""
        return [self._as_share(verdict) for verdict in self.judged_by.judge(requests)]

    def _as_share(self, verdict: Verdict) -> Verdict:
        update: dict[str, object] = {"judge": self.fingerprint}
        if verdict.value is not None:
            low, high = SCALE
            reason = f"score {verdict.value:g} of {low} to {high}"
            update["value"] = (verdict.value - low) / (high - low)
            update["rationale"] = f"{reason}: {verdict.rationale}" if verdict.rationale else reason
        elif verdict.status == "not_applicable" and verdict.metric in self.metrics:
            # The case says what applies; a judge that says so itself gave no score.
            update["status"] = "parse_error"
        return verdict.model_copy(update=update)
