"""DINO-Sim: known answers with colours as embeddings, the real classes, failures as statuses, references once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.cogcanvas.cases import FAILED_REFERENCES, TEXT_TO_IMAGE
from bench.evaluators.cosine import cosines
from bench.evaluators.slots import Regions
from bench.evaluators.subject import METRIC, DetectorLocalizer, SubjectJudge
from bench.evaluators.vision.detection import OpenVocabularyDetector
from bench.evaluators.vision.embedding import DinoEmbedder, Vectors
from rm.judge import JudgeRequest
from tests.bench.evaluators.scenes import request

RED, BLUE, GREEN = (Image.new("RGB", (20, 20), colour) for colour in ("red", "blue", "lime"))


class ColourEmbedder:
    """Embeds a picture as its mean colour."""

    name = "colour"
    fingerprint = "colour"

    def __init__(self) -> None:
        self.num_pictures = 0

    def embed(self, images: Sequence[Image.Image]) -> Vectors:
        """Return the mean colours."""
        self.num_pictures += len(images)
        return np.stack([np.asarray(image, np.float32).mean((0, 1)) for image in images])


class TableLocalizer:
    """Finds what it is told: boxes, and a score in each for each name."""

    name = "table"
    fingerprint = "table"

    def __init__(self, boxes: list[list[float]], **scores: list[float]) -> None:
        self.boxes, self.scores = np.array(boxes, np.float64).reshape(-1, 4), scores

    def locate(self, image: Image.Image, names: Sequence[str], references: Vectors) -> Regions:
        """Return the table's rows."""
        return Regions(self.boxes, np.array([self.scores[name] for name in names]).reshape(len(names), -1))


LEFT, RIGHT = [0.0, 0.0, 20.0, 20.0], [40.0, 0.0, 60.0, 20.0]


def scene(left: Image.Image, right: Image.Image) -> Image.Image:
    """Return a white picture with two squares."""
    picture = Image.new("RGB", (60, 40), "white")
    picture.paste(left, (0, 0))
    picture.paste(right, (40, 0))
    return picture


def judge(localizer: TableLocalizer, **settings: object) -> SubjectJudge:
    return SubjectJudge(localizer, ColourEmbedder(), **{"margin": 0.0, **settings})  # type: ignore[arg-type]


def test_the_value_is_the_mean_cosine_over_slots_and_what_is_missing_counts_0(tmp_path: Path) -> None:
    grey = Image.new("RGB", (20, 20), (128, 128, 128))
    references = [("object", "kettle", RED), ("fashion", "hat", grey), ("object", "drum", GREEN)]
    asked = request(tmp_path, METRIC, scene(RED, RED), [("identity", "Ada", BLUE), *references])
    localizer = TableLocalizer([LEFT, RIGHT], kettle=[0.9, 0], hat=[0, 0.5], drum=[0, 0])
    verdict = judge(localizer).judge([asked])[0]
    assert verdict.value == pytest.approx((1 + 1 / np.sqrt(3) + 0) / 3, abs=1e-6)
    assert (verdict.status, verdict.rationale) == ("ok", "2 of 3 found; missing: drum")
    raw = json.loads(verdict.raw or "")
    assert raw["size"] == [60, 40]
    assert raw["slots"][0] == {"name": "kettle", "role": "object", "box": LEFT, "score": 0.9, "similarity": 1.0}
    assert raw["slots"][2] == {"name": "drum", "role": "object", "box": None, "score": None, "similarity": 0.0}


def test_all_missing_is_0_and_no_failure(tmp_path: Path) -> None:
    asked = request(tmp_path, METRIC, scene(RED, RED), [("object", "drum", GREEN)])
    verdict = judge(TableLocalizer([], drum=[])).judge([asked])[0]
    assert (verdict.value, verdict.status) == (0.0, "ok")


def test_two_slots_of_one_name_take_two_boxes_each_its_own(tmp_path: Path) -> None:
    references = [("object", "bag", BLUE), ("object", "bag", RED)]
    localizer = TableLocalizer([LEFT, RIGHT], bag=[0.9, 0.3])
    both = request(tmp_path, METRIC, scene(RED, BLUE), references)
    assert judge(localizer).judge([both])[0].value == pytest.approx(1.0)
    # One blue bag: it is the blue one's, and the red one is missing.
    one = request(tmp_path, METRIC, scene(BLUE, GREEN), references, case_id="one")
    verdict = judge(TableLocalizer([LEFT], bag=[0.9])).judge([one])[0]
    assert verdict.value == pytest.approx(0.5)
    assert [slot["box"] for slot in json.loads(verdict.raw or "")["slots"]] == [LEFT, None]


def test_references_are_embedded_once_and_shared_through_a_folder(tmp_path: Path) -> None:
    localizer = TableLocalizer([LEFT], hat=[0.9], drum=[0.0])
    references = [("object", "hat", RED), ("object", "drum", GREEN)]
    requests = [request(tmp_path, METRIC, scene(RED, BLUE), references, case_id=f"case-{place}") for place in range(3)]
    first = judge(localizer, cache=tmp_path / "cache")
    values = [verdict.value for verdict in first.judge(requests)]
    assert isinstance(first.embedder, ColourEmbedder)
    assert first.embedder.num_pictures == 2 + 3
    second = judge(localizer, cache=tmp_path / "cache")
    assert [verdict.value for verdict in second.judge(requests)] == values
    assert isinstance(second.embedder, ColourEmbedder)
    assert second.embedder.num_pictures == 3


