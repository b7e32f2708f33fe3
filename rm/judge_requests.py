"""Questions to a judge about pictures that are in memory: a judge reads files, so they are written first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PIL.Image import Image

from gnomon.images import save_png
from gnomon.records import Candidate, Case, Reference
from rm.judge import JudgeRequest

GENERATOR = "in-memory"


def write_requests(
    folder: Path,
    asked: Callable[[Case], Sequence[str]],
    cases: Sequence[Case],
    references: Sequence[list[Image]],
    images: Sequence[Image],
) -> list[JudgeRequest]:
    """Write pictures and return the requests about each, in order of rows.

    Args:
        folder: where the pictures are written.
        asked: what is asked about a picture of a case: metrics, or ids of the case's questions.
        cases: the case of each picture.
        references: the pictures that each case refers to; those that are one object are written once.
        images: the pictures to judge.
    """
    written: dict[int, str] = {}  # members of a group share their references; each is written once

    def write(picture: Image) -> str:
        if id(picture) not in written:
            written[id(picture)] = f"{len(written)}.png"
            save_png(picture, folder / written[id(picture)])
        return written[id(picture)]

    requests = []
    for row, (case, pictures, image) in enumerate(zip(cases, references, images, strict=True)):
        named = zip(pictures, case.references or [Reference(path="-")] * len(pictures), strict=True)
        moved = [reference.model_copy(update={"path": write(picture)}) for picture, reference in named]
        path = write(image)
        candidate = Candidate(case_id=case.id, generator=GENERATOR, seed=row, path=path)
        shown = case.model_copy(update={"references": moved})
        requests += [JudgeRequest(shown, folder, candidate, folder / path, metric) for metric in asked(case)]
    return requests
