"""`gnomon rm compare` as a user types it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gnomon.cli import main
from rm.cli import evaluate

NAMES = ("plain", "thinking", "partial", "pairs")


def test_the_command_writes_table_and_page_and_may_be_run_again(
    evaluated: Path, about: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = about(
        "run,family,parameters,thinking\nplain,<b>Q</b>,8,off\nthinking,<b>Q</b>,8,on\npairs,<b>Q</b>,32,off\n"
    )
    out = tmp_path / "out"
    flags = ["rm", "compare", "--runs", *(str(evaluated / name) for name in NAMES)]
    flags += ["--out", str(out), "--about", str(path), "--against", "plain"]
    for _ in range(2):
        assert main(flags) == 0
    printed = capsys.readouterr().out
    assert "minus plain" in printed
    assert "thinking, plain to thinking: " in printed
    assert "partial, partial" in printed
    failures = [json.loads(line)["status"] for line in (evaluated / "plain/samples.jsonl").read_text().splitlines()]
    count = failures.count("parse_error")
    assert count > 0
    assert f"plain: failed {count} parse_error" in printed

    comparison = json.loads((out / "comparison.json").read_text())
    assert comparison["reference"] == "plain"
    with (out / "table.csv").open(newline="") as file:
        table = {row["run"]: row for row in csv.DictReader(file)}
    assert list(table) == [*NAMES, "always-first", "random", "majority"]
    assert (table["partial"]["partial"], table["partial"]["visual_quality"]) == ("True", "")
    assert table["plain"]["failures_by_status"] == f"{count} parse_error"
    for row in comparison["judges"]:
        micro = row["figures"]["failed_dropped"]["micro"]
        assert float(table[row["name"]]["average"]) == micro["value"]
        assert int(table[row["name"]]["average_n"]) == micro["n"]
        assert int(table[row["name"]]["failures"]) == row["figures"]["failures"]
        for name, found in row["figures"]["failed_wrong"]["dimensions"].items():
            assert float(table[row["name"]][f"{name}_failed_wrong"]) == found["value"]

    html = (out / "report.html").read_text()
    assert "<h1>4 judges on the same pairs</h1>" in html
    assert "<h2>Against plain</h2>" in html
    assert "What one change gains" in html
    assert f"{count} parse_error" in html.replace("<wbr>", "")
    assert html.count("<svg") == 2
    assert "<b>Q" not in html
    assert "&lt;b&gt;Q&lt;/b&gt;, thinking" in html
    assert "src=" not in html


def test_other_runs_need_another_folder(evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["rm", "compare", "--out", str(tmp_path / "out"), "--runs", str(evaluated / "plain")]
    assert main([*flags, str(evaluated / "thinking")]) == 0
    assert main([*flags, str(evaluated / "pairs")]) == 1
    assert "holds another run" in capsys.readouterr().err
    assert main(flags) == 1
    assert "at least two different run folders" in capsys.readouterr().err
    assert main(["rm", "compare", "--out", str(tmp_path / "out")]) == 2


def test_judges_that_failed_on_every_pair_have_a_page_too(
    comparisons: Path, evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = tmp_path / "silent.yaml"
    judge.write_text(
        "class_path: rm.protocols.rubric.RubricJudge\n"
        "init_args:\n  vlm: {class_path: rm.vlm.scripted.ScriptedVLM, init_args: {rule: always_yes}}\n"
    )
    evaluate(judge=str(judge), data=str(comparisons), out=str(tmp_path / "silent"))
    runs = [str(tmp_path / "silent"), str(evaluated / "plain")]
    assert main(["rm", "compare", "--out", str(tmp_path / "out"), "--runs", *runs]) == 0
    assert "silent, partial" in capsys.readouterr().out
    assert json.loads((tmp_path / "out/comparison.json").read_text())["reference"] == "plain"
