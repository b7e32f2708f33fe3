"""Which evaluations may stand in one table, and what a file may say about them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.judges.runs import About, read_about, read_runs
from gnomon.errors import UserError
from rm.cli import evaluate


def test_runs_are_read_with_what_their_judges_lack(evaluated: Path) -> None:
    runs = read_runs([evaluated / "plain", evaluated / "partial"])
    assert [run.label for run in runs] == ["plain", "partial"]
    assert [run.missing for run in runs] == [(), ("visual_quality",)]
    assert [len(run.samples) for run in runs] == [24, 16]


def test_runs_of_one_name_are_told_apart_by_their_paths(evaluated: Path, tmp_path: Path) -> None:
    other = shutil.copytree(evaluated / "thinking", tmp_path / "plain")
    assert [run.label for run in read_runs([evaluated / "plain", other])] == [str(evaluated / "plain"), str(other)]


def test_what_cannot_be_compared_is_refused(evaluated: Path, comparisons: Path, tmp_path: Path) -> None:
    for paths in ([], ["plain"], ["plain", "plain"], ["plain", "partial", "plain"]):
        with pytest.raises(UserError, match="at least two different run folders"):
            read_runs([evaluated / path for path in paths])
    with pytest.raises(UserError, match=r"run folder of `gnomon rm eval` at .*comparisons"):
        read_runs([evaluated / "plain", comparisons])
    evaluate(judge="random", data=str(comparisons), out=str(tmp_path / "fewer"), limit=10)
    with pytest.raises(UserError, match="same --data and --limit"):
        read_runs([evaluated / "plain", tmp_path / "fewer"])
    killed = shutil.copytree(evaluated / "thinking", tmp_path / "killed")
    manifest = (killed / "manifest.json").read_text()
    (killed / "manifest.json").write_text(manifest.replace('"finished"', '"interrupted"'))
    with pytest.raises(UserError, match=r"not finished \(interrupted\)"):
        read_runs([evaluated / "plain", killed])


def test_a_file_says_what_it_knows(about: Callable[[str], Path]) -> None:
    path = about("run,family,parameters,thinking\na,Qwen,8,off\nb,,,on\n")
    assert read_about(path, ["a", "b", "c"]) == [
        About(run="a", family="Qwen", parameters=8, thinking="off"),
        About(run="b", thinking="on"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,family\na,Qwen\n", "expected the columns run"),
        ("run,size\na,8\n", "got run, size"),
        ("run,thinking\na,yes\n", r"about.csv:2: thinking: .*'on' or 'off'.*got 'yes'"),
        ("run,parameters\na,8B\n", r"about.csv:2: parameters: .*got '8B'"),
        ("run,parameters\na,-8\n", r"about.csv:2: parameters: .*greater than 0"),
        ("run\na\nd\n", r"about.csv:3: run 'd' is none of the runs \(a, b\)"),
        ("run\na\na\n", r"about.csv:3: run 'a' comes twice"),
        ("run,family\na,b,c\n", "about.csv:2: expected 2 cells, got 3"),
        ("", "expected the columns run"),
    ],
)
def test_what_a_file_gets_wrong_is_named(about: Callable[[str], Path], text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_about(about(text), ["a", "b"])


def test_a_missing_file_is_the_users_problem(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected a CSV file"):
        read_about(tmp_path / "none.csv", ["a"])
