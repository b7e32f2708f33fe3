"""The offline backends on real photographs: same above other subject, dimmed above foreign place, one window a slot."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from bench.evaluators.background import METRIC as BG_SIM
from bench.evaluators.background import BackgroundJudge
from bench.evaluators.subject import METRIC as DINO_SIM
from bench.evaluators.subject import SubjectJudge
from gnomon.errors import UserError
from tests.bench.evaluators.photographs import cutout, need_both, pasted, photograph
from tests.bench.evaluators.scenes import request


@pytest.fixture(scope="module")
def subject_judge() -> SubjectJudge:
    need_both()
    from bench.evaluators.vision.lite0_features import Lite0Embedder
    from bench.evaluators.vision.salience import SalienceSegmenter
    from bench.evaluators.vision.windows import WindowLocalizer

    return SubjectJudge(
        WindowLocalizer(),
        Lite0Embedder(SalienceSegmenter()),
        crop_embedder=Lite0Embedder(),
        name="subject similarity (lite0)",
    )


@pytest.fixture(scope="module")
def background_judge() -> BackgroundJudge:
    need_both()
    from bench.evaluators.vision.lite0_features import Lite0Cells
    from bench.evaluators.vision.salience import SalienceSegmenter

    return BackgroundJudge(SalienceSegmenter(), Lite0Cells(), aggregate="cells")


def test_a_subject_on_another_place_is_above_another_subject(subject_judge: SubjectJudge, tmp_path: Path) -> None:
    place = photograph("china")
    values = {}
    for shown in ("cat", "coffee"):
        picture = pasted(cutout(shown), place, 0.6, 0.1, 0.35)
        for asked in ("cat", "coffee"):
            reference = [("object", asked, photograph(asked))]
            wanted = request(tmp_path, DINO_SIM, picture, reference, case_id=f"{shown}-{asked}")
            values[shown, asked] = subject_judge.judge([wanted])[0].value or 0.0
    assert min(values["cat", "cat"], values["coffee", "coffee"]) > 0.4
    assert max(values["cat", "coffee"], values["coffee", "cat"]) < 0.25


def test_two_subjects_are_found_where_they_are(subject_judge: SubjectJudge, tmp_path: Path) -> None:
    picture = pasted(cutout("cat"), photograph("china"), 0.6, 0.02, 0.35)
    picture = pasted(cutout("coffee"), picture, 0.4, 0.65, 0.55)
    references = [("object", "cup", photograph("coffee")), ("object", "cat", photograph("cat"))]
    verdict = subject_judge.judge([request(tmp_path, DINO_SIM, picture, references)])[0]
    cup, cat = json.loads(verdict.raw or "")["slots"]
    assert cat["box"][0] < 320 < cup["box"][2]
    assert (cat["box"][0] + cat["box"][2]) / 2 < 320 < (cup["box"][0] + cup["box"][2]) / 2


def test_what_is_not_there_is_missing(subject_judge: SubjectJudge, tmp_path: Path) -> None:
    grey = Image.new("RGB", (640, 427), (128, 128, 128))
    verdict = subject_judge.judge([request(tmp_path, DINO_SIM, grey, [("object", "cat", photograph("cat"))])])[0]
    assert (verdict.value, verdict.rationale) == (0.0, "0 of 1 found; missing: cat")


def test_the_windows_belong_to_their_embedder(subject_judge: SubjectJudge) -> None:
    with pytest.raises(UserError, match="Lite0Embedder, got embeddings of 3 dimensions"):
        subject_judge.localizer.locate(photograph("china"), ["cat"], np.ones((1, 3), np.float32))


@pytest.mark.parametrize("size", [(1, 1), (2000, 20), (20, 700)])
def test_pictures_of_odd_shapes_are_looked_at(
    size: tuple[int, int], subject_judge: SubjectJudge, background_judge: BackgroundJudge, tmp_path: Path
) -> None:
    picture = photograph("china").resize(size)
    flower = photograph("flower")
    subject = subject_judge.judge([request(tmp_path, DINO_SIM, picture, [("object", "flower", flower)])])[0]
    assert subject.status == "ok"
    place = background_judge.judge([request(tmp_path, BG_SIM, picture, [("background", "place", flower)])])[0]
    assert place.status in ("ok", "out_of_range")


def test_the_same_place_is_above_a_dimmed_one_and_that_above_a_foreign_one(
    background_judge: BackgroundJudge, tmp_path: Path
) -> None:
    subject, place = cutout("cat"), photograph("china").resize((640, 427))
    dimmed = ImageEnhance.Color(ImageEnhance.Brightness(place).enhance(0.7)).enhance(0.6)
    reference = [("background", "palace", place)]
    values = [
        background_judge.judge(
            [request(tmp_path, BG_SIM, pasted(subject, behind, 0.6, 0.3, 0.4), reference, case_id=f"case-{number}")]
        )[0].value
        or 0.0
        for number, behind in enumerate((place, dimmed, photograph("rocket")))
    ]
    assert values[0] > values[1] > values[2]
    assert values[0] > 0.9
    assert values[1] > 0.8
    assert values[2] < 0.4
