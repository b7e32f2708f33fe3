"""A reference that is gone fails the axis that compares it, and no other; so does one that is broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from bench.evaluators.background import BackgroundJudge
from bench.evaluators.identity import IdentityJudge
from bench.evaluators.subject import SubjectJudge
from bench.evaluators.text_alignment import TextAlignmentJudge
from bench.evaluators.text_image import TextImageEmbedder
from tests.bench.evaluators.faces.drawn import RED, ColourDetector, ColourRecognizer, draw
from tests.bench.evaluators.scenes import request
from tests.bench.evaluators.test_background import BlackSegmenter, ColourCells
from tests.bench.evaluators.test_subject import LEFT, ColourEmbedder, TableLocalizer

REFERENCES = {"identity": "Ann", "object": "hat", "background": "the bay"}
AXIS_OF = {"identity": "id_sim", "object": "dino_sim", "background": "bg_sim"}


@pytest.fixture(scope="module")
def judges(clip: Path) -> dict[str, Any]:
    return {
        "id_sim": IdentityJudge(ColourDetector(), ColourRecognizer()),
        "dino_sim": SubjectJudge(TableLocalizer([LEFT], hat=[0.9]), ColourEmbedder()),
        "bg_sim": BackgroundJudge(BlackSegmenter(), ColourCells()),
        "clip_t": TextAlignmentJudge(TextImageEmbedder(clip)),
    }


@pytest.mark.parametrize("is_gone", [True, False])
@pytest.mark.parametrize("role", REFERENCES)
def test_a_reference_fails_its_own_axis_alone(judges: dict[str, Any], role: str, is_gone: bool, tmp_path: Path) -> None:
    pictures = {"identity": draw(RED), "object": draw(RED), "background": Image.new("RGB", (40, 40), "blue")}
    listed = [(each, name, pictures[each]) for each, name in REFERENCES.items()]
    broken = tmp_path / f"references/scene_{list(REFERENCES).index(role)}.png"
    statuses = {}
    for metric, judge in judges.items():
        asked = request(tmp_path, metric, draw(RED), listed)
        if is_gone:
            broken.unlink()
        else:
            broken.write_bytes(broken.read_bytes()[:40])
        (verdict,) = judge.judge([asked])
        statuses[metric] = verdict.status
        if verdict.status != "ok":
            assert broken.name in (verdict.rationale or "")
    assert statuses == {**dict.fromkeys(judges, "ok"), AXIS_OF[role]: "unreadable_image"}
