from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_build.cli import BUILDERS
from gnomon.cli import main
from gnomon.datasets import read_cases, read_comparisons, write_records


def run(*argv: object) -> int:
    return main([str(argument) for argument in argv])


def test_the_commands_do_not_need_torch_before_they_run(repository: Path) -> None:
    code = "import sys, data_build.cli; print({'torch', 'transformers', 'diffusers', 'numpy'} & {*sys.modules})"

    result = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)

    assert result.stdout == "set()\n"


def test_a_tabletop_folder_is_built_and_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "cases"

    assert run("data", "build", "tabletop", "--num", 4, "--seed", 3, "--split", "train", "--out", out) == 0
    assert run("data", "validate", out) == 0
    printed = capsys.readouterr().out
    assert f"4 cases in {out}" in printed
    assert f"{out}: valid" in printed
    assert len(read_cases(out)) == 4


def test_kinds_are_chosen_by_name(tmp_path: Path) -> None:
    argv = ("data", "build", "tabletop", "--num", "4", "--kinds", "[remove,transfer]", "--held-out-share", "0")

    assert run(*argv, "--out", tmp_path / "cases") == 0
    assert [case.task for case in read_cases(tmp_path / "cases")] == ["remove", "transfer"] * 2


def test_pairs_are_built_from_edits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    rows = [
        {"input": "0.png", "output": "1.png", "instruction": "a"},
        {"input": "0.png", "output": "2.png", "instruction": "b"},
        {"input": "0.png", "instruction": "c"},
    ]
    (tmp_path / "edits.json").write_text(json.dumps(rows))
    out = tmp_path / "pairs"

    assert run("data", "build", "pairs-from-edits", "--source", tmp_path / "edits.json", "--out", out) == 0
    assert "8 comparisons of 2 edits" in capsys.readouterr().out
    assert len(read_comparisons(out)) == 8


def test_preferences_are_sampled(
    random_editor: Path, tabletop_cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "num_candidates: 2\nwindow_size: 1\n"
        "generator:\n  class_path: rl.generator.DiffusersGenerator\n  init_args: {batch_size: 4, model: elsewhere}\n"
    )
    out = tmp_path / "preferences"

    code = run(
        *("data", "sample-preferences", "--config", config, "--cases", tabletop_cases, "--out", out),
        *("--generator.model", random_editor, "--limit", 3),
    )

    assert code == 0
    assert "3 comparisons of 3 cases" in capsys.readouterr().out
    assert len(read_comparisons(out)) == 3
    assert run("data", "validate", out) == 0


