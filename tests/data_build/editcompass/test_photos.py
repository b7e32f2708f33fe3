from __future__ import annotations

import shutil
from pathlib import Path

from PIL import Image

from data_build.editcompass.photos import picture_files, take_photos


def test_a_photograph_keeps_nothing_but_its_pixels_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    exif[0x010F] = "maker of the camera"
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (8, 4), "red").save(tmp_path / "photos" / "turned.jpg", exif=exif)

    (photo,), problems = take_photos(tmp_path / "photos", picture_files(tmp_path / "photos"), tmp_path / "out")

    assert problems == []
    with Image.open(tmp_path / "out" / photo.path) as copy:
        assert copy.size == (4, 8)
        assert not copy.getexif()


def test_unreadable_and_repeated_photographs_are_named_and_the_rest_goes_on(photos: Path, tmp_path: Path) -> None:
    (photos / "broken.jpg").write_bytes(b"no picture")
    (photos / "cut.png").write_bytes((photos / "a.png").read_bytes()[:200])
    shutil.copy(photos / "b.png", photos / "same.png")
    (photos / "notes.txt").write_text("mine")

    (photos / ".hidden.png").write_bytes(b"no picture")

    taken, problems = take_photos(photos, picture_files(photos), tmp_path / "out")

    assert [photo.file for photo in taken] == ["a.png", "b.png", "holiday/c.png"]
    assert len(list((tmp_path / "out" / "images").iterdir())) == 3
    assert [(problem.file, problem.status) for problem in problems] == [
        ("broken.jpg", "unreadable_image"),
        ("cut.png", "unreadable_image"),
        ("same.png", "duplicate"),
    ]
    assert "shows the same as b.png" in problems[2].message
