from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.mdmr.cases import CaseFacts
from data_build.mdmr.annotate import annotate_gallery
from data_build.mdmr.folder import BuildFolder
from data_build.mdmr.gallery import build_gallery
from data_build.mdmr.samples import Sample, read_samples
from data_build.mdmr.sampling import draw_samples
from data_build.mdmr.sampling_report import SampleReport
from data_build.mdmr.settings import AnnotateSettings, GallerySettings, SampleSettings, Source
from gnomon.cli import main
from gnomon.errors import UserError
from gnomon.images import content_hash, load_image, save_png
from tests.data_build.mdmr.pictures import picture, tags

NUM_PEOPLE, NUM_THINGS = 12, 8


def write_sources(folder: Path) -> Path:
    """Write people, things and posters, synthetic ones made from the people and things, and a file of tags."""
    lines: list[dict[str, Any]] = []
    made: list[dict[str, str]] = []
    for number in range(NUM_PEOPLE):
        said = tags("people", ("person", f"person {number}"), attributes={"hair": f"hair {number}"}, num_people=1)
        _write(folder, f"person-{number}", number, said, lines, made)
    for number in range(NUM_THINGS):
        said = tags("objects", ("object", f"thing {number}"))
        _write(folder, f"thing-{number}", 100 + number, said, lines, made)
    for number, language in enumerate(("zh", "en", "both")):
        said = tags("posters", ("text", f"text {number}"), text_language=language)
        save_png(picture(200 + number), folder / "photos" / f"poster-{number}.png")
        lines.append({"image": f"poster-{number}.png", "tags": said})
    (folder / "made" / "metadata.jsonl").write_text("\n".join(map(json.dumps, made)))
    (folder / "tags.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def _write(
    folder: Path, name: str, seed: int, said: dict[str, Any], lines: list[dict[str, Any]], made: list[dict[str, str]]
) -> None:
    save_png(picture(seed), folder / "photos" / f"{name}.png")
    save_png(picture(1000 + seed), folder / "made" / f"{name}-made.png")
    lines += [{"image": f"{name}.png", "tags": said}, {"image": f"{name}-made.png", "tags": said}]
    made.append({"file_name": f"{name}-made.png", "made_from": f"{name}.png"})


FUSION = {
    "family": "entity_fusion",
    "buckets": [
        {
            "name": "person-thing",
            "subtask": "person_with_object",
            "samples": 10,
            "references": [{"role": "person", "num_people": {"max": 1}}, {"role": "object"}],
        },
        {
            "name": "animals",
            "subtask": "animals",
            "samples": 10,
            "references": [{"role": "animal", "count": 2}],
        },
    ],
}
HAIR = {
    "family": "attribute_transfer",
    "buckets": [
        {
            "name": "hair",
            "subtask": "hair",
            "samples": 10,
            "references": [
                {"role": "target", "category": {"any_of": ["people"]}},
                {"role": "attribute", "has": ["hair"]},
            ],
            "relations": [{"different": "name"}],
        }
    ],
}
DESIGNS = {
    "family": "infographic_manipulation",
    "buckets": [
        {
            "name": "addition",
            "subtask": "addition",
            "samples": 10,
            "references": [{"role": "source", "category": {"any_of": ["posters"]}}, {"role": "object"}],
        }
    ],
}


def settings(folder: Path, **changes: Any) -> SampleSettings:
    (folder / "buckets").mkdir(exist_ok=True)
    for content in (FUSION, HAIR, DESIGNS):
        (folder / "buckets" / f"{content['family']}.yaml").write_text(yaml.safe_dump(content))
    return SampleSettings(**{"buckets": [folder / "buckets"], "max_uses": 9, "num_pairs": 4, **changes})


@pytest.fixture
def built(tmp_path: Path) -> BuildFolder:
    """A gallery with tags."""
    write_sources(tmp_path)
    build(tmp_path, tmp_path / "out")
    return BuildFolder(tmp_path / "out")


def build(folder: Path, out: Path) -> None:
    sources = {"photos": Source(folder / "photos"), "made": Source(folder / "made", origin="synthetic")}
    build_gallery(BuildFolder(out), GallerySettings(sources, min_side=1))
    annotate_gallery(BuildFolder(out), AnnotateSettings(file=folder / "tags.jsonl"))


