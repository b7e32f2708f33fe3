from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from data_build.tabletop.cases import ALL_KINDS, build_cases, draw_cases
from data_build.tabletop.judging import score_case
from data_build.tabletop.world import Scene
from gnomon.datasets import dataset_hash, read_cases, resolve, validate
from gnomon.errors import UserError
from gnomon.images import load_image
from gnomon.records import Case, Split
from gnomon.runs import read_manifest


def files(folder: Path) -> dict[str, bytes]:
    """Everything that a user of the dataset reads."""
    paths = [folder / "cases.jsonl", folder / "README.md", *sorted((folder / "images").iterdir())]
    return {path.name: path.read_bytes() for path in paths}


def test_the_folder_is_a_valid_dataset_with_all_kinds_in_turn(tabletop_cases: Path) -> None:
    report = validate(tabletop_cases)

    assert report.ok
    assert report.tasks == dict.fromkeys(ALL_KINDS, 1)
    assert report.splits == {"test": 11}
    assert report.num_pictures == 12  # `transfer` has two
    assert [case.id for case in read_cases(tabletop_cases)][-1] == "tabletop-test-000010"
    assert "disjoint" in (tabletop_cases / "README.md").read_text()


def test_a_case_says_what_is_asked_and_what_the_outcome_is(tabletop_cases: Path) -> None:
    for case in read_cases(tabletop_cases):
        source = load_image(resolve(tabletop_cases, case.references[0].path))
        assert case.references[0].role == "source"
        assert case.metrics == ["instruction", "consistency", "quality"]
        assert case.instruction.en
        assert case.instruction.zh
        assert case.meta["edit"]["kind"] == case.task
        assert set(case.meta) >= {"scene", "target", "edit", "held_out", "combination"}
        scores = score_case(case, source)
        assert scores["success"] == 0
        assert scores["consistency"] == 1


def test_a_transfer_shows_the_colour_in_another_shape_of_a_second_picture(tmp_path: Path) -> None:
    for case in build_cases(tmp_path / "out", num=20, seed=0, split="train", kinds=["transfer"]):
        assert [reference.role for reference in case.references] == ["source", "element"]
        element = Scene.from_dict(case.meta["element"])
        (shape,) = element.shapes
        assert shape.colour == case.meta["edit"]["value"]
        assert shape.kind != case.meta["edit"]["subject"]["kind"]


def test_no_case_comes_twice() -> None:
    drawn = list(draw_cases(300, seed=0, split="train", kinds=["background"], held_out_share=0))

    assert len({json.dumps([item.scene.to_dict(), item.edit.to_dict()]) for item in drawn}) == 300


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (0.25, 2), (0.5, 4), (1.0, 8)])
def test_the_held_out_share_is_exact_for_every_kind(share: float, expected: int, tmp_path: Path) -> None:
    kinds = ["remove", "background", "swap"]
    cases = build_cases(tmp_path / "out", num=24, seed=0, split="test", kinds=kinds, held_out_share=share)

    assert Counter(case.task for case in cases if case.meta["held_out"]) == Counter(
        {kind: expected for kind in kinds if expected}
    )


@pytest.mark.parametrize("split", ["train", "validation"])
def test_other_splits_hold_no_held_out_combination(split: Split, tmp_path: Path) -> None:
    cases = build_cases(tmp_path / "out", num=33, seed=0, split=split)

    assert {case.split for case in cases} == {split}
    assert not any(case.meta["held_out"] for case in cases)


def test_splits_share_no_scene_with_an_edit(tmp_path: Path) -> None:
    def keys(cases: list[Case]) -> set[str]:
        return {json.dumps([case.meta["scene"], case.meta["edit"]]) for case in cases}

    splits: tuple[Split, ...] = ("train", "validation", "test")
    train, validation, test = (keys(build_cases(tmp_path / split, num=110, seed=0, split=split)) for split in splits)

    assert not (train & validation | train & test | validation & test)


def test_a_larger_folder_begins_with_the_smaller_one(tmp_path: Path) -> None:
    small = build_cases(tmp_path / "small", num=12, seed=5, split="test")
    large = build_cases(tmp_path / "large", num=30, seed=5, split="test")

    assert large[:12] == small


def test_another_seed_gives_other_cases(tmp_path: Path) -> None:
    first = build_cases(tmp_path / "first", num=11, seed=0, split="test")
    second = build_cases(tmp_path / "second", num=11, seed=1, split="test")

    assert all(a.meta["scene"] != b.meta["scene"] for a, b in zip(first, second, strict=True))


def test_pictures_have_the_wanted_resolution(tmp_path: Path) -> None:
    (case,) = build_cases(tmp_path / "out", num=1, seed=0, split="test", resolution=128)

    assert load_image(tmp_path / "out" / case.references[0].path).size == (128, 128)


def test_killed_and_run_again_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    code = (
        "from data_build.tabletop.cases import build_cases\n"
        f"build_cases({str(killed)!r}, num=800, seed=3, split='test')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3])
    deadline = time.monotonic() + 60
    while not list(killed.glob("images/*_source.png"))[20:]:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    manifest = read_manifest(killed)
    assert manifest is not None
    assert manifest.status == "running"
    assert not (killed / "cases.jsonl").exists()

    build_cases(killed, num=800, seed=3, split="test")
    build_cases(whole, num=800, seed=3, split="test")

    assert files(killed) == files(whole)
    assert not list(killed.rglob("*.gnomon-tmp"))


def test_run_again_nothing_changes(tmp_path: Path) -> None:
    build_cases(tmp_path / "out", num=5, seed=0, split="test")
    before = dataset_hash(tmp_path / "out")

    build_cases(tmp_path / "out", num=5, seed=0, split="test")

    assert dataset_hash(tmp_path / "out") == before


def test_a_folder_of_another_run_is_refused_with_the_keys_that_differ(tmp_path: Path) -> None:
    build_cases(tmp_path / "out", num=5, seed=0, split="test")

    with pytest.raises(UserError, match=r"config\.num: 5 -> 6; seed: 0 -> 1"):
        build_cases(tmp_path / "out", num=6, seed=1, split="test")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kinds": ["remov"]}, "expected kinds of edits out of add, .*, got remov"),
        ({"kinds": []}, "got none"),
        ({"kinds": ["add", "add"]}, "every kind of edit once"),
        ({"num": 0}, "expected num >= 1, got 0"),
        ({"resolution": 8}, "at least 64 pixels, .* got 8"),
        ({"held_out_share": 1.5}, r"in 0\.\.1, got 1\.5"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(
    arguments: dict[str, object], message: str, tmp_path: Path
) -> None:
    settings: dict[str, object] = {"num": 3, "seed": 0, "split": "test", **arguments}
    with pytest.raises(UserError, match=message):
        build_cases(tmp_path / "out", **settings)  # type: ignore[arg-type]

    assert not (tmp_path / "out").exists()
