"""BG-Sim: known answers on painted grids, blank without a background input, a status where nothing is left."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bench.cogcanvas.cases import TEXT_TO_IMAGE
from bench.evaluators.background import METRIC, BackgroundJudge, concepts
from bench.evaluators.cosine import cosines
from bench.evaluators.vision.embedding import DinoCells, Vectors
from bench.evaluators.vision.segmentation import Mask, Sam3Segmenter
from bench.generators import REFERENCE_ROLES
from tests.bench.evaluators.scenes import request


class ColourCells:
    """Embeds each quarter of a picture as its mean colour."""

    name = "colour"
    fingerprint = "colour"

    def __init__(self) -> None:
        self.num_pictures = 0

    def cells(self, image: Image.Image) -> Vectors:
        """Return the four colours."""
        self.num_pictures += 1
        return np.asarray(image.resize((2, 2), Image.Resampling.BOX), np.float32)


class BlackSegmenter:
    """Takes what is black for the foreground."""

    name = "black"
    fingerprint = "black"

    def __init__(self, *, takes_words: bool = True) -> None:
        self.takes_words, self.num_pictures = takes_words, 0

    def foreground(self, image: Image.Image, concepts: Sequence[str]) -> Mask:
        """Return where the picture is black."""
        self.num_pictures += 1
        assert bool(concepts) == self.takes_words
        found: Mask = np.asarray(image).max(-1) == 0
        return found


def quarters(*colours: str) -> Image.Image:
    """Return a picture of four colours: upper left, upper right, lower left, lower right."""
    picture = Image.new("RGB", (40, 40))
    for place, colour in enumerate(colours):
        picture.paste(colour, (20 * (place % 2), 20 * (place // 2), 20 * (place % 2) + 20, 20 * (place // 2) + 20))
    return picture


def judge(**settings: Any) -> BackgroundJudge:
    return BackgroundJudge(BlackSegmenter(), ColourCells(), **settings)


PLACE = [("background", "the bay", quarters("red", "red", "blue", "lime"))]


@pytest.mark.parametrize(
    ("candidate", "pooled", "cells"),
    [
        (quarters("red", "red", "blue", "lime"), 1, 1),
        (quarters("red", "black", "blue", "lime"), 4 / np.sqrt(18), 1),  # the means are (1, 1, 1) and (2, 1, 1)
        (quarters("blue", "lime", "red", "red"), 1, 0),  # the same place from elsewhere
        (quarters("black", "black", "black", "blue"), 1 / np.sqrt(6), 0),
        (quarters("maroon", "maroon", "navy", "green"), 1, 1),  # dimmed
    ],
)
def test_means_are_compared_or_cells(candidate: Image.Image, pooled: float, cells: float, tmp_path: Path) -> None:
    asked = request(tmp_path, METRIC, candidate, PLACE)
    assert judge().judge([asked])[0].value == pytest.approx(pooled, abs=0.01)
    assert judge(aggregate="cells").judge([asked])[0].value == pytest.approx(cells, abs=0.01)


def test_what_is_left_is_drawn_for_the_page(tmp_path: Path) -> None:
    verdict = judge().judge([request(tmp_path, METRIC, quarters("red", "black", "blue", "lime"), PLACE)])[0]
    background = {"candidate": [".#", ".."], "reference": ["..", ".."]}
    assert json.loads(verdict.raw or "") == {"grid": [2, 2], "background": background}
    assert verdict.rationale == "75% of the picture and 100% of the reference are background"


@pytest.mark.parametrize("aggregate", ["pooled", "cells"])
def test_nothing_left_is_a_status_and_no_number(aggregate: str, tmp_path: Path) -> None:
    crowded = request(tmp_path, METRIC, quarters("black", "black", "black", "black"), PLACE)
    verdict = judge(aggregate=aggregate).judge([crowded])[0]
    assert (verdict.value, verdict.status) == (None, "out_of_range")
    assert "no background is left" in (verdict.rationale or "")


def test_cells_that_are_left_in_one_picture_only_are_not_compared(tmp_path: Path) -> None:
    half = [("background", "the bay", quarters("black", "black", "blue", "lime"))]
    asked = request(tmp_path, METRIC, quarters("red", "red", "black", "black"), half)
    assert judge(aggregate="cells").judge([asked])[0].status == "out_of_range"
    assert judge(aggregate="pooled").judge([asked])[0].value == pytest.approx(0)


def test_a_method_without_a_background_input_is_blank(tmp_path: Path) -> None:
    picture = quarters("red", "red", "blue", "lime")
    without = request(tmp_path, METRIC, picture, PLACE, sampling={REFERENCE_ROLES: ["identity", "object"]})
    with_it = request(tmp_path, METRIC, picture, PLACE, sampling={REFERENCE_ROLES: ["background", "identity"]})
    silent = request(tmp_path, METRIC, picture, PLACE)
    asked = [without, with_it, silent]
    assert [verdict.status for verdict in judge().judge(asked)] == ["not_applicable", "ok", "ok"]
    blank = judge(has_background_input=False).judge(asked)
    assert {(verdict.status, verdict.value) for verdict in blank} == {("not_applicable", None)}
    assert [verdict.status for verdict in judge(has_background_input=True).judge(asked)] == ["ok"] * 3
    assert "no background reference as input" in (blank[0].rationale or "")


def test_what_does_not_apply_is_blank(tmp_path: Path) -> None:
    picture = quarters("red", "red", "blue", "lime")
    verdicts = judge().judge(
        [
            request(tmp_path, METRIC, picture, [], case_id="none"),
            request(tmp_path, METRIC, picture, PLACE * 2, case_id="two"),
            request(tmp_path, METRIC, picture, PLACE, case_id="text", task=TEXT_TO_IMAGE),
            request(tmp_path, "beauty", picture, PLACE, case_id="metric"),
        ]
    )
    assert {verdict.status for verdict in verdicts} == {"not_applicable"}
    assert "no background references" in (verdicts[0].rationale or "")
    assert "2 background references" in (verdicts[1].rationale or "")


@pytest.mark.parametrize(("takes_words", "num_masks"), [(True, 2), (False, 1)])
def test_references_are_looked_at_once_and_masked_once_for_the_same_words(
    takes_words: bool, num_masks: int, tmp_path: Path
) -> None:
    picture = quarters("red", "black", "blue", "lime")
    requests = [request(tmp_path, METRIC, picture, PLACE, case_id=f"case-{place}") for place in range(3)]
    requests.append(request(tmp_path, METRIC, picture, [*PLACE, ("fashion", "hat", picture)], case_id="hat"))
    assert concepts(requests[-1]) == ["person", "hat"]
    for num_cells, num_masked in ((1, num_masks), (0, 0)):  # and again, by another process
        segmenter, embedder = BlackSegmenter(takes_words=takes_words), ColourCells()
        verdicts = BackgroundJudge(segmenter, embedder, cache=tmp_path / "cache").judge(requests)
        assert {verdict.status for verdict in verdicts} == {"ok"}
        assert (embedder.num_pictures, segmenter.num_pictures) == (4 + num_cells, 4 + num_masked)


def test_a_corrupt_mask_is_made_anew(tmp_path: Path) -> None:
    asked = request(tmp_path, METRIC, quarters("red", "black", "blue", "lime"), PLACE)
    whole = judge(cache=tmp_path / "cache").judge([asked])[0]
    for file in (tmp_path / "cache").rglob("*.npy"):
        content = file.read_bytes()
        file.write_bytes(content.replace(b"(40, 40)", b"(40, 4 0") if b"(40, 40)" in content else content[:-7])
    again = judge(cache=tmp_path / "cache").judge([asked])[0]
    assert (again.status, again.value, again.raw) == ("ok", whole.value, whole.raw)


def test_settings_are_checked_and_part_of_the_fingerprint() -> None:
    with pytest.raises(ValueError, match="max_foreground"):
        judge(max_foreground=1.0)
    settings: list[dict[str, Any]] = [
        {},
        {"aggregate": "cells"},
        {"max_foreground": 0.5},
        {"has_background_input": True},
    ]
    assert len({judge(**setting).fingerprint for setting in settings}) == 4
    assert judge().name == "bg-sim (colour, black, pooled)"


def test_it_sees_through_sam3_and_dinov3(sam3: Path, dinov3: Path, noise: Image.Image, tmp_path: Path) -> None:
    segmenter, embedder = Sam3Segmenter(sam3, threshold=0.2), DinoCells(dinov3)
    place = noise.rotate(180)
    asked = request(tmp_path, METRIC, noise, [("background", "the bay", place), ("object", "hat", noise)])
    verdict = BackgroundJudge(segmenter, embedder, max_foreground=0.9).judge([asked])[0]
    means = []
    for picture in (noise, place):
        mask = segmenter.foreground(picture, ["person", "hat"])
        rows, columns = (length // 4 for length in mask.shape)
        shares = mask.reshape(4, rows, 4, columns).mean((1, 3))
        means.append(embedder.cells(picture)[shares <= 0.9].mean(0))
    assert verdict.value == pytest.approx(float(cosines(means[0][None], means[1][None])[0, 0]), abs=1e-5)
    same = request(tmp_path, METRIC, noise, [("background", "the bay", noise)], case_id="same")
    assert BackgroundJudge(segmenter, embedder, max_foreground=0.9).judge([same])[0].value == pytest.approx(1)