def drawn(built: BuildFolder, folder: Path, **changes: Any) -> tuple[list[Sample], SampleReport]:
    report = draw_samples(built, settings(folder, **changes))
    return read_samples(built.samples), report


def test_samples_say_what_each_picture_is_for(built: BuildFolder, tmp_path: Path) -> None:
    samples, report = drawn(built, tmp_path)

    by_bucket = {name: [sample for sample in samples if sample.bucket == name] for name in ("hair", "person-thing")}
    for sample in by_bucket["hair"]:
        target, attribute = sample.references
        assert (target.role, target.attributes, attribute.role) == ("target", {}, "attribute")
        number = (attribute.name or "").removeprefix("person ")
        assert attribute.attributes == {"hair": f"hair {number}"}
        assert (sample.content_type, sample.text_language) == ("hair", None)
    assert {sample.content_type for sample in by_bucket["person-thing"]} == {"person+object"}
    assert len({sample.id for sample in samples}) == len(samples) == report.num_samples
    for sample in samples:
        facts = sample.model_dump(include=set(CaseFacts.model_fields))
        assert CaseFacts.model_validate(facts).reference_origin == sample.reference_origin


def test_language_and_content_of_a_design_are_its_own(built: BuildFolder, tmp_path: Path) -> None:
    samples, _ = drawn(built, tmp_path)

    designs = [sample for sample in samples if sample.family == "infographic_manipulation"]
    assert {sample.content_type for sample in designs} == {"posters"}
    assert {sample.text_language for sample in designs} == {"zh", "en", None}


def test_pictures_are_copied_by_id(built: BuildFolder, tmp_path: Path) -> None:
    samples, _ = drawn(built, tmp_path)

    used = {reference.image for sample in samples for reference in sample.references}
    copies = {path.stem: path for path in (built.stage("sample") / "images").iterdir()}
    assert set(copies) == used
    for image, path in copies.items():
        assert path == built.picture(image)
        assert content_hash(load_image(path)).startswith(image)


def test_pairs_are_one_sample_of_real_and_of_synthetic_pictures(built: BuildFolder, tmp_path: Path) -> None:
    samples, report = drawn(built, tmp_path)

    pairs: dict[str, list[Sample]] = {}
    for sample in samples:
        if sample.pair_id:
            pairs.setdefault(sample.pair_id, []).append(sample)
    assert report.num_pairs == len(pairs) == 4
    for name, (real, synthetic) in pairs.items():
        assert (real.id, synthetic.id) == (name, f"{name}-synthetic")
        assert (real.reference_origin, synthetic.reference_origin) == ("real", "synthetic")
        assert [one.name for one in real.references] == [one.name for one in synthetic.references]
        assert [one.role for one in real.references] == [one.role for one in synthetic.references]
        assert not {one.image for one in real.references} & {one.image for one in synthetic.references}


def test_the_report_counts_and_says_what_empties_a_bucket(built: BuildFolder, tmp_path: Path) -> None:
    samples, report = drawn(built, tmp_path)

    assert (report.num_asked, report.num_samples) == (40, len(samples))
    assert len(samples) == 30 + report.num_pairs
    assert report.subtasks["entity_fusion/animals"] == 0
    assert sum(report.families.values()) == sum(report.num_references.values()) == len(samples)
    assert set(report.origins) <= {"real", "synthetic", "mixed"}
    assert sum(int(times) * num for times, num in report.uses.items()) == 2 * len(samples)
    animals = next(one for one in report.buckets if one.name == "animals")
    assert (animals.num_drawn, animals.failures) == (0, {"an entity of kind animal": 10})
    text = (built.stage("sample") / "report.txt").read_text()
    assert "bucket animals: 0 of 10; no picture left after: an entity of kind animal 10" in text
    assert "reference 1: tagged pictures 43 > an entity of kind animal 0" in text
    written = SampleReport.model_validate_json((built.stage("sample") / "report.json").read_bytes())
    assert written == report


def test_the_same_seed_gives_the_same_bytes(
    built: BuildFolder, tmp_path: Path, contents: Callable[[Path], dict[str, Any]]
) -> None:
    drawn(built, tmp_path)
    build(tmp_path, tmp_path / "again")
    drawn(BuildFolder(tmp_path / "again"), tmp_path)
    build(tmp_path, tmp_path / "other")
    drawn(BuildFolder(tmp_path / "other"), tmp_path, seed=1)

    first, again, other = (contents(tmp_path / name / "sample") for name in ("out", "again", "other"))
    assert first == again
    assert first["samples.jsonl"] != other["samples.jsonl"]


