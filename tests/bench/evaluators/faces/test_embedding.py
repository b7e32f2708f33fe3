"""From pictures to vectors of faces: from left to right, the largest for a reference, without what does not count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from bench.evaluators.faces.embedding import NEUTRAL, FaceEmbedder
from tests.bench.evaluators.faces.drawn import BLUE, GREEN, RED, ColourDetector, ColourRecognizer, draw


class LowerHalf:
    """A parser that leaves out the lower half of every face."""

    name = "lower half"
    fingerprint = "lower-half"
    size = 64

    def excluded(self, faces: Sequence[Image.Image]) -> list[NDArray[Any]]:
        assert all(face.size == (64, 64) for face in faces)
        return [np.indices((64, 64))[0] >= 32 for _ in faces]


def unit(vectors: NDArray[Any]) -> NDArray[Any]:
    lengths: NDArray[Any] = np.linalg.norm(vectors, axis=1)
    found: NDArray[Any] = vectors / lengths[:, None]
    return found


def test_faces_come_from_left_to_right_with_their_vectors() -> None:
    faces, vectors = FaceEmbedder(ColourDetector(), ColourRecognizer()).all_faces(draw(RED, GREEN, BLUE))
    assert [face.box[0] for face in faces] == [4, 34, 64]
    np.testing.assert_allclose(vectors, [[127.5, -127.5, -127.5], [-127.5, 127.5, -127.5], [-127.5, -127.5, 127.5]])


def test_a_reference_is_its_largest_face() -> None:
    image = draw(RED)
    ImageDraw.Draw(image).rectangle((100, 5, 139, 44), fill=BLUE)
    vector = FaceEmbedder(ColourDetector(), ColourRecognizer()).largest_face(image)
    np.testing.assert_allclose(vector, [[-127.5, -127.5, 127.5]])


def test_pixels_that_do_not_count_are_grey() -> None:
    image = draw(RED)
    ImageDraw.Draw(image).rectangle((4, 22, 27, 33), fill=BLUE)  # the lower half of the face
    plain = FaceEmbedder(ColourDetector(), ColourRecognizer()).largest_face(image)
    cleaned = FaceEmbedder(ColourDetector(), ColourRecognizer(), LowerHalf()).largest_face(image)
    assert plain[0, 2] > cleaned[0, 2]
    np.testing.assert_allclose(unit(cleaned), unit(np.array([[1.0, -1, -1]])), atol=0.02)
    assert max(NEUTRAL) - min(NEUTRAL) == 0


def test_a_picture_without_a_face_has_no_vector() -> None:
    embedder = FaceEmbedder(ColourDetector(), ColourRecognizer(), LowerHalf())
    faces, vectors = embedder.all_faces(draw())
    assert (faces, vectors.shape, embedder.largest_face(draw()).shape) == ([], (0, 3), (0, 3))
    found = embedder.embed([draw(RED), draw()])
    assert np.isnan(found).any(axis=1).tolist() == [False, True]
    similarity = embedder.similarity(found, found)
    assert similarity[0, 0] == pytest.approx(1)
    assert np.isnan(similarity).tolist() == [[False, True], [True, True]]


def test_names_and_fingerprints_say_all_parts() -> None:
    plain = FaceEmbedder(ColourDetector(), ColourRecognizer())
    parsed = FaceEmbedder(ColourDetector(), ColourRecognizer(), LowerHalf())
    assert (plain.name, parsed.name) == ("colours + mean colour", "colours + mean colour + lower half")
    assert plain.fingerprint != parsed.fingerprint
