from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.mdmr.cases import WEIGHTS
from data_build.mdmr.asking import ask_for_checklist
from data_build.mdmr.blind import BlindAnswer
from data_build.mdmr.checking import CheckedQuestion
from data_build.mdmr.checklists import ChecklistAnswer, write_checklists
from data_build.mdmr.folder import BuildFolder
from data_build.mdmr.human_filter import filter_samples
from data_build.mdmr.instructions import valid_cases, write_instructions
from data_build.mdmr.samples import Sample
from data_build.mdmr.settings import BlindSettings, ChecklistSettings, FilterSettings, InstructSettings
from data_build.mdmr.tags import TAG_ATTRIBUTES
from gnomon.errors import UserError
from gnomon.jsonl import read_records, write_records
from rm.vlm.conversation import GenerationParameters
from rm.vlm.scripted import ScriptedVLM, prompt_text
from tests.data_build.editcompass.writers import noise
from tests.data_build.mdmr.stages import SAMPLES, SOFA, sampled
from tests.data_build.mdmr.test_instructions import tiny_model
from tests.data_build.mdmr.writers import KNOWN_WITHOUT_LOOKING, Author

FAULTS = {"duplicate": 1, "near_duplicate": 1, "parse_error": 1, "unlinked": 1, "contradictory": 2, "blind": 1}
"""What becomes of :func:`tests.data_build.mdmr.writers.write_faults`."""


def instructed(folder: Path, samples: Sequence[Sample] = SAMPLES) -> BuildFolder:
    """Return a build in which all samples have an instruction and are kept."""
    build = sampled(folder, samples)
    write_instructions(build, InstructSettings(Author()))
    filter_samples(build, FilterSettings())
    return build


@pytest.fixture
def build(tmp_path: Path) -> BuildFolder:
    return instructed(tmp_path / "build")


def questions(build: BuildFolder) -> dict[str, list[CheckedQuestion]]:
    found: dict[str, list[CheckedQuestion]] = {}
    for line in read_records(build.questions, CheckedQuestion):
        found.setdefault(line.sample, []).append(line)
    return found


def scripted(build: BuildFolder, entries: list[dict[str, Any]]) -> ScriptedVLM:
    """Return a model that writes the same entries for the first sample, and says nothing without a picture."""
    sample, instruction = valid_cases(build)[SAMPLES[0].id]
    text = prompt_text(ask_for_checklist(sample, instruction, [noise(0), noise(1)], 30))
    return ScriptedVLM("table", table={text: json.dumps({"checklist": entries})})


def entry(en: str, dimension: str = "following", **changes: Any) -> dict[str, Any]:
    about, zh = ["reference-1"], f"“{en}”吗？"
    return {"dimension": dimension, "level": "atomic", "about": about, "expected": "yes", "en": en, "zh": zh, **changes}


def test_the_question_shows_references_instruction_dimensions_and_attributes(build: BuildFolder) -> None:
    sample, instruction = valid_cases(build)["hair-1"]
    conversation = ask_for_checklist(sample, instruction, [noise(2), noise(3)], 30)
    text = prompt_text(conversation)

    assert len([part for message in conversation for part in message.content if not isinstance(part, str)]) == 2
    assert json.dumps(instruction.en) in text
    assert str(instruction.zh) in text
    assert "about 30 yes/no questions" in text
    assert all(f"- {dimension}: " in text for dimension in WEIGHTS)
    assert all(attribute in text for attribute in TAG_ATTRIBUTES)
    assert not {"{references}", "{roles}", "{instruction}", "{num}", "{dimensions}", "{attributes}"} & set(text.split())


def test_every_case_gets_questions_in_all_dimensions_with_links_and_ids(build: BuildFolder) -> None:
    report = write_checklists(build, ChecklistSettings(Author()))
    by_case = questions(build)

    assert list(by_case) == [sample.id for sample in SAMPLES]
    assert report.outcomes == {"kept": sum(map(len, by_case.values()))}
    assert (report.num_cases, report.num_incomplete, report.missing, report.statuses) == (5, 0, {}, {"ok": 5})
    fusion = [line.to_question() for line in by_case["fusion-1"]]
    assert len({question.id for question in fusion}) == len(fusion) == 16
    assert [question.id for question in fusion if question.dimension == "quality"] == ["quality-1", "quality-2"]
    assert {question.dimension for question in fusion} == set(WEIGHTS)
    assert {"reference-1", "reference-2.color", "instruction"} <= {
        link for question in fusion for link in question.about
    }
    (addition,) = [question for question in fusion if question.text.en == "Is there anything that nobody asked for?"]
    assert not addition.expected
    assert any(line.question and line.question.about == ["reference-2.hair"] for line in by_case["hair-1"])
    assert report.kept["quality"] == {"global": 5, "atomic": 5}


