"""Retrieval on pictures: by texts, by faces, from the command line; broken pictures are counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from bench.cogcanvas.retrieval import RetrievalSlot
from bench.cogcanvas.retrieving import retrieval_text, retrieve
from bench.evaluators.faces.embedding import FaceEmbedder
from gnomon.cli import main
from gnomon.datasets import write_records
from gnomon.errors import UserError
from gnomon.images import save_png
from gnomon.records import Case, Reference, Text
from tests.bench.evaluators.faces.drawn import BLUE, GREEN, RED, YELLOW, ColourDetector, ColourRecognizer, draw

WORDS = {"red": RED, "green": GREEN, "blue": BLUE, "yellow": YELLOW}


class ColourWords:
    """Pictures by their mean colour, texts by the colour that they name, at most three words long."""

    name = "colour words"
    fingerprint = "colour-words-1"

    def __init__(self) -> None:
        self.num_embedded = 0

    def embed(self, images: Sequence[Image.Image]) -> NDArray[Any]:
        self.num_embedded += len(images)
        return np.array([np.asarray(image, dtype=np.float32).mean(axis=(0, 1)) - 127.5 for image in images])

    def embed_texts(self, texts: Sequence[str]) -> NDArray[Any]:
        colours = [next((colour for word, colour in WORDS.items() if word in text), (0, 0, 0)) for text in texts]
        return np.array(colours, dtype=np.float32) - 127.5

    def is_cut(self, text: str) -> bool:
        return len(text.split()) > 3


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two people, each in three colours."""
    for person in ("ann", "bob"):
        for word, colour in list(WORDS.items())[:3]:
            save_png(Image.new("RGB", (8, 8), colour), tmp_path / f"{person}-{word}.png")
            save_png(draw(colour), tmp_path / f"{person}-{word}-face.png")
    return tmp_path


def slot(person: str, word: str, text: str | None, *, image: str | None = None, ending: str = "") -> RetrievalSlot:
    pool = [f"{person}-{each}{ending}.png" for each in ("red", "green", "blue")]
    return RetrievalSlot(
        id=f"{person}-{word}", case_id=word, person=person, text=text, image=image, pool=pool,
        relevant=[f"{person}-{word}{ending}.png"],
    )  # fmt: skip


def test_texts_find_their_pictures(root: Path) -> None:
    embedder = ColourWords()
    slots = [slot("ann", "red", "in red"), slot("bob", "blue", "dressed in deep blue"), slot("ann", "green", "in blue")]
    found = retrieve(root, slots, embedder)
    assert embedder.num_embedded == 3  # each picture once; Ann's and Bob's have the same pixels
    assert found.recall["1"].value == pytest.approx(2 / 3)
    assert found.recall["3"].value == 1
    assert found.precision["5"].value == pytest.approx(1 / 5)
    assert found.n_cut == 1
    text = retrieval_text(found)
    assert "Precision@1" in text
    assert "3 of 3 slots ranked by colour words" in text
    assert "too long and cut: 1 of 3 texts" in text


def test_vectors_are_kept_for_the_next_run(root: Path) -> None:
    slots = [slot("ann", "red", "in red")]
    retrieve(root, slots, ColourWords(), cache=root / "cache")
    again = ColourWords()
    assert retrieve(root, slots, again, cache=root / "cache").recall["1"].value == 1
    assert again.num_embedded == 0


def test_faces_find_faces_and_a_query_without_one_is_by_lot(root: Path) -> None:
    save_png(draw(RED, size=(60, 60)), root / "query.png")
    save_png(draw(), root / "empty.png")
    embedder = FaceEmbedder(ColourDetector(), ColourRecognizer())
    asked = slot("ann", "red", None, image="query.png", ending="-face")
    assert retrieve(root, [asked], embedder, query="image").recall["1"].value == 1
    by_lot = slot("ann", "red", None, image="empty.png", ending="-face")
    assert retrieve(root, [by_lot], embedder, query="image").recall["1"].value == pytest.approx(1 / 3)


def test_a_picture_that_cannot_be_read_fails_its_slots_alone(root: Path) -> None:
    (root / "bob-red.png").write_bytes(b"no picture")
    found = retrieve(root, [slot("ann", "red", "in red"), slot("bob", "blue", "in blue")], ColourWords())
    assert (found.n_scored, found.failed) == (1, {"unreadable_image": 1})
    assert "bob-red.png" in (found.slots[1].reason or "")


def test_what_cannot_be_asked_is_said(root: Path) -> None:
    faces = FaceEmbedder(ColourDetector(), ColourRecognizer())
    with pytest.raises(UserError, match="embeds pictures alone"):
        retrieve(root, [slot("ann", "red", "in red")], faces)
    with pytest.raises(UserError, match=r"slots with image for --query image, 1 have none, such as ann-red"):
        retrieve(root, [slot("ann", "red", "in red")], faces, query="image")
    with pytest.raises(UserError, match="nothing to choose from"):
        retrieve(root, [], ColourWords())


EMBEDDER = ["--embedder.class_path", f"{__name__}.ColourWords"]


def test_the_command_line_on_cases(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        Case(
            id=word, benchmark="cogcanvas", task="reference_generation", instruction=Text(en=f"Ann in {word}"),
            references=[Reference(path=f"ann-{word}.png", role="identity", name="Ann")],
        )
        for word in ("red", "green", "blue")
    ]  # fmt: skip
    write_records(root / "cases.jsonl", cases)
    out = root / "retrieval.json"
    assert main(["bench", "retrieval", "--cases", str(root), "--out", str(out), *EMBEDDER]) == 0
    assert "Recall@1" in capsys.readouterr().out
    written = json.loads(out.read_text())
    assert written["recall"]["1"]["value"] == 1
    assert written["chance_recall"]["1"] == pytest.approx(1 / 3)
    assert [one["slot"] for one in written["slots"]] == ["red/0", "green/0", "blue/0"]


def test_the_command_line_on_a_file_of_slots(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_records(root / "slots.jsonl", [slot("ann", "red", "in red")])
    out = root / "retrieval.json"
    assert main(["bench", "retrieval", "--slots", str(root / "slots.jsonl"), "--out", str(out), *EMBEDDER]) == 0
    assert json.loads(out.read_text())["n_scored"] == 1
    assert main(["bench", "retrieval", "--out", str(out), *EMBEDDER]) == 1
    assert "either --cases or --slots" in capsys.readouterr().err
