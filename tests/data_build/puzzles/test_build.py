from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bench.editcompass.cases import category_of
from data_build.puzzles.build import build_puzzles, make_puzzle
from data_build.puzzles.optimal_path import OptimalPath
from data_build.puzzles.table import PUZZLES
from data_build.puzzles.verify import verify
from gnomon.cli import main
from gnomon.datasets import read_cases, resolve, validate
from gnomon.errors import UserError
from gnomon.images import load_image

TINY: dict[str, Any] = {"num": 2, "seed": 0, "resolution": 128}


def files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix in (".png", ".jsonl", ".md")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_a_folder_of_every_puzzle_is_a_valid_dataset_whose_targets_verify(tmp_path: Path) -> None:
    cases = build_puzzles(tmp_path / "out", tasks=list(PUZZLES), num=2, seed=0, resolution=512)

    report = validate(tmp_path / "out")
    assert report.ok
    assert report.tasks == dict.fromkeys(PUZZLES, 2)
    assert read_cases(tmp_path / "out") == cases
    for case in cases:
        assert category_of(case) == "algorithmic_visual_reasoning"
        source = load_image(resolve(tmp_path / "out", case.references[0].path))
        target = load_image(resolve(tmp_path / "out", case.meta["target"]))
        assert verify(case, source, target).value == "correct"
        assert verify(case, source, source).value == "invalid"
        assert case.hints["outcome"]


def test_the_same_seed_gives_the_same_bytes_and_more_cases_begin_with_the_fewer(tmp_path: Path) -> None:
    for name, num in (("first", 2), ("second", 2), ("more", 3)):
        build_puzzles(tmp_path / name, tasks=["optimal_path"], num=num, seed=0, resolution=128)
    build_puzzles(tmp_path / "other", tasks=["optimal_path"], num=2, seed=1, resolution=128)

    assert files(tmp_path / "first") == files(tmp_path / "second")
    assert read_cases(tmp_path / "more")[:2] == read_cases(tmp_path / "first")
    assert files(tmp_path / "first") != files(tmp_path / "other")


def test_splits_are_drawn_independently(tmp_path: Path) -> None:
    for split in ("train", "test"):
        build_puzzles(tmp_path / split, tasks=["maximum_bonus"], split=split, **TINY)

    assert validate(tmp_path / "test", against=tmp_path / "train").ok


def test_a_finished_folder_gets_its_lost_pictures_back(tmp_path: Path) -> None:
    build_puzzles(tmp_path / "out", tasks=["maximum_bonus"], **TINY)
    before = files(tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "targets")

    build_puzzles(tmp_path / "out", tasks=["maximum_bonus"], **TINY)

    assert files(tmp_path / "out") == before


def test_a_kill_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; from gnomon.cli import main; sys.exit(main())"]
    command += ["data", "build", "avr", "--task", "maximum_submatrix", "--num", "40", "--out", str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while len(list((tmp_path / "out").glob("targets/*.png"))) < 3:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert len(list((tmp_path / "out").glob("targets/*.png"))) < 40

    build_puzzles(tmp_path / "out", tasks=["maximum_submatrix"], num=40, seed=0)
    build_puzzles(tmp_path / "whole", tasks=["maximum_submatrix"], num=40, seed=0)

    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_settings_are_those_of_the_paper_unless_given(tmp_path: Path) -> None:
    settings = {"optimal_path": {"sizes": [4, 4], "least_distance": 3}}
    cases = build_puzzles(tmp_path / "out", tasks=["optimal_path"], settings=settings, **TINY)

    assert {len(case.meta["puzzle"]["kinds"]) for case in cases} == {4}
    recorded = json.loads((tmp_path / "out/manifest.json").read_text())["config"]["settings"]["optimal_path"]
    assert recorded["sizes"] == [4, 4]
    assert recorded["shares"] == OptimalPath().shares


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tasks": ["sudoku"]}, "expected tasks out of .*optimal_path.*, got sudoku"),
        ({"tasks": []}, "got none"),
        ({"tasks": ["optimal_path", "optimal_path"]}, "every task once"),
        ({"num": 0}, "num >= 1, got 0"),
        ({"resolution": 101}, "even resolution of at least 32 pixels, got 101"),
        ({"resolution": 16}, "even resolution"),
        ({"settings": {"sudoku": {}}}, "got sudoku"),
        ({"settings": {"optimal_path": {"size": 3}}}, "settings of optimal_path out of sizes, shares.*, got size"),
        ({"settings": {"optimal_path": {"sizes": "x"}}}, "setting sizes of optimal_path: .*got 'x'"),
    ],
)
def test_wrong_arguments_are_named_and_leave_no_folder(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        build_puzzles(tmp_path / "out", **{"tasks": ["optimal_path"], **TINY, **arguments})

    assert not (tmp_path / "out").exists()


def test_settings_that_admit_no_puzzle_are_named_and_may_be_mended_in_the_same_folder(tmp_path: Path) -> None:
    impossible = {"optimal_path": {"sizes": [2, 2], "least_distance": 9}}
    with pytest.raises(UserError, match=r"settings of optimal_path that admit 2 .*widen OptimalPath\(sizes=\(2, 2\)"):
        build_puzzles(tmp_path / "out", tasks=["optimal_path"], settings=impossible, **TINY)

    build_puzzles(tmp_path / "out", tasks=["optimal_path"], **TINY)


def test_settings_that_admit_few_puzzles_say_how_many(tmp_path: Path) -> None:
    few = {"optimal_path": {"sizes": [2, 2], "least_distance": 2, "shares": {"road": 1, "wall": 1}}}
    with pytest.raises(UserError, match="admit 40 different puzzles, found 8"):
        build_puzzles(tmp_path / "out", tasks=["optimal_path"], num=40, seed=0, settings=few)


def test_numbers_are_taken_as_yaml_writes_them() -> None:
    puzzle = make_puzzle("optimal_path", {"sizes": [3, 5]})

    assert puzzle == OptimalPath(sizes=(3, 5))


def test_the_command_builds_all_and_verifies_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert main(["data", "build", "avr", "--task", "[optimal_path,maximum_bonus]", "--num", "2", "--out", out]) == 0
    (tmp_path / "out/targets/optimal_path-test-000001.png").unlink()
    (tmp_path / "out/targets/maximum_bonus-test-000001.png").write_bytes(b"\x89PNG but no more")
    lines = tmp_path / "verified.jsonl"

    arguments = ["--cases", out, "--images", f"{out}/targets", "--out", str(lines)]
    assert main(["data", "verify", *arguments]) == 0

    found = {line["id"]: line for line in map(json.loads, lines.read_text().splitlines())}
    assert {name: line["value"] for name, line in found.items()} == {
        "optimal_path-test-000000": "correct",
        "optimal_path-test-000001": "unreadable",
        "maximum_bonus-test-000000": "correct",
        "maximum_bonus-test-000001": "unreadable",
    }
    assert "found none" in found["optimal_path-test-000001"]["reason"]
    assert "maximum_bonus-test-000001.png" in found["maximum_bonus-test-000001"]["reason"]
    assert "correct: 0.500 (95 % interval 0.000 to 1.000), n = 4" in capsys.readouterr().out
