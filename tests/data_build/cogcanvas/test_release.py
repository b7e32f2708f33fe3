"""What may be passed on: no picture, everything to build the cases again, and prompts whose references are gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.cogcanvas.cases import people
from data_build.cogcanvas.release import read_prompts
from gnomon.cli import main
from gnomon.datasets import read_cases
from gnomon.jsonl import write_records
from tests.data_build.cogcanvas.small_manifest import write_manifest
from tests.data_build.cogcanvas.test_small_build import run, settings_file


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    assert run(settings_file(folder, write_manifest(folder / "given"))) == 0
    return folder


def rebuild(tmp_path: Path, built: Path, release: Path, prompts: Path | None = None) -> int:
    """Build the cases of a release without a model."""
    config: dict[str, Any] = {
        "out": str(tmp_path / "again"),
        "manifest": {"files": [str(release / "manifest.jsonl")], "folder": str(built / "given")},
        "curate": {"min_side": 1},
        "attributes": {},
        "dataset": {
            "prompts": str(prompts or release / "prompts.jsonl"),
            "tasks": ["reference_generation", "text_to_image"],
        },
    }
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(config))
    return main(["data", "build", "cogcanvas", "--config", str(tmp_path / "again.yaml")])


def test_a_release_holds_no_picture_and_its_terms(built: Path) -> None:
    release = built / "build" / "release"
    assert sorted(path.name for path in release.rglob("*")) == ["TERMS.md", "manifest.jsonl", "prompts.jsonl"]
    entries = [json.loads(line) for line in (release / "manifest.jsonl").read_text().splitlines()]
    assert all(entry["sha256"] and entry["attributes"] for entry in entries)
    assert str(built) not in (release / "manifest.jsonl").read_text()
    assert "never passed on" in " ".join((release / "TERMS.md").read_text().split())


def test_the_same_cases_come_out_of_a_release_without_a_model(built: Path, tmp_path: Path) -> None:
    assert rebuild(tmp_path, built, built / "build" / "release") == 0
    again = (tmp_path / "again" / "dataset" / "cases.jsonl").read_bytes()
    assert again == (built / "build" / "dataset" / "cases.jsonl").read_bytes()


def test_prompts_whose_references_are_gone_or_contradict_are_counted_and_the_others_go_on(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = built / "build" / "release"
    prompts = read_prompts(release / "prompts.jsonl")
    first, second, third, fourth, fifth, *others = prompts
    other = first.references[0][:-1] + ("2" if first.references[0].endswith("1") else "1")
    edge = second.facts.positions[0].model_copy(update={"first": "Somebody Else"})
    facts = second.facts.model_copy(update={"positions": [edge]})
    one = fifth.facts.positions[0]
    turned = one.model_copy(update={"first": one.second, "second": one.first})
    both = fifth.facts.model_copy(update={"positions": [*fifth.facts.positions, turned]})
    changed = [
        first.model_copy(update={"references": [first.references[0], other, *first.references[2:]]}),
        second.model_copy(update={"facts": facts}),
        third.model_copy(update={"references": [*third.references, "nowhere-1"]}),
        fourth.model_copy(update={"task": "sing"}),
        fifth.model_copy(update={"facts": both}),
        *others,
    ]
    write_records(tmp_path / "prompts.jsonl", changed)
    assert rebuild(tmp_path, built, release, tmp_path / "prompts.jsonl") == 0
    report = json.loads((tmp_path / "again" / "dataset" / "report.json").read_text())
    assert (report["num_prompts"], report["num_cases"]) == (16, 11)
    assert report["left_out"] == dict.fromkeys(
        ("one_identity_twice", "absent_person", "reference_gone", "unknown_task", "contradictory_positions"), 1
    )
    assert "prompts that are no case: " in capsys.readouterr().out


def test_a_dataset_has_a_case_from_words_alone_for_each_scene(built: Path) -> None:
    cases = read_cases(built / "build" / "dataset")
    by_task = {task: {case.id for case in cases if case.task == task} for task in {case.task for case in cases}}
    assert by_task["text_to_image"] == {f"{name}-text" for name in by_task["reference_generation"]}
    words_alone = [case for case in cases if case.task == "text_to_image"]
    assert {one.dimension for case in words_alone for one in case.questions} == {"binding"}
    assert all(
        case.metrics == ["person_count", "clip_t", "aesthetic"] and len(people(case)) > 1 for case in words_alone
    )
