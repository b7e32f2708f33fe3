"""Requests about cases of every variant, and a scripted model that remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from bench.editcompass.cases import CELLS, METRICS, read_case
from bench.editcompass.questions import Variant
from gnomon.images import save_png
from gnomon.records import Candidate
from rm.judge import JudgeRequest
from rm.vlm.conversation import Conversation, GenerationParameters, Reply
from rm.vlm.scripted import ScriptedVLM
from tests.bench.editcompass.release import pictures_of, row, write_picture

CELL_OF: dict[Variant, tuple[str, str]] = {
    "single": ("Part1", "ADD"),
    "multi_image": ("Part5", "Virtual_Try_On"),
    "complex_instruction": ("Part6", "Complex_Instruction"),
    "complex_paint": ("Part6", "Complex_Paint_en"),
}
"""A cell of each variant."""

Ask = Callable[..., JudgeRequest]


class Remembering(ScriptedVLM):
    """A scripted model that keeps every question and how it was sampled."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.asked: list[Conversation] = []
        self.parameters: list[GenerationParameters] = []

    def generate(self, conversations: Sequence[Conversation], parameters: GenerationParameters) -> list[Reply]:
        self.asked += conversations
        self.parameters += [parameters] * len(conversations)
        return super().generate(conversations, parameters)


@pytest.fixture
def request_about(tmp_path: Path) -> Ask:
    """A function that makes a request about a candidate of a case of some cell."""

    def make(
        metric: str = "IF", part: str = "Part1", cell: str = "ADD", *, image: int | None = 0, **changes: Any
    ) -> JudgeRequest:
        made = row(part, cell, 1, **{"WA": True, "URC": True, "IC": True, **changes})
        for seed, needed in enumerate(pictures_of(made)):
            write_picture(tmp_path / needed, seed)
        case = read_case(CELLS[cell], made)
        path = None if image is None else f"{image}.png"
        if path is not None:
            save_png(Image.new("RGB", (8, 8), (200, image or 0, 9)), tmp_path / path)
        candidate = Candidate(case_id=case.id, generator="g", seed=0, path=path)
        name = METRICS.get(metric, metric)
        return JudgeRequest(case, tmp_path, candidate, None if path is None else tmp_path / path, name)

    return make
