"""The folder of pictures as a generator, and case ids as file names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from bench.generators import Failure, FolderGenerator, file_stem
from gnomon.errors import UserError
from gnomon.images import content_hash, save_png
from gnomon.records import Candidate, Case, Text


def case(case_id: str) -> Case:
    return Case(id=case_id, benchmark="b", task="t", instruction=Text(en="do"))


def test_pictures_come_by_case_id_in_the_order_asked_for(tmp_path: Path) -> None:
    for case_id, colour in (("x/1", "red"), ("圆", "blue")):
        save_png(Image.new("RGB", (2, 2), colour), tmp_path / f"{file_stem(case_id)}.png")
    first, second = FolderGenerator(tmp_path).generate([case("圆"), case("x/1")], [[], []], [0, 0])
    assert isinstance(first, Image.Image)
    assert isinstance(second, Image.Image)
    assert (first.getpixel((0, 0)), second.getpixel((0, 0))) == ((0, 0, 255), (255, 0, 0))


def test_what_is_missing_or_broken_is_a_failure_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "b.png").write_text("no picture")
    first, second = FolderGenerator(tmp_path).generate([case("a"), case("b")], [[], []], [0, 0])
    assert first == Failure("missing_output", "no file a.png")
    assert isinstance(second, Failure)
    assert second.status == "unreadable_image"


def test_a_second_repeat_of_one_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="one picture of case 'a'"):
        FolderGenerator(tmp_path).generate([case("a"), case("a")], [[], []], [0, 1])


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="check the path"):
        FolderGenerator(tmp_path / "nowhere")


def test_a_picture_that_was_overwritten_is_refused_and_one_that_is_gone_is_not(tmp_path: Path) -> None:
    for case_id in "abc":
        save_png(Image.new("RGB", (2, 2), "red"), tmp_path / f"{case_id}.png")
    taken = [
        Candidate(case_id=name, generator="g", seed=0, path="x.png", sampling={"content_hash": content_hash(red)})
        for name in "abc"
        for red in [Image.new("RGB", (2, 2), "red")]
    ]
    failed = Candidate(case_id="d", generator="g", seed=0, path=None, status="missing_output")
    (tmp_path / "b.png").unlink()
    Image.new("RGB", (2, 2), "red").save(tmp_path / "c.png", compress_level=0)  # other bytes, the same picture
    generator, cases = FolderGenerator(tmp_path), {case_id: case(case_id) for case_id in "abcd"}
    generator.refuse_changed([*taken, failed], cases)
    save_png(Image.new("RGB", (2, 2), "blue"), tmp_path / "d.png")
    generator.refuse_changed([*taken, failed], cases)
    for overwritten in (b"no picture", (tmp_path / "d.png").read_bytes()):
        (tmp_path / "c.png").write_bytes(overwritten)
        with pytest.raises(UserError, match=r"c\.png changed since .*use another --out"):
            generator.refuse_changed([*taken, failed], cases)


@pytest.mark.parametrize("case_id", ["x" * 300, "红" * 100, "/" * 90, "%" * 200])
def test_a_long_case_id_has_a_name_that_file_systems_take(tmp_path: Path, case_id: str) -> None:
    stem = file_stem(case_id)
    assert len(stem.encode()) <= 200
    (missing,) = FolderGenerator(tmp_path).generate([case(case_id)], [[]], [0])
    assert missing == Failure("missing_output", f"no file {stem}.png")
    save_png(Image.new("RGB", (2, 2)), tmp_path / f"{stem}.png")
    assert isinstance(FolderGenerator(tmp_path).generate([case(case_id)], [[]], [0])[0], Image.Image)


def test_long_case_ids_that_begin_or_look_alike_have_different_names() -> None:
    ids = ["x" * 300, "x" * 301, "x" * 200, "x" * 199 + "/", file_stem("x" * 300), file_stem(file_stem("x" * 300))]
    assert len({file_stem(case_id) for case_id in ids}) == len(ids)
    assert file_stem("x" * 200) == "x" * 200


@given(st.text(min_size=1), st.text(min_size=1))
def test_different_case_ids_have_different_file_names_in_one_folder(first: str, second: str) -> None:
    stems = file_stem(first), file_stem(second)
    assert (stems[0] == stems[1]) == (first == second)
    assert not any("/" in stem or "\0" in stem for stem in stems)
