"""Person count: as many as the case has identities, or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from bench.cogcanvas.cases import REFERENCE_GENERATION, TEXT_TO_IMAGE
from bench.evaluators.person_count import METRIC, PersonCountJudge
from bench.evaluators.vision.detection import ObjectDetector
from gnomon.errors import UserError
from tests.bench.evaluators.scenes import request


def group(size: int, picture: Image.Image) -> list[tuple[str, str | None, Image.Image]]:
    return [*(("identity", f"person {place}", picture) for place in range(size)), ("object", "hat", picture)]


def test_a_picture_with_as_many_people_as_identities_counts(yolos: Path, noise: Image.Image, tmp_path: Path) -> None:
    detector = ObjectDetector(yolos, threshold=0.0)
    label = "dog"  # of which it finds more
    num_people = len(detector.detect(noise, label))
    assert num_people > 2
    sizes = [num_people, num_people + 1, num_people - 1]
    asked = [
        request(tmp_path, METRIC, noise, group(size, noise), case_id=f"n{size}", task=TEXT_TO_IMAGE) for size in sizes
    ]
    verdicts = PersonCountJudge(detector, label=label).judge(asked)
    assert [verdict.value for verdict in verdicts] == [1.0, 0.0, 0.0]
    raw = json.loads(verdicts[0].raw or "")
    assert (raw["expected"], len(raw["people"]), raw["size"]) == (num_people, num_people, [90, 60])
    assert verdicts[1].rationale == f"{num_people} people, expected {num_people + 1}"


def test_nobody_found_is_a_wrong_count_and_no_failure(yolos: Path, noise: Image.Image, tmp_path: Path) -> None:
    asked = request(tmp_path, METRIC, noise, group(2, noise), task=TEXT_TO_IMAGE)
    verdict = PersonCountJudge(ObjectDetector(yolos, threshold=1.0)).judge([asked])[0]
    assert (verdict.value, verdict.status) == (0.0, "ok")


def test_it_applies_to_the_tasks_that_it_is_told(yolos: Path, noise: Image.Image, tmp_path: Path) -> None:
    detector = ObjectDetector(yolos)
    asked = request(tmp_path, METRIC, noise, group(2, noise), task=REFERENCE_GENERATION)
    assert PersonCountJudge(detector).judge([asked])[0].status == "not_applicable"
    assert PersonCountJudge(detector, tasks=[REFERENCE_GENERATION]).judge([asked])[0].status == "ok"
    nobody = request(tmp_path, METRIC, noise, [], task=TEXT_TO_IMAGE, case_id="nobody")
    assert PersonCountJudge(detector).judge([nobody])[0].status == "not_applicable"


def test_references_need_not_be_there(yolos: Path, noise: Image.Image, tmp_path: Path) -> None:
    asked = request(tmp_path, METRIC, noise, group(2, noise), task=TEXT_TO_IMAGE)
    (tmp_path / "references/scene_0.png").unlink()
    assert PersonCountJudge(ObjectDetector(yolos)).judge([asked])[0].status == "ok"


def test_a_detector_that_knows_no_people_is_refused(yolos: Path) -> None:
    detector = ObjectDetector(yolos)
    with pytest.raises(UserError, match=r"got 'people'; it has dog, person"):
        PersonCountJudge(detector, label="people")
    assert PersonCountJudge(detector).name == f"person count ({detector.name})"
    assert PersonCountJudge(detector).fingerprint != PersonCountJudge(detector, label="dog").fingerprint