def test_two_cases_of_a_pair_have_one_checklist_that_is_asked_for_once(build: BuildFolder) -> None:
    author = Author()
    report = write_checklists(build, ChecklistSettings(author))
    by_case = questions(build)

    assert author.num_written == 4
    assert [line.id for line in by_case["hair-1"]] == [line.id for line in by_case["hair-1-synthetic"]]
    assert [line.question for line in by_case["hair-1"]] == [line.question for line in by_case["hair-1-synthetic"]]
    assert report.statuses == {"ok": 5}


def test_what_cannot_serve_is_left_out_and_counted(build: BuildFolder) -> None:
    report = write_checklists(build, ChecklistSettings(Author(faults=True)))
    by_case = questions(build)

    for lines in by_case.values():
        assert Counter(line.outcome for line in lines if line.outcome != "kept") == FAULTS
        assert all((line.id is None) == (line.outcome != "kept") for line in lines)
        assert [line.number for line in lines] == list(range(1, len(lines) + 1))
        assert all(line.detail for line in lines if line.outcome not in ("kept", "blind"))
    assert {name: report.outcomes[name] for name in FAULTS} == {name: 5 * num for name, num in FAULTS.items()}
    details = {line.outcome: line.detail for line in by_case["fusion-1"]}
    assert details["duplicate"] == details["near_duplicate"] == "of number 1"
    assert "'reference-3' is about a reference that there is not" in (details["unlinked"] or "")
    assert "expected a dimension out of" in (details["parse_error"] or "")


@pytest.mark.parametrize(
    ("action", "blind", "outcome", "num_flagged"),
    [
        ("drop", "thinks", "blind", 0),
        ("flag", "thinks", "kept", 5),
        ("off", "thinks", "kept", 0),
        ("drop", "always_yes", "kept", 0),
        ("drop", "fails", "kept", 0),
    ],
)
def test_what_the_words_alone_answer_is_dropped_or_flagged(
    build: BuildFolder, action: Any, blind: str, outcome: str, num_flagged: int
) -> None:
    author = Author(faults=True, blind=blind)
    report = write_checklists(build, ChecklistSettings(author, blind=BlindSettings(action)))
    written = questions(build)["fusion-1"]
    (line,) = [line for line in written if line.question and line.question.text.en == KNOWN_WITHOUT_LOOKING["en"]]

    assert (line.outcome, line.is_flagged) == (outcome, num_flagged > 0)
    assert report.num_flagged == num_flagged
    assert (author.num_blind > 0) == (action != "off")
    assert (line.blind is None) == (action == "off" or blind == "fails")
    statuses = read_records(build.stage("checklists") / "blind.jsonl", BlindAnswer) if action != "off" else []
    assert report.blind_statuses == dict(Counter(answer.status for answer in statuses))


def test_a_dimension_without_questions_is_reported_and_not_made_up(build: BuildFolder) -> None:
    entries = [entry("Is the cat there?"), entry("Is it sharp?", "quality"), entry("Is it the same?", "consistency")]
    report = write_checklists(build, ChecklistSettings(scripted(build, entries)))

    assert (report.num_cases, report.num_cases_without_questions, report.num_incomplete) == (5, 4, 5)
    assert report.missing == {"following": 4, "consistency": 4, "composition": 5, "minimality": 5, "quality": 4}
    assert report.statuses == {"api_error": 4, "ok": 1}
    incomplete = (build.stage("checklists") / "incomplete.jsonl").read_text().splitlines()
    assert json.loads(incomplete[0]) == {"sample": "fusion-1", "missing": ["composition", "minimality"]}
    assert "cases that lack a dimension: 5" in (build.stage("checklists") / "report.txt").read_text()
    assert report.blind_statuses == {"api_error": 3}