def test_more_samples_can_be_asked_for_than_the_files_say(built: BuildFolder, tmp_path: Path) -> None:
    _, report = drawn(built, tmp_path, samples=3, num_pairs=0)

    assert (report.num_asked, report.num_samples, report.num_pairs) == (12, 9, 0)


def test_samples_of_a_picture_that_is_gone_are_left_out_by_name(built: BuildFolder, tmp_path: Path) -> None:
    (tmp_path / "photos" / "thing-3.png").unlink()
    gone = content_hash(picture(103))[:16]

    samples, report = drawn(built, tmp_path)

    assert report.num_missing > 0
    assert not any(reference.image == gone for sample in samples for reference in sample.references)
    problems = [json.loads(line) for line in (built.stage("sample") / "problems.jsonl").read_text().splitlines()]
    assert {problem["image"] for problem in problems} == {gone}
    assert len(problems) == report.num_missing
    sizes = [sum(other.pair_id == sample.pair_id for other in samples) for sample in samples if sample.pair_id]
    assert set(sizes) == {2}, "a pair that lost one sample is none"

    save_png(picture(103), tmp_path / "photos" / "thing-3.png")
    assert drawn(built, tmp_path)[1].num_missing == 0


def test_samples_stay_those_of_their_tags_and_buckets(built: BuildFolder, tmp_path: Path) -> None:
    drawn(built, tmp_path)

    with pytest.raises(UserError, match=r"differs in config\.max_uses: 9 -> 2"):
        drawn(built, tmp_path, max_uses=2)
    lines = (tmp_path / "tags.jsonl").read_text().splitlines()
    (tmp_path / "tags.jsonl").write_text("\n".join(lines[1:]))
    annotate_gallery(built, AnnotateSettings(file=tmp_path / "tags.jsonl"))
    with pytest.raises(UserError, match=r"differs in inputs\.tags"):
        drawn(built, tmp_path)


def test_settings_out_of_range_and_an_empty_result_are_errors(built: BuildFolder, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"under sample\.buckets, got none"):
        draw_samples(built, SampleSettings())
    with pytest.raises(UserError, match=r"sample\.max_uses"):
        drawn(built, tmp_path, max_uses=0)
    only = settings(tmp_path)
    (tmp_path / "buckets" / "none.yaml").write_text(yaml.safe_dump({**FUSION, "buckets": FUSION["buckets"][1:]}))
    with pytest.raises(UserError, match="no sample can be drawn"):
        draw_samples(built, SampleSettings(buckets=[only.buckets[0] / "none.yaml"]))


def test_one_command_runs_all_stages_or_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_sources(tmp_path)
    settings(tmp_path)
    config = {
        "out": str(tmp_path / "out"),
        "gallery": {
            "sources": {
                "photos": {"path": str(tmp_path / "photos")},
                "made": {"path": str(tmp_path / "made"), "origin": "synthetic"},
            },
            "min_side": 16,
        },
        "annotate": {"file": str(tmp_path / "tags.jsonl")},
        "sample": {"buckets": [str(tmp_path / "buckets")], "max_uses": 9, "num_pairs": 2},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    argv = ["data", "build", "mdmr", "--config", str(tmp_path / "config.yaml")]

    assert main([*argv, "--stage", "annotate"]) == 1
    assert "run it first, with --stage gallery" in capsys.readouterr().err
    assert main(argv) == 0
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line.startswith("==")] == [
        "== gallery",
        "== annotate",
        "== sample",
    ]
    assert "32 samples, 2 of them the second of a pair" in printed
    assert main([*argv, "--stage", "gallery", "--gallery.min_side", "1000"]) == 1
    assert "no picture of the gallery can be used: too_small 43" in capsys.readouterr().err

    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**config, "sample": {"bucket": []}}))
    assert main(argv) == 2
    assert "bucket" in capsys.readouterr().err


def test_a_stage_without_settings_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "build", "mdmr", "--out", str(tmp_path), "--stage", "sample"]) == 1
    assert "under 'sample' in the config" in capsys.readouterr().err
    assert main(["data", "build", "mdmr", "--out", str(tmp_path)]) == 1
    stages = "gallery, annotate, sample, instruct, filter, checklists, dataset"
    assert f"at least one stage ({stages})" in capsys.readouterr().err
