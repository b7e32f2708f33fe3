"""Which pictures are used: each check by hand, thresholds that change, reviews, and real networks as backends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from bench.evaluators.vision.embedding import DinoEmbedder
from data_build.cogcanvas.curate import CurateReport, LeftOut, curate_pictures, report_lines
from data_build.cogcanvas.folder import BuildFolder
from data_build.cogcanvas.manifest import Picture, gather_pictures
from data_build.cogcanvas.settings import (
    AestheticFilter,
    CurateSettings,
    ManifestSettings,
    NearDuplicates,
    TextPictureFilter,
)
from gnomon.errors import UserError
from gnomon.jsonl import read_records
from tests.bench.evaluators import checkpoints
from tests.bench.evaluators.faces.photographs import detector, skimage_photograph
from tests.data_build.cogcanvas.backends import Brightness, ColorVectors, WhiteCorners

Drawn = tuple[str, str, str, Image.Image]


def flat(color: str, size: tuple[int, int] = (20, 20)) -> Image.Image:
    return Image.new("RGB", size, color)


def gathered(tmp_path: Path, *pictures: Drawn) -> BuildFolder:
    """Return a build with these pictures: id, role, name."""
    lines = []
    for id, role, name, image in pictures:
        image.save(tmp_path / f"{id}.png")
        lines.append({"id": id, "role": role, "name": name, "path": f"{id}.png"})
    (tmp_path / "m.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    folder = BuildFolder(tmp_path / "build")
    gather_pictures(folder, ManifestSettings([tmp_path / "m.jsonl"]))
    return folder


def curated(folder: BuildFolder, **settings: Any) -> tuple[list[str], dict[str, str], CurateReport]:
    """Return ids that are used, reasons of the others, and the report."""
    report = curate_pictures(folder, CurateSettings(**settings))
    kept = [item.entry.id for item in read_records(folder.curated, Picture)]
    left_out = read_records(folder.stage("curate") / "left_out.jsonl", LeftOut)
    return kept, {item.id: item.reason for item in left_out}, report


def test_each_check_is_about_its_roles(tmp_path: Path) -> None:
    corner = flat("gray", (40, 30))
    corner.putpixel((0, 0), (255, 255, 255))
    folder = gathered(
        tmp_path,
        ("small", "background", "Old Harbour", flat("gray", (29, 400))),
        ("crowded", "background", "Mill Bridge", corner),
        ("place", "background", "High Street", flat("blue", (31, 31))),
        ("dark", "object", "red lamp", flat("#300000")),
        ("wrong", "object", "red kite", flat("#8080ff")),
        ("nameless", "object", "kite", flat("#ff8888")),
        ("lamp", "object", "red lamp", flat("#ff4040")),
        ("again", "fashion", "red scarf", flat("#ff4141", (10, 10))),
        ("hat", "fashion", "green hat", flat("#20ff60")),
        ("dark-person", "identity", "Ann", flat("#101010")),
    )
    colors = ColorVectors()
    kept, left_out, report = curated(
        folder,
        near_duplicates=NearDuplicates(colors, 0.999),
        aesthetic=AestheticFilter(Brightness(), 3.0),
        text_picture=TextPictureFilter(colors, 0.7),
        faces=WhiteCorners(),
        min_side=30,
    )
    assert kept == ["place", "lamp", "hat", "dark-person"]
    assert left_out == {
        "small": "too_small",
        "crowded": "has_faces",
        "dark": "low_aesthetic",
        "wrong": "not_its_name",
        "nameless": "no_number",
        "again": "near_duplicate",
    }
    assert list(report.names) == list(report.pictures) == ["background", "object", "fashion", "identity"]
    assert report.backends == {
        "near_duplicates": "colors at 0.999",
        "aesthetic": "brightness at 3",
        "text_picture": "colors at 0.7",
        "faces": "corners at 0",
    }


def test_of_near_duplicates_the_larger_picture_stays_and_one_that_is_left_out_for_itself_takes_nobody_with_it(
    tmp_path: Path,
) -> None:
    folder = gathered(
        tmp_path,
        ("small", "object", "kite", flat("#802020", (20, 20))),
        ("large", "object", "another kite", flat("#812020", (30, 30))),
        ("huge-and-dark", "object", "dark kite", flat("#200808", (90, 90))),
    )
    kept, left_out, _ = curated(
        folder,
        near_duplicates=NearDuplicates(ColorVectors(), 0.99),
        aesthetic=AestheticFilter(Brightness(), 2.0),
    )
    assert kept == ["large"]
    assert left_out == {"small": "near_duplicate", "huge-and-dark": "low_aesthetic"}


def test_a_picture_of_two_identities_serves_for_neither_and_a_picture_twice_once(tmp_path: Path) -> None:
    folder = gathered(
        tmp_path,
        ("ann", "identity", "Ann", flat("red")),
        ("bob", "identity", "Bob", flat("red")),
        ("cy-1", "identity", "Cy", flat("blue")),
        ("cy-2", "identity", "cy", flat("blue")),
    )
    kept, left_out, report = curated(folder)
    assert kept == ["cy-1"]
    assert left_out == {"ann": "two_identities", "bob": "two_identities", "cy-2": "duplicate"}
    assert "not checked, for want of a backend" in "\n".join(report_lines(report))


def test_thresholds_may_change_without_looking_again_and_other_backends_look_again(tmp_path: Path) -> None:
    folder = gathered(tmp_path, *((name, "object", f"{name} thing", flat(name)) for name in ("red", "green")))
    first = ColorVectors()
    kept, _, _ = curated(folder, text_picture=TextPictureFilter(first, 0.9))
    assert (kept, first.num_pictures) == (["red", "green"], 2)

    again = ColorVectors()
    with pytest.raises(UserError, match="no picture is left: not_its_name 2"):
        curated(folder, text_picture=TextPictureFilter(again, 1.1))
    assert again.num_pictures == 0

    other = ColorVectors("others")
    curated(folder, text_picture=TextPictureFilter(other, 0.9))
    assert other.num_pictures == 2


def test_what_somebody_takes_out_is_left_out_and_lines_about_nothing_are_counted(tmp_path: Path) -> None:
    folder = gathered(tmp_path, *((name, "object", name, flat(name)) for name in ("red", "green", "blue")))
    curated(folder)
    sheet = folder.stage("curate") / "review.csv"
    rows = sheet.read_text(encoding="utf-8-sig").splitlines()
    assert rows[0] == "id,role,name,file,reviewer,keep,reason"
    filled = [
        rows[0],
        rows[1].removesuffix(",,,") + ",Ann,no,blurred",
        rows[2].removesuffix(",,,") + ",Ann,yes,",
        rows[3],
    ]
    (tmp_path / "ann.csv").write_text("\n".join([*filled, "grey,object,grey,grey.png,Ann,no,glare"]))

    kept, left_out, report = curated(folder, reviews=[tmp_path / "ann.csv"])
    assert kept == ["green", "blue"]
    assert left_out == {"red": "taken_out"}
    assert report.problems == {"unknown_item": 1}


def test_a_picture_that_vanished_is_counted(tmp_path: Path) -> None:
    folder = gathered(tmp_path, *((name, "object", f"{name} thing", flat(name)) for name in ("red", "green")))
    (tmp_path / "red.png").unlink()
    kept, left_out, _ = curated(folder, aesthetic=AestheticFilter(Brightness(), 0.0))
    assert (kept, left_out) == (["green"], {"red": "unreadable_image"})


def test_dinov2_finds_near_duplicates(tmp_path: Path) -> None:
    folder = gathered(
        tmp_path,
        ("red", "object", "red thing", flat("#c03030", (40, 40))),
        ("nearly", "object", "another", flat("#c13030", (30, 30))),
        ("other", "object", "other", Image.linear_gradient("L").convert("RGB")),
    )
    embedder = DinoEmbedder(checkpoints.build_dinov2(tmp_path / "dinov2"))
    _, left_out, report = curated(folder, near_duplicates=NearDuplicates(embedder, 0.9999))
    assert left_out == {"nearly": "near_duplicate"}
    assert report.backends["near_duplicates"] == "dinov2 at 0.9999"


def test_a_photograph_of_a_person_is_no_background(tmp_path: Path) -> None:
    faces = detector()
    folder = gathered(
        tmp_path,
        ("person", "background", "Launch Site", skimage_photograph("astronaut.png")),
        ("coffee", "background", "Table", skimage_photograph("coffee.png")),
    )
    _, left_out, _ = curated(folder, faces=faces, min_side=100)
    assert left_out == {"person": "has_faces"}


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(UserError, match="min_side >= 1"):
        CurateSettings(min_side=0)
