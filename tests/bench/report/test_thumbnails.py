"""Pictures in the page: small, or the reason why there is none, whatever happened to them."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.report.thumbnails import Thumbnail, thumbnail
from gnomon.images import save_png


def test_a_large_picture_is_scaled_down_and_a_small_one_is_kept(tmp_path: Path) -> None:
    save_png(Image.new("RGB", (512, 128), "red"), tmp_path / "a.png")
    for given, size, small in ((tmp_path / "a.png", (256, 64), False), (Image.new("L", (8, 4)), (8, 4), True)):
        found = thumbnail(given)
        assert found.uri is not None
        decoded = Image.open(io.BytesIO(base64.b64decode(found.uri.partition(",")[2])))
        assert (decoded.size, found.small) == (size, small)


def test_what_cannot_be_shown_has_a_reason(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no picture")
    Image.fromarray(np.full((2, 2), 0.5, np.float32)).save(tmp_path / "float.tif")
    assert thumbnail(None) == Thumbnail(None, "no picture")
    assert thumbnail(tmp_path / "gone.png") == Thumbnail(None, "picture missing")
    for name in ("broken.png", "float.tif", "x" * 300 + ".png"):
        assert thumbnail(tmp_path / name) == Thumbnail(None, "unreadable")


@pytest.mark.parametrize("pixels", [np.full((2, 2), 0.5, np.float32), np.full((2, 2), 70_000, np.int32)])
def test_pixels_in_memory_without_a_known_white_have_a_reason(pixels: np.ndarray) -> None:
    assert thumbnail(Image.fromarray(pixels)) == Thumbnail(None, "unreadable")


def test_a_picture_in_memory_whose_file_is_cut_short_has_a_reason(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:4000])
    with Image.open(tmp_path / "cut.png") as image:
        assert thumbnail(image) == Thumbnail(None, "unreadable")
