"""A judge of the dimensions that pairs are labelled in, asked by Edit-Compass' own questions about its five metrics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from statistics import fmean

from bench.editcompass.cases import category_of
from bench.editcompass.judge import EditCompassJudge
from bench.editcompass.questions import REASONING
from bench.editcompass.scoring import DIMENSIONS, STYLE_TRANSFER
from gnomon.hashing import stable_hash
from gnomon.records import Case, Verdict
from rm.judge import JudgeRequest, all_served
from rm.protocols.rubric import unknown_metric


class EditCompassDimensionJudge:
    """Scores instruction awareness, visual consistency and visual quality, as EditReward-Compass labels its pairs.

    Each is the mean of the metrics that apply, as in the benchmark's own scores. A pair does not say which apply, so
    its task does: world awareness counts in tasks of reasoning, a puzzle has no identity to keep, and a change of style
    no region that it leaves alone. A pair without a known task has instruction following alone, and both
    consistencies. A metric that failed fails its dimension.

    Args:
        judge: asks about the metrics.
        name: for people.
    """

    metrics: tuple[str, ...] = tuple(DIMENSIONS)

    def __init__(self, judge: EditCompassJudge, *, name: str | None = None) -> None:
        self.judged_by = judge
        self.name = name or f"{judge.name}, by dimension"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the judge and of what each dimension is made of."""
        return stable_hash(["edit-compass dimensions 1", self.judged_by.fingerprint, DIMENSIONS, REASONING])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order."""
        members = [members_of(request.case, request.metric) for request in requests]
        asked = [
            _about(request, metric, names) for request, names in zip(requests, members, strict=True) for metric in names
        ]
        answers = iter(self.judged_by.judge(asked))
        return [
            self._combined(request, [next(answers) for _ in names])
            for request, names in zip(requests, members, strict=True)
        ]

    def _combined(self, request: JudgeRequest, verdicts: Sequence[Verdict]) -> Verdict:
        candidate = request.candidate
        answered = Verdict(
            case_id=request.case.id,
            generator=candidate.generator,
            seed=candidate.seed,
            metric=request.metric,
            value=None,
            status="not_applicable",
            rationale=unknown_metric(request, self.metrics),
            judge=self.fingerprint,
        )
        if not verdicts:
            return answered
        values = [verdict.value for verdict in verdicts if verdict.value is not None]
        failed = next((verdict for verdict in verdicts if verdict.status != "ok"), None)
        times = [verdict.seconds for verdict in verdicts if verdict.seconds is not None]
        raw = {verdict.metric: verdict.raw for verdict in verdicts}
        return Verdict(
            **answered.model_dump(include={"case_id", "generator", "seed", "metric", "judge"}),
            value=fmean(values) if failed is None else None,
            status="ok" if failed is None else failed.status,
            rationale="\n".join(_reason(verdict) for verdict in verdicts),
            raw=json.dumps(raw, ensure_ascii=False) if any(raw.values()) else None,
            prompt_hash=stable_hash([verdict.prompt_hash for verdict in verdicts]),
            image_hashes=max((verdict.image_hashes for verdict in verdicts), key=len),
            seconds=sum(times) if times else None,
            served_by=all_served([verdict.served_by for verdict in verdicts]),
        )


def members_of(case: Case, dimension: str) -> tuple[str, ...]:
    """Return the metrics whose mean a dimension of a case is; none for another name."""
    category = category_of(case)
    left_out = {
        "world_awareness": category not in REASONING,
        "unedited_region_consistency": case.task == STYLE_TRANSFER,
        "identity_consistency": category == "algorithmic_visual_reasoning",
    }
    return tuple(metric for metric in DIMENSIONS.get(dimension, ()) if not left_out.get(metric, False))


def _about(request: JudgeRequest, metric: str, members: Sequence[str]) -> JudgeRequest:
    """Return the question about one metric, which the case is said to have."""
    case = request.case.model_copy(update={"metrics": list(members)})
    return JudgeRequest(case, request.root, request.candidate, request.image, metric)


def _reason(verdict: Verdict) -> str:
    shown = verdict.status if verdict.value is None else f"{verdict.value:g}"
    return f"{verdict.metric} {shown}" + (f": {verdict.rationale}" if verdict.rationale else "")
