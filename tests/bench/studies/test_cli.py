"""`gnomon bench study NAME`: every study over real folders, from the command line to its file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from bench.studies.cli import STUDIES
from bench.workflow import judge
from gnomon.cli import main
from gnomon.hashing import stable_seed
from rm.judge import JudgeRequest
from rm.protocols.controls import ConstantJudge

Study = Callable[..., Any]


@pytest.fixture(scope="module")
def runs(checklist_runs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return copies of the runs that a second judge of questions and a control judged as well."""
    checklists, folder = import_module("checklists"), tmp_path_factory.mktemp("studied")

    def other(request: JudgeRequest) -> Any:
        flipped = stable_seed("other", request.case.id, request.candidate.seed, request.metric) % 10 == 0
        seen = checklists.seen(request)
        return (not seen) if flipped and isinstance(seen, bool) else seen

    copies = []
    for run in checklist_runs:
        copies.append(Path(shutil.copytree(run, folder / run.name)))
        for one in (checklists.RuleJudge("second", other), ConstantJudge()):
            judge(copies[-1], one)
    return copies


@pytest.fixture
def study(runs: list[Path], tmp_path: Path) -> Study:
    """Return a function that runs a study and returns what it wrote."""

    def run(name: str, *flags: str) -> Any:
        out = tmp_path / f"{name}.json"
        paths = ["--runs", *map(str, runs), "--out", str(out)]
        assert main(["bench", "study", name, *paths, "--num-resamples", "50", *flags]) == 0
        return json.loads(out.read_text(encoding="utf-8"))

    return run


def test_judges_are_compared_and_those_that_do_not_look_left_out(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    found = study("judge-agreement")["result"]["checklist"]
    assert found["judges"] == ["rules", "second"]
    assert 0.6 < found["decisions"]["alpha"]["value"] < 0.95
    assert set(found["metrics"]) == {"following", "consistency", "composition", "minimality", "quality", "overall"}
    assert found["failed"]["rules"]["refused"] > 0
    printed = capsys.readouterr().out
    assert "checklist: rules, second" in printed
    assert "rules: without an answer" in printed


def test_models_are_reranked_with_controls_beside(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    found = study("reranking")["result"]
    assert found["models"] == ["plain <b>copy</b>", "bright"]
    assert {name: order["metric"] for name, order in found["orders"].items()} == {
        "always-yes": "overall",
        "rules": "overall",
        "second": "overall",
    }
    assert found["orders"]["rules"]["ranks"] == [1, 2]
    assert found["orders"]["always-yes"]["means"][0] == found["orders"]["always-yes"]["means"][1]
    pairs = [(one["first"], one["second"]) for one in found["agreements"]]
    assert pairs == [("always-yes", "rules"), ("always-yes", "second"), ("rules", "second")]
    assert found["agreements"][0]["correlations"]["spearman"]["reason"] == "one rater's means of all systems are equal"
    assert found["agreements"][2]["correlations"]["spearman"]["value"] == 1
    assert "cases that every judge has a score of in every run" in capsys.readouterr().out
    alone = study("reranking", "--judges", "rules", "second", "--metric", "minimality", "--tasks", "entity_fusion")
    assert (alone["tasks"], alone["result"]["orders"]["rules"]["metric"]) == (["entity_fusion"], "minimality")


def test_seeds_are_repeats(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    found = study("repeats", "--metrics", "overall", "--judges", "rules")["result"]["rules"]
    one = found["bright"]["metrics"]["overall"]
    assert len(one["means"]) == 2
    assert one["sample_std"] == pytest.approx(abs(one["means"][0] - one["means"][1]) / 2**0.5)
    assert one["num_left_out"] >= 1, "a case without a picture"
    assert "sample std" in capsys.readouterr().out


def test_numbers_and_origins_of_references(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    counts = study("reference-count", "--metrics", "overall", "composition")["result"]["rules"]
    assert set(counts) == {"plain <b>copy</b>", "bright", "mean of all"}
    assert list(counts["bright"]["overall"]["points"]) == ["1", "2", "3"]
    assert "most minus fewest" in capsys.readouterr().out
    origins = study("reference-origin", "--judges", "rules")["result"]["rules"]
    assert origins["num_pairs"] == 9
    assert list(origins["gaps"]["overall"]) == ["plain <b>copy</b> minus bright"]
    assert next(iter(origins["models"])) == "overall"
    assert "synthetic" in capsys.readouterr().out


def test_what_cannot_be_studied_is_said(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "out.json")]
    for flags, message in (
        (["reranking", "--runs", str(runs[0]), *out], "expected two judges and two runs at least"),
        (["repeats", "--runs", str(runs[0]), *out, "--metrics", "beauty"], "expected --metric out of those"),
        (["repeats", "--runs", str(runs[0]), str(runs[0]), *out], "expected each run once"),
        (["repeats", "--runs", str(runs[0]), *out, "--tasks", "poetry"], "no case has the task 'poetry'"),
        (["repeats", "--runs", str(tmp_path), *out], "expected a run of `gnomon bench generate`"),
    ):
        assert main(["bench", "study", *flags]) == 1
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "study", name, "--help"]) == 0
    assert "--runs" in capsys.readouterr().out
