"""The folder of pictures as a generator, and case ids as file names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from bench.generators import Failure, FolderGenerator, file_stem
from gnomon.errors import UserError
from gnomon.images import save_png
from gnomon.records import Case, Text


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


@given(st.text(min_size=1), st.text(min_size=1))
def test_different_case_ids_have_different_file_names_in_one_folder(first: str, second: str) -> None:
    stems = file_stem(first), file_stem(second)
    assert (stems[0] == stems[1]) == (first == second)
    assert not any("/" in stem or "\0" in stem for stem in stems)