def test_run_again_only_what_failed_is_asked_and_rules_may_change(build: BuildFolder) -> None:
    write_checklists(build, ChecklistSettings(Author(broken="egg", faults=True)))
    files = [build.stage("checklists") / name for name in ("checklists.jsonl", "blind.jsonl")]
    before = [file.read_bytes() for file in files]
    again = Author(faults=True)
    report = write_checklists(build, ChecklistSettings(again))
    assert (again.num_written, report.statuses) == (1, {"ok": 5})
    assert all(file.read_bytes().startswith(old) for file, old in zip(files, before, strict=True))

    idle = Author()
    settings = ChecklistSettings(idle, overlap=1.1, blind=BlindSettings("flag", 0.99))
    report = write_checklists(build, settings)
    assert (idle.num_written, idle.num_blind) == (0, 4 * 4)  # the near duplicates of four checklists, in four ways
    assert "near_duplicate" not in report.outcomes
    assert report.num_flagged == 0  # the author is sure to 0.98
    assert "blind" not in report.outcomes


def test_killed_and_run_again_it_ends_with_the_same_bytes(
    build: BuildFolder,
    tmp_path: Path,
    contents: Callable[[Path], dict[str, bytes]],
    kill_when: Callable[[str, Callable[[], bool]], None],
) -> None:
    whole = instructed(tmp_path / "whole")
    program = (
        "from data_build.mdmr.checklists import write_checklists\n"
        "from data_build.mdmr.settings import ChecklistSettings\n"
        "from data_build.mdmr.folder import BuildFolder\n"
        "from tests.data_build.mdmr.writers import Author\n"
        f"write_checklists(BuildFolder({str(build.path)!r}), ChecklistSettings(Author(delay=0.2), batch_size=1))"
    )
    file = build.stage("checklists") / "checklists.jsonl"
    kill_when(program, lambda: file.exists() and file.read_bytes().count(b"\n") >= 2)
    finished = file.read_bytes().count(b"\n")
    with file.open("ab") as lines:
        lines.write(b'{"about": "torn')

    author = Author()
    write_checklists(build, ChecklistSettings(author, batch_size=1))
    write_checklists(whole, ChecklistSettings(Author(), batch_size=1))
    assert contents(build.stage("checklists")) == contents(whole.stage("checklists"))
    assert author.num_written <= 4 - finished


def test_a_picture_that_is_gone_costs_its_cases_alone(build: BuildFolder) -> None:
    build.picture(SOFA.image).unlink()
    report = write_checklists(build, ChecklistSettings(Author()))

    assert (report.statuses, report.num_cases_without_questions) == ({"ok": 3, "unreadable_image": 2}, 2)


def test_a_sample_that_people_took_out_gets_no_checklist(build: BuildFolder, tmp_path: Path) -> None:
    lines = [{"sample": sample.id, "reviewer": "ann", "keep": sample.id != "hair-1"} for sample in SAMPLES]
    write_records(tmp_path / "ann.jsonl", lines)
    filter_samples(build, FilterSettings([tmp_path / "ann.jsonl"]))
    author = Author()
    write_checklists(build, ChecklistSettings(author))

    # The second of the pair stays, and now has a checklist of its own.
    assert list(questions(build)) == ["fusion-1", "hair-1-synthetic", "poster-1", "logic-1"]
    assert author.num_written == 4


def test_a_real_model_that_cannot_write_ends_in_statuses(build: BuildFolder, tmp_path: Path) -> None:
    settings = ChecklistSettings(tiny_model(tmp_path / "model"), GenerationParameters(max_tokens=60, temperature=1.0))
    with pytest.raises(UserError, match=r"no case got a question: replies (parse_error|truncated)"):
        write_checklists(build, settings)

    written = read_records(build.stage("checklists") / "checklists.jsonl", ChecklistAnswer)
    assert len(written) == 4
    assert {answer.status for answer in written} <= {"parse_error", "truncated"}


def test_a_real_model_answers_blindly_by_its_probabilities(tmp_path: Path) -> None:
    class Both(Author):
        """Writes by rule and answers without pictures by a real model."""

        def choose(self, conversations: Any, choices: Any) -> Any:
            return model.choose(conversations, choices)

    model, build = tiny_model(tmp_path / "model"), instructed(tmp_path / "build", SAMPLES[3:4])
    report = write_checklists(build, ChecklistSettings(Both()))

    assert list(report.blind_statuses) == ["ok"]
    assert all(line.blind and all(0 < p < 1 for p in line.blind) for line in questions(build)["poster-1"])


def test_what_is_missing_or_out_of_range_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"checklists\.vlm, got none"):
        write_checklists(BuildFolder(tmp_path), ChecklistSettings())
    with pytest.raises(UserError, match=r"of the stage filter.*--stage filter"):
        write_checklists(BuildFolder(tmp_path), ChecklistSettings(Author()))
    with pytest.raises(UserError, match=r"num_questions >= 5.*got 4, 8 and 0\.9"):
        ChecklistSettings(num_questions=4)