def test_what_does_not_apply_is_blank_and_what_fails_is_a_status(tmp_path: Path) -> None:
    localizer = TableLocalizer([LEFT], hat=[0.9])
    hat = [("object", "hat", RED)]
    picture = scene(RED, BLUE)
    gone = request(tmp_path, METRIC, picture, hat, case_id="gone")
    (tmp_path / "references/gone_0.png").unlink()
    broken = request(tmp_path, METRIC, picture, hat, case_id="broken")
    (tmp_path / "broken.png").write_bytes(b"no picture")
    requests = [
        request(tmp_path, METRIC, picture, [("identity", "Ada", RED)], case_id="no-items"),
        request(tmp_path, METRIC, picture, hat, case_id="text", task=TEXT_TO_IMAGE),
        request(tmp_path, METRIC, picture, [("object", None, RED)], case_id="unnamed"),
        request(tmp_path, "beauty", picture, hat, case_id="metric"),
        gone,
        broken,
        request(tmp_path, METRIC, None, hat, case_id="none"),
        request(tmp_path, METRIC, picture, hat, case_id="good"),
    ]
    verdicts = judge(localizer).judge(requests)
    assert [verdict.status for verdict in verdicts] == ["not_applicable"] * 4 + [
        "unreadable_image",
        "unreadable_image",
        "missing_output",
        "ok",
    ]
    assert [verdict.case_id for verdict in verdicts] == [asked.case.id for asked in requests]
    assert "gone_0.png" in (verdicts[4].rationale or "")
    assert "no object and no fashion item" in (verdicts[0].rationale or "")
    assert "no name to look for" in (verdicts[2].rationale or "")


def test_it_sees_through_a_real_detector_and_dinov2(
    owlv2: Path, dinov2: Path, noise: Image.Image, tmp_path: Path
) -> None:
    detector = OpenVocabularyDetector(owlv2, threshold=0.05)
    embedder = DinoEmbedder(dinov2)
    asked = request(tmp_path, METRIC, noise, [("object", "red hat", RED), ("fashion", "bag", BLUE)])
    verdict = SubjectJudge(DetectorLocalizer(detector), embedder, margin=0.0).judge([asked])[0]
    slots = json.loads(verdict.raw or "")["slots"]
    assert verdict.status == "ok"
    assert len({tuple(slot["box"]) for slot in slots}) == 2
    expected = []
    for slot, reference in zip(slots, (RED, BLUE), strict=True):
        left, top, right, bottom = slot["box"]
        cut = noise.crop(
            (max(int(left), 0), max(int(top), 0), min(int(np.ceil(right)), 90), min(int(np.ceil(bottom)), 60))
        )
        vectors = embedder.embed([cut, reference])
        expected.append(float(cosines(vectors[:1], vectors[1:])[0, 0]))
    assert verdict.value == pytest.approx(np.mean(expected), abs=0.02)  # boxes are written with one decimal


def test_the_name_and_the_fingerprint_say_what_judges(owlv2: Path, dinov2: Path) -> None:
    localizer, embedder = DetectorLocalizer(OpenVocabularyDetector(owlv2)), DinoEmbedder(dinov2)
    assert SubjectJudge(localizer, embedder).name == f"dino-sim ({embedder.name}, {localizer.name})"
    wider = SubjectJudge(localizer, embedder, margin=0.2)
    other = SubjectJudge(DetectorLocalizer(OpenVocabularyDetector(owlv2, threshold=0.3)), embedder)
    assert len({SubjectJudge(localizer, embedder).fingerprint, wider.fingerprint, other.fingerprint}) == 3
    with pytest.raises(ValueError, match="margin"):
        SubjectJudge(localizer, embedder, margin=-0.1)


def test_requests_of_one_judge_are_judged_alike_in_any_company(tmp_path: Path) -> None:
    localizer = TableLocalizer([LEFT, RIGHT], hat=[0.9, 0.2], drum=[0.1, 0.8])
    references = [("object", "hat", RED), ("object", "drum", GREEN)]
    pictures = [scene(RED, GREEN), scene(GREEN, RED), scene(BLUE, GREEN)]
    requests: list[JudgeRequest] = [
        request(tmp_path, METRIC, picture, references, case_id=f"c{place}") for place, picture in enumerate(pictures)
    ]
    together = [verdict.value for verdict in judge(localizer, batch_size=2).judge(requests)]
    alone = [judge(localizer).judge([asked])[0].value for asked in requests]
    assert together == alone == pytest.approx([1.0, 0.0, 0.5])


def test_what_was_given_up_is_0_and_takes_no_box(tmp_path: Path) -> None:
    references = [("object", "cup", RED), ("object", "cup", RED)]
    localizer = TableLocalizer([LEFT], cup=[0.9])
    for lost, value, boxes in ([], 0.5, [LEFT, None]), ([0], 0.5, [None, LEFT]), ([0, 1], 0.0, [None, None]):
        sampling = {FAILED_REFERENCES: [f"references/scene_{place}.png" for place in lost]}
        asked = request(tmp_path, METRIC, scene(RED, BLUE), references, sampling=sampling)
        verdict = judge(localizer).judge([asked])[0]
        assert verdict.value == pytest.approx(value)
        assert [slot["box"] for slot in json.loads(verdict.raw or "")["slots"]] == boxes


def test_what_is_cut_out_may_have_an_embedder_of_its_own(tmp_path: Path) -> None:
    references, crops = ColourEmbedder(), ColourEmbedder()
    one = SubjectJudge(TableLocalizer([LEFT], cup=[0.9]), references, crop_embedder=crops)
    one.judge([request(tmp_path, METRIC, scene(RED, BLUE), [("object", "cup", RED)])])
    assert (references.num_pictures, crops.num_pictures) == (1, 1)
