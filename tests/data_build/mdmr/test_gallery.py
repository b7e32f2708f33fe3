from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imagehash
import numpy as np
import pytest
from PIL import Image

from data_build.mdmr.folder import BuildFolder
from data_build.mdmr.gallery import build_gallery
from data_build.mdmr.index import GalleryImage
from data_build.mdmr.indexing import GalleryReport
from data_build.mdmr.settings import GallerySettings, Source
from data_build.mdmr.tables import read_table
from gnomon.errors import UserError
from gnomon.images import content_hash, save_png
from tests.data_build.mdmr.pictures import encoded, picture


def gallery(out: Path, **sources: Source) -> GalleryReport:
    return build_gallery(BuildFolder(out), GallerySettings(sources, min_side=32, num_threads=2))


def index(out: Path) -> dict[str, GalleryImage]:
    rows = read_table(BuildFolder(out).gallery).to_pylist()
    return {row["member"]: GalleryImage.model_validate(row) for row in rows}


def left_out(out: Path) -> dict[str, tuple[str, str]]:
    lines = (out / "gallery" / "left_out.jsonl").read_text().splitlines()
    return {line["member"]: (line["status"], line["message"]) for line in map(json.loads, lines)}


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A folder with pictures of every kind."""
    folder = tmp_path / "mixed"
    save_png(picture(1), folder / "1.png")
    save_png(picture(1, 128, 96), folder / "1-larger.png")
    (folder / "1-copy.bmp").write_bytes(encoded(picture(1), "BMP"))
    save_png(picture(2), folder / "2.png")
    save_png(picture(3, 64, 20), folder / "3-small.png")
    (folder / "4-broken.jpg").write_bytes(encoded(picture(4), "JPEG")[:200])
    (folder / "5-text.png").write_text("no picture")
    return folder


def test_what_becomes_of_every_picture_is_counted_and_named(mixed: Path, tmp_path: Path) -> None:
    report = gallery(tmp_path / "out", some=Source(mixed))

    assert report.outcomes == {"ok": 2, "unreadable_image": 2, "too_small": 1, "duplicate": 1, "near_duplicate": 1}
    assert report.outcomes_of_sources == {"some": report.outcomes}
    assert set(index(tmp_path / "out")) == {"1-larger.png", "2.png"}
    reasons = left_out(tmp_path / "out")
    assert reasons["1.png"] == ("duplicate", "kept instead: some/1-larger.png")
    assert reasons["1-copy.bmp"] == ("near_duplicate", "kept instead: some/1-larger.png")
    assert reasons["3-small.png"] == ("too_small", "64 x 20, expected at least 32 a side")
    assert {name for name, (status, _) in reasons.items() if status == "unreadable_image"} == {
        "4-broken.jpg",
        "5-text.png",
    }
    written = json.loads((tmp_path / "out" / "gallery" / "report.json").read_text())
    assert written["outcomes"] == report.outcomes
    assert "2 pictures in the gallery" in (tmp_path / "out" / "gallery" / "report.txt").read_text()


def test_the_index_says_what_the_picture_is(tmp_path: Path) -> None:
    turned = picture(5, 90, 60)
    exif = turned.getexif()
    exif[0x0112] = 6
    (tmp_path / "in").mkdir()
    turned.save(tmp_path / "in" / "turned.jpg", exif=exif)
    (tmp_path / "in" / "turned.txt").write_text("Patches.")
    gallery(tmp_path / "out", photos=Source(tmp_path / "in"))
    row = index(tmp_path / "out")["turned.jpg"]

    with Image.open(tmp_path / "in" / "turned.jpg") as image:
        upright = Image.fromarray(np.rot90(np.asarray(image), -1))
    assert (row.width, row.height, row.origin, row.caption) == (60, 90, "real", "Patches.")
    assert content_hash(upright).startswith(row.id)
    assert row.perceptual_hash == str(imagehash.phash(upright))


def test_noise_and_compression_make_near_duplicates_and_other_pictures_do_not(tmp_path: Path) -> None:
    noisy = np.asarray(picture(1, 200, 200)).astype(int) + np.random.default_rng(0).integers(-8, 9, (200, 200, 3))
    save_png(picture(1, 200, 200), tmp_path / "in" / "a.png")
    save_png(Image.fromarray(noisy.clip(0, 255).astype(np.uint8)), tmp_path / "in" / "b.png")
    (tmp_path / "in" / "c.jpg").write_bytes(encoded(picture(1, 200, 200), "JPEG"))
    for seed in range(2, 30):
        save_png(picture(seed, 200, 200), tmp_path / "in" / f"{seed}.png")

    report = gallery(tmp_path / "out", some=Source(tmp_path / "in"))

    assert report.outcomes == {"ok": 29, "near_duplicate": 2}


def test_a_synthetic_picture_stays_beside_the_real_one_that_it_was_made_from(tmp_path: Path) -> None:
    save_png(picture(1), tmp_path / "real" / "one.png")
    save_png(picture(2), tmp_path / "real" / "two.png")
    save_png(picture(2, 60, 46), tmp_path / "real" / "two-smaller.png")
    for name, seed in (("a", 1), ("b", 7), ("c", 8), ("d", 9)):
        save_png(picture(seed, 80, 60), tmp_path / "made" / f"{name}.png")
    names = {"a.png": "one", "b.png": "photos/two-smaller.png", "c.png": "nobody"}
    lines = [json.dumps({"file_name": file, "made_from": name}) for file, name in names.items()]
    (tmp_path / "made" / "metadata.jsonl").write_text("\n".join(lines))

    report = gallery(
        tmp_path / "out", photos=Source(tmp_path / "real"), made=Source(tmp_path / "made", origin="synthetic")
    )
    found = index(tmp_path / "out")

    assert report.outcomes == {"ok": 6, "near_duplicate": 1}
    assert (report.num_pairs, report.num_made_from_unknown) == (2, 1)
    assert found["a.png"].made_from == found["one.png"].id
    assert found["b.png"].made_from == found["two.png"].id, "the smaller copy was left out for it"
    assert found["c.png"].made_from is None
    assert {row.origin for name, row in found.items() if "." in name and len(name) == 5} == {"synthetic"}


def test_run_again_only_what_is_new_or_changed_or_failed_is_looked_at(mixed: Path, tmp_path: Path) -> None:
    gallery(tmp_path / "out", some=Source(mixed))
    looks = tmp_path / "out" / "gallery" / "looks.jsonl"
    before = looks.read_bytes()
    gallery(tmp_path / "out", some=Source(mixed))
    assert looks.read_bytes() == before

    save_png(picture(6), mixed / "6.png")
    save_png(picture(4), mixed / "4-broken.jpg")
    save_png(picture(7), mixed / "2.png")
    (mixed / "1.png").unlink()
    gallery(tmp_path / "out", some=Source(mixed))

    added = [json.loads(line)["member"] for line in looks.read_bytes()[len(before) :].splitlines()]
    assert added == ["2.png", "4-broken.jpg", "6.png"]
    assert set(index(tmp_path / "out")) == {"1-larger.png", "2.png", "4-broken.jpg", "6.png"}


def test_the_smallest_size_can_be_changed_without_a_look(mixed: Path, tmp_path: Path) -> None:
    gallery(tmp_path / "out", some=Source(mixed))
    looks = (tmp_path / "out" / "gallery" / "looks.jsonl").read_bytes()

    report = build_gallery(BuildFolder(tmp_path / "out"), GallerySettings({"some": Source(mixed)}, min_side=60))

    assert report.outcomes["ok"] == 1
    assert (tmp_path / "out" / "gallery" / "looks.jsonl").read_bytes() == looks


def test_killed_and_run_again_it_ends_with_the_same_bytes(
    tmp_path: Path, contents: Callable[[Path], dict[str, Any]], kill_when: Callable[[str, Callable[[], bool]], None]
) -> None:
    for seed in range(60):
        save_png(picture(seed, 400, 400), tmp_path / "in" / f"{seed:02}.png")
    out = tmp_path / "out"
    program = (
        "from pathlib import Path\nfrom tests.data_build.mdmr.test_gallery import gallery, Source\n"
        f"gallery(Path({str(out)!r}), some=Source(Path({str(tmp_path / 'in')!r})))"
    )
    looks = out / "gallery" / "looks.jsonl"

    kill_when(program, lambda: looks.exists() and looks.stat().st_size > 500)
    assert looks.read_bytes().count(b"\n") < 60
    gallery(out, some=Source(tmp_path / "in"))
    gallery(tmp_path / "whole", some=Source(tmp_path / "in"))

    assert contents(out) == contents(tmp_path / "whole")


def test_a_gallery_without_a_usable_picture_is_an_error_with_the_counts(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_text("no picture")

    with pytest.raises(UserError, match="unreadable_image 1"):
        gallery(tmp_path / "out", some=Source(tmp_path / "in"))
    with pytest.raises(UserError, match=r"at least one source under gallery\.sources"):
        gallery(tmp_path / "other")
    with pytest.raises(UserError, match=r"max_distance in 0\.\.6"):
        build_gallery(BuildFolder(tmp_path / "other"), GallerySettings({"a": Source(tmp_path)}, max_distance=9))
    assert not (tmp_path / "other").exists()
