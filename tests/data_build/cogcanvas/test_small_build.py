"""The whole way from a manifest to a benchmark by `gnomon data build cogcanvas`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.cogcanvas.cases import facts_of, people
from bench.cogcanvas.retrieval import slots_of
from gnomon.cli import main
from gnomon.datasets import read_cases
from tests.data_build.cogcanvas.small_manifest import write_manifest

ANNOTATOR = {"class_path": "tests.data_build.cogcanvas.annotator.Annotator"}


def settings_file(tmp_path: Path, manifest: Path, *, annotator: dict[str, Any] = ANNOTATOR, **settings: Any) -> Path:
    """Return a file of settings that builds a small benchmark."""
    config: dict[str, Any] = {
        "out": str(tmp_path / "build"),
        "manifest": {"files": [str(manifest)]},
        "curate": {"min_side": 64},
        "attributes": {"vlm": annotator},
        "sample": {"num": 8},
        "write": {"vlm": annotator},
        "verify": {"vlm": annotator},
        "graphs": {},
        "questions": {},
        "dataset": {"tasks": ["reference_generation", "text_to_image"]},
    }
    for name, changes in settings.items():
        config[name] = {**config[name], **changes}
    (tmp_path / "cogcanvas.yaml").write_text(yaml.safe_dump(config))
    return tmp_path / "cogcanvas.yaml"


def run(config: Path, *argv: str) -> int:
    return main(["data", "build", "cogcanvas", "--config", str(config), *argv])


def test_from_a_manifest_to_cases_with_graphs_and_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = settings_file(tmp_path, write_manifest(tmp_path / "given"))
    assert run(config) == 0
    printed = capsys.readouterr().out
    root = tmp_path / "build" / "dataset"
    cases = read_cases(root)

    assert printed.startswith("# Terms of use")
    assert len(cases) == 16
    assert main(["data", "validate", str(root)]) == 0
    assert {len(people(case)) for case in cases} == {2, 3, 4, 5}
    assert all(facts_of(case).bindings for case in cases)
    assert slots_of(cases)[0]

    before = (root / "cases.jsonl").read_bytes()
    assert run(config) == 0
    assert (root / "cases.jsonl").read_bytes() == before
