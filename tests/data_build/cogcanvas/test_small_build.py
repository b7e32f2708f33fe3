"""The whole way from a manifest to a benchmark by `gnomon data build cogcanvas`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.cogcanvas.cases import facts_of, people
from bench.cogcanvas.retrieval import slots_of
from data_build.cogcanvas.curate import LeftOut
from data_build.cogcanvas.folder import BuildFolder
from gnomon.cli import main
from gnomon.datasets import read_cases
from gnomon.jsonl import read_records
from tests.bench.evaluators.faces.photographs import detector
from tests.bench.evaluators.photographs import need_both
from tests.data_build.cogcanvas.package_pictures import stamps_root, write_package_manifest
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


def test_everything_that_is_wrong_is_counted_and_the_rest_becomes_a_benchmark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private = {"path": None, "url": "http://127.0.0.1:1/picture.png"}
    manifest = write_manifest(tmp_path / "given", ada_bell_1=private, paper_kite_1={"path": "pictures/nowhere.png"})
    with manifest.open("a") as lines:
        lines.write("no json\n")
    annotator = {**ANNOTATOR, "init_args": {"rejects": {"layout": "Old Harbour"}, "always_rejects": "tin whistle"}}
    config = settings_file(
        tmp_path, manifest, annotator=annotator, write={"max_attempts": 2}, dataset={"tasks": ["reference_generation"]}
    )
    assert run(config, "--stage", "manifest", "--curate", "null") == 0
    assert run(config) == 0
    printed = capsys.readouterr().out
    cases = read_cases(tmp_path / "build" / "dataset")

    assert "17 of 19 pictures are there: ok 17, refused_address 1, missing_file 1" in printed
    assert "lines of manifests that cannot be used: 1" in printed
    given_up = 8 - len(cases)
    assert given_up > 0
    assert f"{len(cases)} of 8 scenes are kept: passed {len(cases)}, given_up {given_up}" in printed
    assert all("tin whistle" not in (case.instruction.en or "") for case in cases)
    assert any("slowly" in (case.instruction.en or "") for case in cases)  # written again after a check turned it down


def test_a_backend_that_is_not_installed_ends_the_build_with_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNOMON_OFFLINE_DIR", str(tmp_path))
    mtcnn = {"class_path": "bench.evaluators.faces.mtcnn.MtcnnDetector"}
    config = settings_file(tmp_path, write_manifest(tmp_path / "given"), curate={"faces": mtcnn})
    assert run(config) == 1
    assert "facenet-pytorch" in capsys.readouterr().err


@pytest.mark.slow
def test_pictures_of_ordinary_packages_become_a_benchmark(tmp_path: Path) -> None:
    stamps = stamps_root()
    if stamps is None:
        pytest.skip("needs the Debian package tuxpaint-stamps-default")
    need_both()
    detector()
    lite0 = {"class_path": "bench.evaluators.vision.lite0_features.Lite0Embedder"}
    lite0["init_args"] = {"segmenter": {"class_path": "bench.evaluators.vision.salience.SalienceSegmenter"}}  # type: ignore[assignment]
    config = settings_file(
        tmp_path,
        write_package_manifest(tmp_path / "given", stamps),
        curate={
            "min_side": 400,
            "faces": {"class_path": "bench.evaluators.faces.mtcnn.MtcnnDetector"},
            "near_duplicates": {"backend": lite0, "cosine": 0.7},
        },
        sample={"num": 40},
        questions={"negated": True},
    )
    assert run(config) == 0
    build = BuildFolder(tmp_path / "build")
    left_out = {item.id: item.reason for item in read_records(build.stage("curate") / "left_out.jsonl", LeftOut)}
    cases = [case for case in read_cases(build.stage("dataset")) if case.task == "reference_generation"]

    assert left_out == {"object-21": "near_duplicate", "background-25": "has_faces"}
    assert len(cases) == 40
    assert {len(people(case)) for case in cases} == {2, 3, 4, 5}
    sizes = Counter((facts_of(case).object_size, facts_of(case).interaction_strength) for case in cases)
    assert max(sizes.values()) - min(sizes.values()) <= 1
    assert all({"binding", "interaction", "position"} <= {one.dimension for one in case.questions} for case in cases)
    assert slots_of(cases)[0]  # one person has two pictures to choose from
