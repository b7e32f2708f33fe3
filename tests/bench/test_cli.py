"""The commands through the real command line, with generators and judges by class path."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

from gnomon.cli import main
from gnomon.images import save_png


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """Return a folder of two pictures that somebody's model made."""
    for position in range(2):
        save_png(Image.new("RGB", (16, 16), "white"), tmp_path / f"outputs/case-{position}.png")
    return tmp_path / "outputs"


def generate_flags(root: Path, outputs: Path, run: Path) -> list[str]:
    flags = ["bench", "generate", "--cases", str(root), "--out", str(run), "--name", "mine"]
    return [*flags, "--generator.class_path", "bench.generators.FolderGenerator", "--generator.folder", str(outputs)]


def judge_flags(run: Path) -> list[str]:
    return ["bench", "judge", "--run", str(run), "--judge.class_path", "brightness.BrightnessJudge"]


def test_list_names_the_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "list"]) == 0
    assert "tabletop" in capsys.readouterr().out


def test_all_steps_from_the_command_line(
    make_dataset: Callable[..., Path],
    brightness: ModuleType,
    outputs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, run, other = make_dataset(3), tmp_path / "run", tmp_path / "other"
    assert main(generate_flags(root, outputs, run)) == 0
    assert "3 candidates of 3 cases" in capsys.readouterr().out
    assert main([*judge_flags(run), "--judge.init_args.name", "bright"]) == 0
    assert "by bright: 6 verdicts, 2 failed (2 missing_output); `gnomon bench summarize" in capsys.readouterr().out
    assert main(["bench", "summarize", "--run", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "1 missing_output" in printed
    assert "2 of 3" in printed
    assert main(["bench", "report", "--run", str(run)]) == 0
    assert "<h1>mine on grey</h1>" in (run / "report.html").read_text()

    generator = ["--generator.class_path", "brightness.NoisyCopy", "--generator.offset", "9"]
    assert main(["bench", "generate", "--cases", str(root), "--out", str(other), "--name", "copy", *generator]) == 0
    assert main([*judge_flags(other), "--judge.init_args.name", "bright"]) == 0
    compared = ["--before", str(other), "--after", str(run), "--out", str(tmp_path / "compared")]
    for _ in range(2):
        assert main(["bench", "compare", *compared]) == 0
    assert json.loads((tmp_path / "compared/comparison.json").read_text())["after"] == "mine"
    assert (tmp_path / "compared/report.html").exists()

    several = ["bench", "report", "--run", str(run), str(other), "--num-examples", "2"]
    assert main(several) == 1
    assert "expected --out DIR" in capsys.readouterr().err
    assert main([*several, "--out", str(tmp_path / "board"), "--metrics", "redness", "brightness"]) == 0
    assert "<h1>2 runs on grey</h1>" in (tmp_path / "board/report.html").read_text()


def test_a_run_in_which_everything_failed_is_an_error_that_says_why(
    make_dataset: Callable[..., Path],
    brightness: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, run, outputs = make_dataset(3), tmp_path / "run", tmp_path / "outputs"
    outputs.mkdir()
    (outputs / "case-0.png").write_bytes(b"no picture")
    assert main(generate_flags(root, outputs, run)) == 1
    captured = capsys.readouterr()
    assert "3 candidates of 3 cases" in captured.out
    assert "error: all 3 candidates failed, 2 of them with missing_output: no file case-1.png" in captured.err
    assert main(judge_flags(run)) == 1
    captured = capsys.readouterr()
    assert "6 verdicts, 6 failed" in captured.out
    assert "error: all 6 verdicts failed, 4 of them with missing_output: no file case-1.png" in captured.err

    save_png(Image.new("RGB", (16, 16), "white"), outputs / "case-2.png")
    assert main(generate_flags(root, outputs, run)) == 0
    assert "2 failed" in capsys.readouterr().out
    assert main(judge_flags(run)) == 0
    assert "6 verdicts, 4 failed" in capsys.readouterr().out


def test_fail_on_error_ends_a_step_with_an_error_after_all_is_written(
    make_dataset: Callable[..., Path],
    brightness: ModuleType,
    outputs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, run = make_dataset(3), tmp_path / "run"
    for extra, code in (["--fail-on-error", "true"], 1), (["--fail-on-error=0.5"], 0), (["--fail-on-error", "2"], 0):
        assert main([*generate_flags(root, outputs, run), *extra]) == code
        assert "3 candidates of 3 cases in" in capsys.readouterr().out
    assert len((run / "candidates.jsonl").read_text().splitlines()) == 3
    for extra, code in (["--fail-on-error", "true"], 1), (["--fail-on-error=0.2"], 1), (["--fail-on-error", "3"], 0):
        assert main([*judge_flags(run), *extra]) == code
        captured = capsys.readouterr()
        assert "6 verdicts, 2 failed" in captured.out
        assert ("2 of 6 verdicts failed" in captured.err) == bool(code)
    assert len((run / "samples.jsonl").read_text().splitlines()) == 6
    assert json.loads((run / "manifest.json").read_text())["status"] == "finished"
    assert main([*judge_flags(run), "--fail-on-error", "-1"]) == 2
    assert "fail_on_error" in capsys.readouterr().err


def test_a_config_file_with_overrides(
    make_dataset: Callable[..., Path], brightness: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, config, run = make_dataset(4), tmp_path / "generate.yaml", tmp_path / "run"
    config.write_text(
        f"cases: {root}\nout: {run}\nname: copy\ngenerator:\n  class_path: brightness.NoisyCopy\n"
        "  init_args:\n    offset: 3\n"
    )
    assert main(["bench", "generate", "--config", str(config), "--limit", "2"]) == 0
    assert "2 candidates of 2 cases" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        (["--generator.foldr", "x"], "foldr"),
        (["--repeat", "3"], "--repeat"),
        (["--limit", "0"], "limit"),
        (["--generator.class_path", "bench.generators.Nothing"], "Nothing"),
        (["--generator.class_path", "brightness.BrightnessJudge"], "BrightnessJudge"),
    ],
)
def test_a_wrong_flag_is_an_error_that_names_it(
    make_dataset: Callable[..., Path],
    brightness: ModuleType,
    outputs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    extra: list[str],
    named: str,
) -> None:
    assert main([*generate_flags(make_dataset(2), outputs, tmp_path / "run"), *extra]) == 2
    assert named in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_an_unknown_key_in_a_config_is_an_error_that_names_it(
    make_dataset: Callable[..., Path],
    brightness: ModuleType,
    outputs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = tmp_path / "judge.yaml"
    config.write_text("judge:\n  class_path: brightness.BrightnessJudge\n  init_args:\n    temperature: 1\n")
    assert main(["bench", "judge", "--run", str(tmp_path), "--config", str(config)]) == 2
    assert "temperature" in capsys.readouterr().err


def test_a_class_that_is_no_judge_is_refused(
    brightness: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "judge", "--run", str(tmp_path), "--judge.class_path", "brightness.NoisyCopy"]) == 2
    assert "NoisyCopy" in capsys.readouterr().err


def test_a_folder_without_a_run_is_a_message_and_exit_code_one(
    brightness: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(judge_flags(tmp_path / "nowhere")) == 1
    assert "expected a run of `gnomon bench generate`" in capsys.readouterr().err
