"""Requests about small CogCanvas cases, made of pictures in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from bench.cogcanvas.cases import REFERENCE_GENERATION
from gnomon.images import save_png
from gnomon.records import Candidate, Case, Reference, Text
from rm.judge import JudgeRequest


def request(
    root: Path,
    metric: str,
    image: Image.Image | None,
    references: Sequence[tuple[str, str | None, Image.Image]],
    *,
    case_id: str = "scene",
    task: str = REFERENCE_GENERATION,
    sampling: dict[str, Any] | None = None,
) -> JudgeRequest:
    """Write the pictures of a case below `root`, and return the request to judge one.

    Args:
        root: a folder.
        metric: what is asked.
        image: the candidate; None where there is none.
        references: role, name and picture of each.
        case_id: of the case.
        task: of the case.
        sampling: what the candidate's record says.
    """
    listed = []
    for place, (role, name, picture) in enumerate(references):
        path = f"references/{case_id}_{place}.png"
        save_png(picture, root / path)
        listed.append(Reference(path=path, role=role, name=name))
    candidate_path = root / f"{case_id}.png"
    if image is not None:
        save_png(image, candidate_path)
    return JudgeRequest(
        case=Case(id=case_id, benchmark="cogcanvas", task=task, instruction=Text(en="a scene"), references=listed),
        root=root,
        candidate=Candidate(case_id=case_id, generator="g", seed=0, path=candidate_path.name, sampling=sampling or {}),
        image=None if image is None else candidate_path,
        metric=metric,
    )