def test_pairs_are_proposed_and_pooled(
    random_editor: Path, tabletop_cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ("data", "sample-preferences", "--label", "none", "--cases", tabletop_cases, "--filters.noise_floor", 255)
    sampling = ("--num_candidates", 2, "--window_size", 1, "--limit", 2, "--generator.model", random_editor)

    for name in ("first", "second"):
        assert run(*argv, *sampling, "--seed", len(name), "--name", f"the {name}", "--out", tmp_path / name) == 0
    assert "2 pairs of 2 cases" in capsys.readouterr().out
    pools = f"[{tmp_path / 'first'},{tmp_path / 'second'}]"
    dimensions = ("--dimensions", "[visual_quality]", "--limit", 2)
    assert run(*argv, "--pool", pools, *dimensions, "--out", tmp_path / "pooled") == 0
    printed = capsys.readouterr().out
    assert "12 pairs of 2 cases" in printed
    assert "candidates: the first 4, the second 4" in printed
    assert run(*argv, "--pool", tmp_path / "first", "--limit", 2, "--out", tmp_path / "one") == 0
    assert "2 pairs of 2 cases" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--pool", "somewhere"), "--pool: only without the oracle"),
        (("--tasks", "[remove]", "--max_references", "1"), "--tasks, --max_references: only without the oracle"),
        ((), "got none; give its model"),
        (("--label", "none", "--tie_margin", "0.1"), "only with the oracle"),
        (("--label", "none"), "a generator or a pool"),
        (("--label", "none", "--pool", "nowhere"), "as a pool, got nowhere"),
    ],
)
def test_what_does_not_go_together_is_named(
    argv: tuple[str, ...], message: str, tabletop_cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("data", "sample-preferences", "--cases", tabletop_cases, "--out", tmp_path / "out", *argv) == 1
    assert message in capsys.readouterr().err


def test_builders_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data", "list") == 0
    listed = capsys.readouterr().out
    assert run("data", "build", "--help") == 0
    help_text = capsys.readouterr().out

    for name in BUILDERS:
        assert name in listed
        assert name in help_text


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "subcommand"),
        (["tabeltop"], "'tabeltop' (choose from"),
        (["tabletop", "--num", "3"], "out"),
        (["tabletop", "--num", "3", "--out", "x", "--sed", "1"], "--sed"),
        (["tabletop", "--num", "none", "--out", "x"], "num"),
        (["tabletop", "--num", "3", "--out", "x", "--split", "training"], "split"),
    ],
)
def test_a_wrong_command_line_is_named(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data", "build", *argv) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_key_in_a_config_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text("num: 3\nkindz: [add]\n")

    code = run("data", "build", "tabletop", "--config", tmp_path / "config.yaml", "--out", tmp_path / "out")

    assert code == 2
    assert "kindz" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_only_models_that_ship_can_be_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data", "train-tabletop", "oracle", "--out", tmp_path / "out") == 2
    assert "oracle" in capsys.readouterr().err


def test_the_oracle_judges_and_monitors_by_class_path(tabletop_cases: Path, tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    for case in read_cases(tabletop_cases):
        shutil.copy(tabletop_cases / case.references[0].path, tmp_path / "outputs" / f"{case.id}.png")
    folder = ("--generator.class_path", "bench.generators.FolderGenerator", "--generator.folder", tmp_path / "outputs")
    judge = ("--judge.class_path", "data_build.tabletop.judging.OracleJudge")

    assert run("bench", "generate", "--cases", tabletop_cases, "--out", tmp_path / "run", "--name", "x", *folder) == 0
    assert run("bench", "judge", "--run", tmp_path / "run", *judge) == 0
    assert run("bench", "summarize", "--run", tmp_path / "run") == 0


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    run("data", "build", "tabletop", "--num", 3, "--out", tmp_path / "cases")
    return tmp_path / "cases"


def test_validate_names_everything_that_is_wrong(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, third = read_cases(cases)
    (cases / second.references[0].path).unlink()
    outside = first.references[0].model_copy(update={"path": "../secret.png"})
    write_records(
        cases / "cases.jsonl",
        [first, first, second, third.model_copy(update={"references": [outside]}), {"id": "broken", "bench": "?"}],
    )

    assert run("data", "validate", cases) == 1
    printed = capsys.readouterr().out

    for part in (
        f"{cases}/cases.jsonl:2: duplicate id 'tabletop-test-000000', first used on line 1",
        f"{cases}/cases.jsonl:3: missing picture 'images/tabletop-test-000001_source.png'",
        f"{cases}/cases.jsonl:4: the path '../secret.png' leaves the dataset folder",
        f"{cases}/cases.jsonl:5: missing key 'benchmark'",
        "unknown key 'bench'",
    ):
        assert part in printed


def test_validate_wants_a_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data", "validate", tmp_path) == 1
    assert "expected a dataset folder with cases.jsonl or comparisons.jsonl" in capsys.readouterr().err


def test_a_folder_of_another_run_and_one_in_use_are_refused(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = ("data", "build", "tabletop", "--out", cases, "--num")
    before = (cases / "cases.jsonl").read_bytes()

    assert run(*build, 4) == 1
    assert "config.num: 3 -> 4. Choose another --out" in capsys.readouterr().err
    descriptor = os.open(cases / ".lock", os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert run(*build, 3) == 1
    finally:
        os.close(descriptor)
    assert "in use by process" in capsys.readouterr().err
    assert (cases / "cases.jsonl").read_bytes() == before


def test_a_folder_with_other_files_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    assert run("data", "build", "tabletop", "--num", 3, "--out", tmp_path) == 1
    assert "holds notes.txt" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_generator_that_is_not_there_is_named(
    tabletop_cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ("data", "sample-preferences", "--cases", tabletop_cases, "--out", tmp_path / "out")

    assert run(*argv, "--generator.model", tmp_path / "nothing") == 1
    assert str(tmp_path / "nothing") in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
