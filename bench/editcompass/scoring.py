"""How Edit-Compass makes an item's dimensions and its overall score of the judged metrics, and what its groups are.

Source: Bai et al. 2026 (arXiv 2605.13062), appendix D. Instruction awareness is the mean of instruction following and
world awareness, visual consistency that of unedited-region and identity consistency, each as far as they apply.
Where the worst of the dimensions is at most 1, it is the overall score; elsewhere this is the weighted geometric mean
IA^a VC^b VQ^c with exponents of the category. Style transfer changes the whole picture and has no consistency.

The released code takes the worst of all judged metrics instead of the dimensions, which is stricter: following 5 with
awareness 1 is a dimension of 3 here and a 1 there. Both are computed, under names of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from bench.benchmarks import Benchmark, Score
from bench.editcompass.cases import CATEGORIES, METRICS, NAME, category_of
from gnomon.records import Case

DIMENSIONS = {
    "instruction_awareness": ("instruction_following", "world_awareness"),
    "visual_consistency": ("unedited_region_consistency", "identity_consistency"),
    "visual_quality": ("visual_quality",),
}
"""The judged metrics that each dimension is the mean of."""

_USUAL = {"instruction_awareness": 0.4, "visual_consistency": 0.4, "visual_quality": 0.2}
EXPONENTS = dict.fromkeys(CATEGORIES, _USUAL) | {
    "world_knowledge_reasoning": {"instruction_awareness": 0.5, "visual_consistency": 0.3, "visual_quality": 0.2},
    "algorithmic_visual_reasoning": {"instruction_awareness": 0.6, "visual_consistency": 0.2, "visual_quality": 0.2},
}
STYLE_TRANSFER = "style_transfer"
STYLE_EXPONENTS = {"instruction_awareness": 0.7, "visual_quality": 0.3}

WORST = 1.0
"""An item whose worst score is no better than this is no better than its worst."""

_PERCEPTION = {
    "movement": "movement",
    "swap": "swap",
    "complex_paint_en": "complex_paint",
    "complex_paint_cn": "complex_paint",
    "multi_image_aware": "multi_image_aware",
}


def groups(case: Case) -> dict[str, str]:
    """Return a case's category and task, and which part of visual perception it tests, where it tests one."""
    found = {"category": category_of(case) or "unknown", "task": case.task}
    if case.task in _PERCEPTION:
        found["perception"] = _PERCEPTION[case.task]
    return found


def exponents_of(case: Case) -> dict[str, float] | None:
    """Return the exponent of each dimension that counts for a case; None where its category is not known."""
    return STYLE_EXPONENTS if case.task == STYLE_TRANSFER else EXPONENTS.get(category_of(case) or "")


def applies(case: Case, metric: str) -> bool:
    """Tell whether a case can have a value in a metric or a dimension; its overall scores are asked for everywhere."""
    if metric in METRICS.values():
        return metric in case.metrics or not case.metrics
    if metric not in DIMENSIONS:
        return True
    counts = metric in (exponents_of(case) or DIMENSIONS)
    return counts and any(applies(case, member) for member in DIMENSIONS[metric])


def derive(case: Case, scores: Mapping[str, Score]) -> dict[str, Score]:
    """Return an item's dimensions and its two overall scores.

    One that needs a failed metric fails with its status; one that needs a metric that is not judged yet is left out.
    A dimension without a metric that applies is not_applicable, and so is an overall score that needs it.

    Args:
        case: what the item is about; a case that lists no metric has all of them.
        scores: of the judged metrics.
    """
    exponents = exponents_of(case)
    members = {
        dimension: [metric for metric in metrics if applies(case, metric)]
        for dimension, metrics in DIMENSIONS.items()
        if dimension in (exponents or DIMENSIONS)
    }
    if not any(metric in scores for metrics in members.values() for metric in metrics):
        return {}
    known = {
        dimension: _mean([scores.get(metric) for metric in members.get(dimension, [])]) for dimension in DIMENSIONS
    }
    derived = {dimension: score for dimension, score in known.items() if dimension not in METRICS.values()}
    derived["overall"] = _overall(known, exponents, [known[dimension] for dimension in members])
    judged = [scores.get(metric) for metrics in members.values() for metric in metrics]
    derived["overall_official_summary"] = _overall(known, exponents, judged)
    return {name: score for name, score in derived.items() if score is not None}


def _mean(scores: Sequence[Score | None]) -> Score | None:
    """Return the mean, the status of the first failure, None where one is missing, or that there is none to take."""
    if not scores:
        return Score(None, "not_applicable")
    if (failure := _failure(scores)) is not None:
        return failure
    values = [score.value for score in scores if score is not None and score.value is not None]
    return Score(fmean(values)) if len(values) == len(scores) else None


def _failure(scores: Sequence[Score | None]) -> Score | None:
    return next((score for score in scores if score is not None and score.status != "ok"), None)


def _overall(
    dimensions: Mapping[str, Score | None], exponents: Mapping[str, float] | None, limiting: Sequence[Score | None]
) -> Score | None:
    """Return the worst of the `limiting` scores where it is at most 1, else the weighted geometric mean."""
    if exponents is None:
        return Score(None, "not_applicable")
    counting = [dimensions[dimension] for dimension in exponents]
    if (failure := _failure(counting)) is not None:
        return failure
    values = [score.value for score in counting if score is not None and score.value is not None]
    limits = [score.value for score in limiting if score is not None and score.value is not None]
    if len(values) < len(counting):
        return None
    if min(limits) <= WORST:
        return Score(min(limits))
    powers = zip(values, exponents.values(), strict=True)
    return Score(math.exp(math.fsum(exponent * math.log(value) for value, exponent in powers)))


EDIT_COMPASS = Benchmark(
    NAME,
    "edits of pictures in 36 tasks of six categories; scored by bench.editcompass.judge.EditCompassJudge",
    derive=derive,
    groups=groups,
    parts={"category": frozenset(CATEGORIES)},
    source="imported from the release by `gnomon data import edit-compass --from DIR --out DIR`",
    metrics={
        "instruction_following": "whether every part of the instruction was done",
        "world_awareness": "whether the outcome is the one that follows from knowledge or reasoning",
        "unedited_region_consistency": "whether nothing changed that was not asked for",
        "identity_consistency": "whether subjects stayed who and what they are",
        "visual_quality": "whether the picture alone is natural and sound",
    },
    derived={
        "instruction_awareness": "mean of the two that apply: instruction_following, world_awareness",
        "visual_consistency": "mean of the two that apply: unedited_region_consistency, identity_consistency",
        "overall": "the paper's weighted geometric mean, or the least of three dimensions where that is at most 1",
        "overall_official_summary": "the same with the least of all scores, as the released code does",
    },
    applies=applies,
)
