from __future__ import annotations

import json
from pathlib import Path

import pytest

from data_build.editcompass.photos import Photo
from data_build.editcompass.proposals import Proposal
from gnomon.cli import main
from gnomon.datasets import read_cases
from gnomon.images import save_png
from gnomon.jsonl import read_records, write_records
from tests.data_build.editcompass.test_reviews import review
from tests.data_build.editcompass.writers import noise

WRITER = "tests.data_build.editcompass.writers.Writer"


def run(*argv: object) -> int:
    return main([str(argument) for argument in argv])


def test_from_photographs_to_cases(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (photos / "broken.png").write_bytes(b"no picture")
    vlms = [{"class_path": WRITER, "init_args": {"name": name}} for name in ("one", "two")]
    (tmp_path / "models.yaml").write_text(json.dumps(vlms))
    proposed, out = tmp_path / "proposed", tmp_path / "cases"
    argv = ("data", "propose-edits", "--photos", photos, "--tasks", "add,remove", "--vlms", tmp_path / "models.yaml")

    assert run(*argv, "--out", proposed) == 0
    printed = capsys.readouterr().out
    assert f"36 instructions for 3 photographs in {proposed}, 36 asked for" in printed
    assert "  two: ok 18" in printed
    assert f"files left out: unreadable_image 1; see {proposed}/problems.jsonl" in printed

    first = read_records(proposed / "photos.jsonl", Photo)[0].id
    proposal = read_records(proposed / "proposals.jsonl", Proposal)[0]
    write_records(tmp_path / "reviews.jsonl", [review(first, name) for name in ("ann", "bob")])
    write_records(tmp_path / "selections.jsonl", [{"item": first, "task": "add", "proposal": proposal.id, "by": "ann"}])
    merge = [
        *("data", "merge-reviews", "--items", proposed, "--reviews", tmp_path / "reviews.jsonl"),
        *("--selections", tmp_path / "selections.jsonl", "--num-reviewers"),
    ]
    assert run(*merge, 2, "--out", out) == 0
    printed = capsys.readouterr().out
    assert f"1 cases in {out}, of 3 items: too_few_reviews 4, approved 1, no_selection 1" in printed
    assert [case.instruction for case in read_cases(out)] == [proposal.instruction]
    assert run("data", "validate", out) == 0

    assert run(*merge, 5, "--out", tmp_path / "none") == 1
    assert "no case is left: too_few_reviews 6; see" in capsys.readouterr().err


def test_from_scenarios_to_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    instruction = {"en": "Let it fall.", "zh": "让它掉下来。"}
    lines = [
        {"id": name, "task": task, "description": "a vase", "instruction": instruction}
        for name, task in (("vase", "causal"), ("jar", "casual"))
    ]
    write_records(tmp_path / "scenarios.jsonl", lines)
    save_png(noise(0), tmp_path / "pictures" / "vase.png")
    argv = [
        *("data", "refine-scenarios", "--scenarios", tmp_path / "scenarios.jsonl", "--vlm", WRITER),
        *("--generator", "bench.generators.FolderGenerator", "--generator.folder", tmp_path / "pictures"),
    ]

    assert run(*argv, "--out", tmp_path / "out") == 0
    printed = capsys.readouterr().out
    assert f"1 cases of 1 scenarios in {tmp_path}/out, to be reviewed" in printed
    assert "prompts: ok 1\n  sources: ok 1\nlines left out: 1; see" in printed

    (tmp_path / "pictures" / "vase.png").write_bytes(b"no picture")
    assert run(*argv, "--out", tmp_path / "failed") == 1
    assert "no scenario got all its pictures: prompts ok 1; sources unreadable_image 1" in capsys.readouterr().err


def test_a_model_that_writes_nothing_is_an_error_with_counts(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vlms = json.dumps([{"class_path": "rm.vlm.scripted.ScriptedVLM", "init_args": {"rule": "always_yes"}}])

    code = run("data", "propose-edits", "--photos", photos, "--tasks", "add", "--vlms", vlms, "--out", tmp_path / "out")

    assert code == 1
    assert "no model wrote an instruction that can be read: parse_error 9" in capsys.readouterr().err
