"""The whole way from pictures to a benchmark by `gnomon data build mdmr`, with the buckets that are shipped."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.mdmr.cases import FAMILIES, WEIGHTS, facts_of
from data_build.mdmr.folder import BuildFolder
from data_build.tabletop.tiny_judge import make_judge_base, make_processor, save_judge_base
from gnomon.cli import main
from gnomon.datasets import read_cases
from tests.data_build.mdmr.package_pictures import package_material, pictures_root
from tests.data_build.mdmr.small_gallery import Material, drawn_material, write_gallery

AUTHOR = {"class_path": "tests.data_build.mdmr.writers.Author", "init_args": {"faults": True}}
SUBTASKS = [(family, subtask) for family, subtasks in FAMILIES.items() for subtask in subtasks]


def settings_file(tmp_path: Path, repository: Path, material: Material, side: int, **settings: Any) -> Path:
    """Write a small gallery, and return a file of settings to build a benchmark of it."""
    tags = write_gallery(tmp_path / "pictures", material, side)
    config: dict[str, Any] = {
        "out": str(tmp_path / "build"),
        "gallery": {"sources": {"pictures": {"path": str(tmp_path / "pictures")}}, "min_side": side},
        "annotate": {"file": str(tags)},
        "sample": {"buckets": [str(repository / "configs" / "data" / "mdmr")], "samples": 1, "max_uses": 1000},
        "instruct": {"vlm": AUTHOR},
        "filter": {},
        "checklists": {"vlm": AUTHOR},
        "dataset": {},
    }
    for name, changes in settings.items():
        config[name] = {**config[name], **changes}
    (tmp_path / "mdmr.yaml").write_text(yaml.safe_dump(config))
    return tmp_path / "mdmr.yaml"


def run(config: Path, *argv: str) -> int:
    return main(["data", "build", "mdmr", "--config", str(config), *argv])


def test_all_families_and_sub_tasks_from_pictures_to_checklists(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = settings_file(tmp_path, repository, drawn_material(), 96)
    assert run(config) == 0
    printed = capsys.readouterr().out
    root = BuildFolder(tmp_path / "build").stage("dataset")
    cases = read_cases(root)

    assert {(case.task, case.subtask) for case in cases} == set(SUBTASKS)
    assert {len(case.references) for case in cases} == {1, 2, 3, 4}
    assert {facts_of(case).text_language for case in cases} == {"en", "zh", None}
    assert all({question.dimension for question in case.questions} == set(WEIGHTS) for case in cases)
    assert all(case.instruction.en and case.instruction.zh for case in cases)
    assert f"{len(cases)} cases with " in printed
    assert "nobody looked through them" in printed
    assert main(["data", "validate", str(root)]) == 0

    before = (root / "cases.jsonl").read_bytes()
    assert run(config) == 0
    assert (root / "cases.jsonl").read_bytes() == before
    assert run(config, "--stage", "dataset") == 0


def test_a_real_model_that_cannot_write_ends_the_build_with_counts(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    processor = make_processor()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = make_judge_base(processor, layers=1)
    save_judge_base(tmp_path / "model", model, processor)
    vlm = {"class_path": "rm.vlm.local.LocalVLM", "init_args": {"model": str(tmp_path / "model")}}
    parameters = {"max_tokens": 8, "temperature": 1.0}
    extraction = repository / "configs" / "data" / "mdmr" / "multi_element_extraction.yaml"
    config = settings_file(
        tmp_path,
        repository,
        drawn_material(),
        96,
        sample={"buckets": [str(extraction)]},
        instruct={"vlm": vlm, "parameters": parameters},
    )

    assert run(config) == 1
    assert "no sample got an instruction: " in capsys.readouterr().err
    folder = BuildFolder(tmp_path / "build")
    report = json.loads((folder.stage("instruct") / "report.json").read_text())
    assert report["num_samples"] == sum(report["statuses"].values()) == 3
    assert set(report["statuses"]) <= {"parse_error", "truncated", "refused"}


@pytest.mark.slow
def test_pictures_of_ordinary_packages_fill_every_sub_task_with_five_cases(tmp_path: Path, repository: Path) -> None:
    root = pictures_root()
    if root is None:
        pytest.skip("needs the Debian packages tuxpaint-stamps-default, openclipart-png and mate-backgrounds")
    config = settings_file(tmp_path, repository, package_material(root), 256, sample={"samples": 5})

    assert run(config) == 0
    cases = read_cases(BuildFolder(tmp_path / "build").stage("dataset"))
    counts = Counter((case.task, case.subtask) for case in cases)
    assert set(counts) == set(SUBTASKS)
    assert min(counts.values()) >= 5
    assert len(cases) > 380
