"""Verification names what is wrong with a picture, a case or a folder, and goes on."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from data_build.puzzles.build import build_puzzles
from data_build.puzzles.folder import verify_folder
from data_build.puzzles.verify import verify
from gnomon.datasets import read_cases, write_records
from gnomon.errors import UserError
from gnomon.images import load_image
from gnomon.records import Case, Text


@pytest.fixture(scope="module")
def puzzles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("puzzles") / "out"
    build_puzzles(folder, tasks=["maximum_bonus"], num=3, seed=0)
    return folder


def pictures(folder: Path, number: int = 0) -> tuple[Case, Image.Image, Image.Image]:
    case = read_cases(folder)[number]
    return case, load_image(folder / case.references[0].path), load_image(folder / case.meta["target"])


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "I;16", "1", "LA"])
def test_any_mode_of_an_unedited_picture_is_read(puzzles: Path, mode: str) -> None:
    case, source, _ = pictures(puzzles)

    edited = source.convert("L").convert("I").convert("I;16") if mode == "I;16" else source.convert(mode)

    assert verify(case, source, edited).value in ("invalid", "unreadable")


@pytest.mark.parametrize("mode", ["RGBA", "P", "CMYK"])
def test_any_mode_with_colours_of_an_answer_is_read(puzzles: Path, mode: str) -> None:
    case, source, target = pictures(puzzles)

    assert verify(case, source, target.convert(mode)).value == "correct"


@pytest.mark.parametrize("size", [(1, 1), (512, 1), (300, 512), (2, 2)])
def test_any_size_has_a_verdict(puzzles: Path, size: tuple[int, int]) -> None:
    case, source, target = pictures(puzzles)

    assert verify(case, source, target.resize(size)).value in ("invalid", "unreadable")


def test_noise_is_never_right(puzzles: Path) -> None:
    case, source, target = pictures(puzzles)
    rng = random.Random(0)
    for _ in range(20):
        box = (rng.randrange(512), rng.randrange(512))
        spoilt = target.copy()
        spoilt.paste(Image.effect_noise((200, 200), 90).convert("RGB"), box)
        assert verify(case, source, spoilt).value in ("correct", "invalid", "unreadable")
    assert verify(case, source, Image.effect_noise((512, 512), 200).convert("RGB")).value != "correct"


def test_a_case_without_a_puzzle_is_refused() -> None:
    case = Case(id="photo", benchmark="other", task="recolour", instruction=Text(en="make it red"))
    with pytest.raises(UserError, match=r"expected a puzzle .* of case 'photo', got the task 'recolour'"):
        verify(case, Image.new("RGB", (8, 8)), Image.new("RGB", (8, 8)))
    with pytest.raises(UserError, match="of case 'photo', got none"):
        verify(case.model_copy(update={"task": "maximum_bonus"}), Image.new("RGB", (8, 8)), Image.new("RGB", (8, 8)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"start": "here"}, r"meta\.puzzle\.start of case 'maximum_bonus-test-000000'"),
        ({"size": 3}, r"meta\.puzzle\.size"),
    ],
)
def test_a_broken_instance_is_named(puzzles: Path, change: dict[str, Any], words: str) -> None:
    case, source, target = pictures(puzzles)
    broken = case.model_copy(update={"meta": {**case.meta, "puzzle": {**case.meta["puzzle"], **change}}})

    with pytest.raises(UserError, match=words):
        verify(broken, source, target)


def test_a_folder_goes_on_after_a_broken_case_and_counts_other_ones(puzzles: Path, tmp_path: Path) -> None:
    cases = read_cases(puzzles)
    broken = cases[0].model_copy(update={"meta": {"puzzle": {}}})
    other = Case(id="photo", benchmark="other", task="recolour", instruction=Text(en="make it red"))
    shutil.copytree(puzzles / "images", tmp_path / "images")
    write_records(tmp_path / "cases.jsonl", [broken, other, *cases[1:]])

    done = verify_folder(tmp_path, puzzles / "targets", tmp_path / "out.jsonl")

    assert done.num_others == 1
    assert [item.value for item in done.verified] == ["unreadable", "correct", "correct"]
    assert "meta.puzzle.numbers" in done.verified[0].reason
    assert "left out: 1 cases that hold no puzzle" in str(done)


def test_two_pictures_of_one_case_are_unreadable(puzzles: Path, tmp_path: Path) -> None:
    case, _, target = pictures(puzzles)
    target.save(tmp_path / f"{case.id}.png")
    target.save(tmp_path / f"{case.id}.jpg")

    assert (
        "found maximum_bonus-test-000000.png, maximum_bonus-test-000000.jpg"
        in verify_folder(puzzles, tmp_path).verified[0].reason
    )


def test_a_folder_that_is_none_and_one_without_puzzles_are_named(puzzles: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expected a folder of pictures at .*nowhere"):
        verify_folder(puzzles, tmp_path / "nowhere")
    write_records(tmp_path / "cases.jsonl", [Case(id="a", benchmark="b", task="c", instruction=Text(en="make it red"))])
    with pytest.raises(UserError, match="none of its cases is one"):
        verify_folder(tmp_path, puzzles / "targets")
