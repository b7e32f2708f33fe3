"""Does a judge look? Pictures and instructions that must be worse, made from any comparisons, and how scores react.

Of each comparison the better candidate (of its first decided judgement) is taken, and one thing at a time is spoilt:

- source: the unedited source instead of the edit, which cannot have followed the instruction;
- black: a black picture;
- foreign_edit: the edit of another instruction and source;
- foreign_instruction: the same pictures under the instruction of another comparison;
- blur: the edit blurred, with a radius of a fortieth of its shorter side;
- jpeg: the edit at JPEG quality 5.

A judge whose score never moves under one of them does not see what it says it judges: an adapter that was lost,
pictures that do not arrive, a prompt without its instruction.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageFilter

from gnomon.datasets import resolve
from gnomon.errors import UserError
from gnomon.images import load_image, save_png
from gnomon.records import Candidate, Case, Comparison, Text
from gnomon.statistics import cluster_bootstrap
from rm.judge import Judge, JudgeRequest
from rm.metrics import TIE_THRESHOLD
from rm.scorers import JudgedComparison


@dataclass(frozen=True)
class Spoilt:
    """One spoilt edit.

    Attributes:
        kind: what was done, see the module.
        comparison: of which one.
        original: file of the edit as it was.
        spoilt: file of what is shown instead.
        instruction: that it is shown with.
    """

    kind: str
    comparison: Comparison
    original: Path
    spoilt: Path
    instruction: Text


def _blur(picture: Image.Image) -> Image.Image:
    return picture.filter(ImageFilter.GaussianBlur(max(1.0, min(picture.size) / 40)))


def _jpeg(picture: Image.Image) -> Image.Image:
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=5)
    return Image.open(buffer).convert("RGB")


_FILTERS: dict[str, Callable[[Image.Image], Image.Image]] = {
    "black": lambda picture: Image.new("RGB", picture.size),
    "blur": _blur,
    "jpeg": _jpeg,
}
KINDS = ("source", "black", "foreign_edit", "foreign_instruction", "blur", "jpeg")


def spoil(items: Sequence[JudgedComparison], root: Path, folder: Path, *, limit: int) -> list[Spoilt]:
    """Make the sanity set of the first `limit` comparisons that have a better candidate.

    Args:
        items: the comparisons.
        root: their folder.
        folder: where spoilt pictures are written.
        limit: comparisons to take.

    Raises:
        UserError: when no comparison is decided, or a picture cannot be read.
    """
    decided = [(item.comparison, best) for item in items if (best := _better(item)) is not None][:limit]
    if not decided:
        raise UserError("expected comparisons with a better candidate for a sanity set, all of them are ties")
    spoilt: list[Spoilt] = []
    for number, (comparison, best) in enumerate(decided):
        spoilt += _spoil_one(comparison, best, _foreign(decided, number), root, folder / str(number))
    return spoilt


def _better(item: JudgedComparison) -> int | None:
    """Return the position of the candidate that the first decided judgement prefers."""
    for pair in item.pairs:
        for label in pair.labels.values():
            if label:
                return pair.first if label > 0 else pair.second
    return None


def _foreign(decided: Sequence[tuple[Comparison, int]], number: int) -> tuple[Comparison, int] | None:
    """Return the next comparison with another instruction."""
    others = [*decided[number + 1 :], *decided[:number]]
    return next((other for other in others if other[0].instruction != decided[number][0].instruction), None)


def _spoil_one(
    comparison: Comparison, best: int, foreign: tuple[Comparison, int] | None, root: Path, folder: Path
) -> Iterator[Spoilt]:
    original = resolve(root, comparison.candidates[best].path)
    if comparison.references:
        source = resolve(root, comparison.references[0].path)
        yield Spoilt("source", comparison, original, source, comparison.instruction)
    if foreign is not None:
        other = resolve(root, foreign[0].candidates[foreign[1]].path)
        yield Spoilt("foreign_edit", comparison, original, other, comparison.instruction)
        yield Spoilt("foreign_instruction", comparison, original, original, foreign[0].instruction)
    picture = load_image(original)
    folder.mkdir(parents=True, exist_ok=True)
    for kind, apply in _FILTERS.items():
        save_png(apply(picture), folder / f"{kind}.png")
        yield Spoilt(kind, comparison, original, folder / f"{kind}.png", comparison.instruction)


def react(
    judge: Judge, spoilt: Sequence[Spoilt], root: Path, *, metrics: Sequence[str], seed: int = 0
) -> dict[str, dict[str, Any]]:
    """Return, per metric and kind, how the judge's score reacts.

    Args:
        judge: scores single candidates.
        spoilt: the sanity set.
        root: the comparisons' folder.
        metrics: those of the judge's that are asked about.
        seed: of the bootstrap.

    Returns:
        `{metric: {kind: {n, failures, reacts, lower, lower_ci_low, lower_ci_high, change}}}`: `reacts` is the share
        whose score moves at all, `lower` the share whose score falls, `change` the mean of spoilt minus original; None
        without a scored one.
    """
    requests = [
        _request(entry, root, entry.original, entry.comparison.instruction, metric)
        for metric in metrics
        for entry in spoilt
    ]
    altered = [_request(entry, root, entry.spoilt, entry.instruction, metric) for metric in metrics for entry in spoilt]
    verdicts = judge.judge([*requests, *altered])
    values = np.array([np.nan if v.value is None else v.value for v in verdicts], dtype=np.float64)
    changes = (values[len(requests) :] - values[: len(requests)]).reshape(len(metrics), len(spoilt))
    kinds, groups = np.array([e.kind for e in spoilt]), np.array([e.comparison.group_id for e in spoilt])
    return {
        metric: {
            kind: _figures(row[kinds == kind], groups[kinds == kind], seed) for kind in dict.fromkeys(kinds.tolist())
        }
        for metric, row in zip(metrics, changes, strict=True)
    }


def _request(entry: Spoilt, root: Path, image: Path, instruction: Text, metric: str) -> JudgeRequest:
    comparison = entry.comparison
    case = Case(
        id=f"{comparison.id}:{entry.kind}",
        benchmark="sanity",
        task=comparison.task or "edit",
        instruction=instruction,
        references=comparison.references,
    )
    # The judge tells requests apart by case and picture, so one case per instruction.
    if instruction != comparison.instruction:
        case = case.model_copy(update={"id": f"{case.id}:foreign"})
    candidate = Candidate(case_id=case.id, generator=image.stem, seed=0, path=image.name)
    return JudgeRequest(case, root, candidate, image, metric)


def _figures(changes: np.ndarray[Any, np.dtype[np.float64]], groups: np.ndarray[Any, Any], seed: int) -> dict[str, Any]:
    scored = np.isfinite(changes)
    figures: dict[str, Any] = {"n": int(scored.sum()), "failures": int((~scored).sum())}
    if not scored.any():
        return {**figures, **dict.fromkeys(("reacts", "lower", "lower_ci_low", "lower_ci_high", "change"))}
    moved = np.abs(changes[scored]) > TIE_THRESHOLD
    lower = cluster_bootstrap((moved & (changes[scored] < 0)).astype(np.float64), groups[scored], seed=seed)
    return {
        **figures,
        "reacts": float(moved.mean()),
        "lower": lower.value,
        "lower_ci_low": lower.ci_low,
        "lower_ci_high": lower.ci_high,
        "change": float(changes[scored].mean()),
    }


def blind_spots(figures: dict[str, dict[str, Any]]) -> list[str]:
    """Return the kinds under which no metric ever moved, although some pictures were scored."""
    kinds = dict.fromkeys(kind for by_kind in figures.values() for kind in by_kind)
    return [
        kind
        for kind in kinds
        if any(by_kind[kind]["n"] for by_kind in figures.values())
        and not any(by_kind[kind]["reacts"] for by_kind in figures.values())
    ]
