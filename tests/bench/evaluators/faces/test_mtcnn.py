"""MTCNN with random weights on any picture, and with the published ones on photographs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from bench.evaluators.faces.mtcnn import MtcnnDetector, OutputNet, ProposalNet, RefinementNet
from gnomon.errors import UserError
from tests.bench.evaluators.faces.photographs import detector, photograph, skimage_photograph


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    for name, net in (("pnet", ProposalNet()), ("rnet", RefinementNet()), ("onet", OutputNet())):
        torch.save(net.state_dict(), tmp_path / f"{name}.pt")
    return tmp_path


@pytest.mark.parametrize("size", [(1, 1), (7, 90), (20, 20), (64, 48)])
def test_any_picture_is_looked_at(weights: Path, size: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    faces = MtcnnDetector(weights, min_score=0.0).detect(Image.fromarray(noise))
    scores = [face.score for face in faces]
    assert scores == sorted(scores, reverse=True)
    assert all(np.isfinite([*face.box, *np.ravel(face.landmarks)]).all() for face in faces)


def test_random_weights_let_something_through(weights: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    for name, layer in (("pnet", "conv4_1"), ("rnet", "dense5_1")):
        state = torch.load(weights / f"{name}.pt", weights_only=True)
        state[f"{layer}.bias"][1] += 5  # nearly everything is proposed, and agreed to
        torch.save(state, weights / f"{name}.pt")
    assert MtcnnDetector(weights, min_score=0.0).detect(Image.fromarray(noise))


def test_fingerprints_tell_weights_and_settings_apart(weights: Path, tmp_path: Path) -> None:
    first = MtcnnDetector(weights).fingerprint
    assert first == MtcnnDetector(weights).fingerprint
    assert first != MtcnnDetector(weights, min_face=30).fingerprint
    torch.save(RefinementNet().state_dict(), weights / "rnet.pt")
    assert first != MtcnnDetector(weights).fingerprint


def test_weights_of_another_network_are_named(weights: Path) -> None:
    torch.save(OutputNet().state_dict(), weights / "rnet.pt")
    with pytest.raises(UserError, match=r"weights of RefinementNet in .*rnet\.pt"):
        MtcnnDetector(weights)


def test_missing_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"pnet\.pt"):
        MtcnnDetector(tmp_path)


def test_without_weights_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_OFFLINE_DIR", str(tmp_path))
    with pytest.raises(UserError, match=r"facenet-pytorch==2\.6\.0"):
        MtcnnDetector()


def test_a_photograph_has_its_face_where_the_eyes_are() -> None:
    (face,) = detector().detect(skimage_photograph("astronaut.png"))
    left, top, right, bottom = face.box
    assert (left, top, right, bottom) == pytest.approx((180, 61, 266, 174), abs=8)  # read off the photograph
    (left_eye, right_eye, nose, left_mouth, right_mouth) = face.landmarks
    assert left < left_eye[0] < nose[0] < right_eye[0] < right
    assert left_eye[1] < nose[1] < left_mouth[1] < bottom
    assert left_mouth[0] < right_mouth[0]


@pytest.mark.parametrize("name", ["chelsea.png", "coffee.png", "rocket.jpg"])
def test_a_photograph_without_people_has_no_face(name: str) -> None:
    assert detector().detect(skimage_photograph(name)) == []


def test_twelve_faces_of_two_sizes_are_found() -> None:
    portrait = skimage_photograph("astronaut.png").crop((120, 10, 330, 230))
    canvas = Image.new("RGB", (4 * 220, 3 * 230), "grey")
    for place in range(12):
        shown = portrait if place % 2 else portrait.resize((105, 110))
        canvas.paste(shown, (place % 4 * 220, place // 4 * 230))
    assert len(detector().detect(canvas)) == 12


def test_a_face_of_some_thirty_pixels_is_found_and_one_below_the_least_size_is_not() -> None:
    portrait = skimage_photograph("astronaut.png")  # its face is 100 pixels
    small = Image.new("RGB", (300, 300), "grey")
    small.paste(portrait.resize((180, 180)), (40, 40))
    (face,) = detector().detect(small)
    assert 20 < face.box[2] - face.box[0] < 45
    tiny = Image.new("RGB", (300, 300), "grey")
    tiny.paste(portrait.resize((60, 60)), (40, 40))
    assert detector().detect(tiny) == []


def test_five_people_are_five_faces() -> None:
    assert len(detector().detect(photograph("demo/sample5.jpg"))) == 5  # counted by eye
