"""Where pictures lie: patterns that are filled from cases, and pictures that nobody asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.placement import ById, ByPattern, inside, unused_text
from gnomon.errors import UserError
from gnomon.records import Case, Text


def case(case_id: str, *, task: str = "add", subtask: str | None = None, **meta: Any) -> Case:
    return Case(id=case_id, benchmark="b", task=task, subtask=subtask, instruction=Text(en="do"), meta=meta)


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")


def test_places_are_filled_from_case_seed_and_meta() -> None:
    made = case("7", subtask="copy", cell="ADD", save_id=3)
    assert ByPattern("{task}/{subtask}/{meta[cell]}/{meta[save_id]:04}_{seed}.webp").name(made, 2) == (
        "add/copy/ADD/0003_2.webp"
    )
    assert ByPattern("{case_id}").name(case("Part1/ADD/7"), 0) == "Part1/ADD/7.png"
    assert ByPattern("{{{case_id}}}").name(made, 0) == "{7}.png"
    assert (ByPattern("{case_id}_{seed}").has_seeds, ByPattern("{case_id}").has_seeds) == (True, False)


def test_the_layout_of_edit_compass_has_a_name(tmp_path: Path) -> None:
    touch(tmp_path, "Part1/ADD/12.jpg", "Part5/Virtual_Try_On/12.png", "ADD/12.png", "Part1/x/ADD/12.png")
    placement = ByPattern("edit-compass")
    found = placement.find(str(tmp_path), case("Part1/ADD/12", cell="ADD", save_id="12"), 0)
    assert found == [f"{tmp_path}/Part1/ADD/12.jpg"]
    assert placement.find(str(tmp_path), case("Part5/x", cell="Virtual_Try_On", save_id=12), 0) == [
        f"{tmp_path}/Part5/Virtual_Try_On/12.png"
    ]
    assert placement.find(str(tmp_path), case("y", cell="ADD", save_id="1"), 0) == []
    touch(tmp_path, "Part2/ADD/12.png")
    assert len(placement.find(str(tmp_path), case("z", cell="ADD", save_id="12"), 0)) == 2


def test_what_a_case_says_is_never_a_wildcard(tmp_path: Path) -> None:
    touch(tmp_path, "a/xy.png", "a/[x]y.png")
    assert ByPattern("*/{case_id}").find(str(tmp_path), case("*"), 0) == []
    assert ByPattern("*/{case_id}").find(str(tmp_path), case("[x]y"), 0) == [f"{tmp_path}/a/[x]y.png"]
    assert ByPattern("*/[x]{case_id}").find(str(tmp_path), case("y"), 0) == [f"{tmp_path}/a/[x]y.png"]


@pytest.mark.parametrize("ending", [".png", ".jpg", ".jpeg", ".webp"])
def test_any_of_the_usual_endings_will_do_where_none_is_given(tmp_path: Path, ending: str) -> None:
    touch(tmp_path, f"x{ending}", "y.txt")
    assert ById().find(str(tmp_path), case("x"), 0) == [f"{tmp_path}/x{ending}"]
    assert ByPattern("{case_id}").find(str(tmp_path), case("x"), 0) == [f"{tmp_path}/x{ending}"]
    assert ByPattern("{case_id}.png").find(str(tmp_path), case("x"), 0) == [f"{tmp_path}/x.png"] * (ending == ".png")
    assert ById().find(str(tmp_path), case("y"), 0) == []


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("{case}", "{case}"),
        ("{case_id.__class__}", "__class__"),
        ("{meta}", "{meta}"),
        ("{meta[a][b]}", "meta"),
        ("{case_id!r}", "case_id"),
        ("{}", "{}"),
        ("{case_id", "expected '}'"),
    ],
)
def test_a_place_that_is_none_is_named(pattern: str, named: str) -> None:
    with pytest.raises(UserError) as raised:
        ByPattern(pattern)
    assert named in str(raised.value)


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (case("a"), r"\{meta\[cell\]\}.*'a'; its meta has nothing"),
        (case("a", cell=None, other=1), "its meta has cell, other"),
        (case("a", cell=["x"]), r"got \['x'\]"),
        (case("a", cell=True), "got True"),
        (case("a", cell=""), "got ''"),
        (case("a", cell="../x"), r"below the folder.*'\.\./x"),
        (case("a", cell="/x"), "below the folder"),
        (case("a", cell="x\\y"), "below the folder"),
    ],
)
def test_a_case_that_cannot_fill_a_place_or_leaves_the_folder_is_named(made: Case, named: str) -> None:
    with pytest.raises(UserError, match=named):
        ByPattern("{meta[cell]}").check([made])


def test_a_format_that_does_not_fit_is_named() -> None:
    with pytest.raises(UserError, match=r"\{case_id:03d\} does not fit 'a' of case 'a'"):
        ByPattern("{case_id:03d}").check([case("a")])


def test_a_pattern_that_gives_two_cases_one_path_names_both() -> None:
    with pytest.raises(UserError, match=r"'x\.png' for 'a' and 'b'.*tells them apart"):
        ByPattern("{meta[n]}").check([case("a", n="x"), case("b", n="x")])


@given(st.text(min_size=1))
def test_a_path_that_is_taken_stays_below_its_folder(name: str) -> None:
    try:
        path = inside(name, "x")
    except UserError:
        return
    root = Path("/root/folder")
    assert (root / path).is_relative_to(root)
    assert ".." not in (root / path).parts


def test_unused_pictures_are_counted_and_come_with_the_nearest_case(tmp_path: Path) -> None:
    unused = [tmp_path / name for name in ("case_0.png", "a/x.png", "b.png", "c.png")]
    assert unused_text(tmp_path, unused, {"case-0.png": "case-0", "case-77.png": "case-77"}) == (
        f"4 pictures in {tmp_path} belong to no case: case_0.png (nearest case without a picture: 'case-0'), a/x.png, "
        "b.png, ..., and 2 that cases need are missing; check the names"
    )
