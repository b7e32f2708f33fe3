from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.mdmr.cases import FAMILIES, facts_of
from data_build.mdmr.checklists import write_checklists
from data_build.mdmr.dataset import write_dataset
from data_build.mdmr.folder import BuildFolder
from data_build.mdmr.human_filter import filter_samples
from data_build.mdmr.samples import Sample
from data_build.mdmr.settings import ChecklistSettings, DatasetSettings, FilterSettings
from gnomon.cli import main
from gnomon.datasets import dataset_hash, read_cases, validate
from gnomon.errors import UserError
from gnomon.images import content_hash
from gnomon.jsonl import write_records
from gnomon.records import Candidate
from rm.judge import JudgeRequest, asked_about
from rm.protocols.checklist import ChecklistJudge
from rm.vlm.scripted import ScriptedVLM
from tests.data_build.mdmr.stages import SAMPLES, SOFA
from tests.data_build.mdmr.test_checklists import entry, instructed, scripted
from tests.data_build.mdmr.writers import Author


@pytest.fixture
def build(tmp_path: Path) -> BuildFolder:
    folder = instructed(tmp_path / "build")
    write_checklists(folder, ChecklistSettings(Author()))
    return folder


def test_the_benchmark_is_a_dataset_with_checklists(build: BuildFolder, capsys: pytest.CaptureFixture[str]) -> None:
    report = write_dataset(build, DatasetSettings())
    root = build.stage("dataset")
    cases = read_cases(root)

    assert validate(root).ok
    assert main(["data", "validate", str(root)]) == 0
    assert [case.id for case in cases] == [sample.id for sample in SAMPLES]
    for case, sample in zip(cases, SAMPLES, strict=True):
        assert (case.benchmark, case.task, case.subtask, case.split) == (
            "mdmr-bench",
            sample.family,
            sample.subtask,
            "test",
        )
        assert [reference.role for reference in case.references] == [reference.role for reference in sample.references]
        for reference in case.references:
            assert content_hash(root / reference.path).startswith(Path(reference.path).stem)
        facts = facts_of(case)
        assert (facts.bucket, facts.text_language, facts.pair_id) == (
            sample.bucket,
            sample.text_language,
            sample.pair_id,
        )
        assert (facts.content_type, facts.reference_origin) == (sample.content_type, sample.reference_origin)
        assert case.questions
        assert all(question.text.en and question.text.zh for question in case.questions)
    assert cases[1].references[1].attributes == {"hair": "red curls"}
    assert len(list((root / "images").iterdir())) == num_pictures(SAMPLES)
    assert report.dataset == dataset_hash(root)


def num_pictures(samples: list[Sample]) -> int:
    return len({reference.image for sample in samples for reference in sample.references})


def test_the_report_counts_by_hand(build: BuildFolder) -> None:
    report = write_dataset(build, DatasetSettings())

    assert report.num_cases == 5
    assert report.families == {
        "entity_fusion": 1,
        "attribute_transfer": 2,
        "multi_element_extraction": 0,
        "infographic_manipulation": 1,
        "visual_reasoning": 1,
    }
    assert report.subtasks["attribute_transfer"]["hair"] == 2
    assert {family: tuple(counts) for family, counts in report.subtasks.items()} == FAMILIES
    assert report.num_references == {"1": 1, "2": 3, "3": 1}
    assert report.text_languages == {"zh": 1}
    assert (report.reference_origins, report.num_pairs) == ({"real": 4, "synthetic": 1}, 1)
    assert report.instruction_languages == {"en": 5, "zh": 5}
    text = (build.stage("dataset") / "report.txt").read_text()
    assert "sub-tasks without a case: entity_fusion/people, " in text
    assert "multi_element_extraction/multi_element_extraction" in text


def test_run_again_it_has_the_same_bytes_and_follows_the_stages_before(build: BuildFolder, tmp_path: Path) -> None:
    first = write_dataset(build, DatasetSettings())
    assert write_dataset(build, DatasetSettings()) == first

    reviews = [{"sample": sample.id, "reviewer": "ann", "keep": sample.id != "hair-1-synthetic"} for sample in SAMPLES]
    write_records(tmp_path / "ann.jsonl", reviews)
    filter_samples(build, FilterSettings([tmp_path / "ann.jsonl"]))
    report = write_dataset(build, DatasetSettings())
    assert (report.num_cases, report.num_pairs) == (4, 0)
    assert all(facts_of(case).pair_id is None for case in read_cases(build.stage("dataset")))


def test_what_is_no_case_is_named_and_counted(tmp_path: Path) -> None:
    build = instructed(tmp_path / "build")
    write_checklists(build, ChecklistSettings(scripted(build, [entry("Is the cat there?")])))
    report = write_dataset(build, DatasetSettings())
    assert (report.num_cases, report.left_out) == (1, {"no_questions": 4})

    build.picture(SOFA.image).unlink()
    with pytest.raises(UserError, match="no case is left: no_questions 4, unreadable_image 1"):
        write_dataset(build, DatasetSettings())
    left_out = [json.loads(line) for line in (build.stage("dataset") / "left_out.jsonl").read_text().splitlines()]
    assert (left_out[0]["sample"], left_out[0]["reason"]) == ("fusion-1", "unreadable_image")


def test_its_questions_are_judged(build: BuildFolder) -> None:
    """A judge by rule answers every question of every case: the build's output is the benchmark's input."""
    write_dataset(build, DatasetSettings())
    root = build.stage("dataset")
    judge = ChecklistJudge(ScriptedVLM("always_first", answers=['{"reason": "so it is", "answer": "yes"}']))
    for case in read_cases(root):
        candidate = Candidate(case_id=case.id, generator="copy", seed=0, path=case.references[0].path)
        image = root / case.references[0].path
        names = asked_about(judge, case)
        verdicts = judge.judge([JudgeRequest(case, root, candidate, image, name) for name in names])
        assert [verdict.question_id for verdict in verdicts] == [question.id for question in case.questions]
        assert all(verdict.value == 1.0 for verdict in verdicts)
