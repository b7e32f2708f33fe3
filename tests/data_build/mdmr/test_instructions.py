from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bench.mdmr.cases import FAMILIES, ROLES
from data_build.mdmr.asking import PROBLEMS, ask_for_instruction, subtask_text
from data_build.mdmr.folder import BuildFolder
from data_build.mdmr.instructions import CaseAnswer, valid_cases, write_instructions
from data_build.mdmr.samples import Sample, SampledReference
from data_build.mdmr.settings import InstructSettings
from data_build.tabletop.tiny_judge import make_judge_base, make_processor, save_judge_base
from data_build.texts import load_texts
from gnomon.errors import UserError
from gnomon.images import load_image
from gnomon.jsonl import read_records, write_records
from rm.vlm.conversation import GenerationParameters
from rm.vlm.local import LocalVLM
from rm.vlm.scripted import ScriptedVLM, prompt_text
from rm.vlm.wire import conversation_hash
from tests.data_build.editcompass.writers import noise
from tests.data_build.mdmr.stages import CAT, SAMPLES, SOFA, sampled
from tests.data_build.mdmr.writers import Author


@pytest.fixture
def build(tmp_path: Path) -> BuildFolder:
    return sampled(tmp_path / "build", SAMPLES)


def answers(build: BuildFolder) -> list[CaseAnswer]:
    return read_records(build.instructions, CaseAnswer)


def pictures(build: BuildFolder, sample: Sample) -> list[object]:
    return [load_image(build.picture(reference.image)) for reference in sample.references]


def test_every_sample_is_seen_with_its_numbered_references_and_their_roles(build: BuildFolder) -> None:
    conversation = ask_for_instruction(SAMPLES[0], [noise(0), noise(1)])
    text = prompt_text(conversation)
    shown = [part for message in conversation for part in message.content if not isinstance(part, str)]

    assert len(shown) == 2
    assert text.index("Reference 1:") < text.index("Reference 2:") < text.index("The kind of case")
    assert 'Reference 1 is an animal to show ("tabby cat").\nReference 2 is an object to show ("red sofa").' in text
    assert "Two or more animals meet in one scene." in text
    assert all(f"- {problem}: " in text for problem in PROBLEMS)
    assert "is Chinese" not in text
    assert "The writing in the result is Chinese" in prompt_text(ask_for_instruction(SAMPLES[3], [noise(6)]))
    hair = prompt_text(ask_for_instruction(SAMPLES[1], [noise(2), noise(3)]))
    assert 'Reference 2 is where the attribute is taken from ("hair: red curls").' in hair


@pytest.mark.parametrize("family", FAMILIES)
def test_every_sub_task_and_role_has_words_and_no_place_stays_open(family: str) -> None:
    for subtask in FAMILIES[family]:
        for role in ROLES:
            reference = SampledReference(image="x", role=role, name="{family}")
            sample = Sample(id="a", bucket="b", family=family, subtask=subtask, references=[reference])
            text = prompt_text(ask_for_instruction(sample, [noise(0)]))
            assert subtask_text(subtask) in text
            assert not {"{references}", "{roles}", "{writing}", "{problems}", "{subtask}"} & set(text.split())
            assert '"{family}"' in text  # what an annotator wrote is data
    assert set(load_texts("data_build.mdmr", "instruct")["roles"]) == set(ROLES)


def test_every_sample_gets_an_instruction_in_two_languages_and_pairs_share_one(build: BuildFolder) -> None:
    report = write_instructions(build, InstructSettings(Author()))
    valid = valid_cases(build)

    assert (report.num_samples, report.num_valid, report.statuses, report.problems) == (5, 5, {"ok": 5}, {})
    assert list(valid) == [sample.id for sample in SAMPLES]
    assert all(instruction.en and instruction.zh for _, instruction in valid.values())
    assert valid["fusion-1"][1].en == (
        "Put the tabby cat of reference 1 and the red sofa of reference 2 together in one picture; "
        "each looks as it does there."
    )
    assert valid["hair-1"][1] == valid["hair-1-synthetic"][1]
    with (build.stage("instruct") / "review.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["sample"], row["keep"], row["reviewer"]) for row in rows] == [(name, "", "") for name in valid]
    assert (build.stage("instruct") / rows[0]["references"].split()[0]).resolve() == build.picture(CAT.image).resolve()
    assert "5 of 5 samples have an instruction" in (build.stage("instruct") / "report.txt").read_text()


def test_invalid_combinations_are_counted_by_what_is_wrong_with_them(build: BuildFolder) -> None:
    report = write_instructions(build, InstructSettings(Author(invalid="red curls")))

    assert (report.num_valid, report.statuses, report.problems) == (3, {"ok": 5}, {"no_fit": 2})
    assert list(valid_cases(build)) == ["fusion-1", "poster-1", "logic-1"]
    (answer, _) = [answer for answer in answers(build) if answer.case and not answer.case.valid]
    assert answer.case is not None
    assert (answer.case.problem, answer.case.explanation) == ("no_fit", "They do not go together.")


def test_the_second_of_a_pair_goes_where_the_first_has_no_instruction(build: BuildFolder) -> None:
    first = conversation_hash(ask_for_instruction(SAMPLES[1], [noise(2), noise(3)]))
    second = conversation_hash(ask_for_instruction(SAMPLES[2], [noise(4), noise(5)]))
    good = {"valid": True, "problem": None, "reason": "Fits.", "en": "Curl it.", "zh": "烫卷。"}
    bad = {"valid": False, "problem": "wrong_content", "reason": "No hair.", "en": None, "zh": None}
    table = {first: json.dumps({"case": bad}), second: json.dumps({"case": good})}
    with pytest.raises(UserError, match="no sample got an instruction: api_error 3, ok 2, wrong_content 1"):
        write_instructions(build, InstructSettings(ScriptedVLM("table", table=table)))

    assert valid_cases(build) == {}
    report = json.loads((build.stage("instruct") / "report.json").read_text())
    assert (report["num_valid"], report["num_without_partner"]) == (0, 1)


def test_run_again_only_what_failed_changed_or_is_new_is_asked(build: BuildFolder) -> None:
    write_instructions(build, InstructSettings(Author(broken="egg")))
    before = build.instructions.read_bytes()
    changed = SAMPLES[0].model_copy(update={"references": [SOFA, CAT]})
    new = SAMPLES[0].model_copy(update={"id": "fusion-2"})
    write_records(build.samples, [changed, *SAMPLES[1:], new])

    again = Author()
    report = write_instructions(build, InstructSettings(again))
    assert (again.num_written, report.statuses) == (3, {"ok": 6})
    assert build.instructions.read_bytes().startswith(before)

    idle = Author()
    write_instructions(build, InstructSettings(idle))
    assert idle.num_written == 0


def test_a_picture_that_is_gone_costs_its_samples_alone(build: BuildFolder) -> None:
    build.picture(SOFA.image).unlink()
    report = write_instructions(build, InstructSettings(Author()))

    assert (report.num_valid, report.statuses) == (3, {"ok": 3, "unreadable_image": 2})
    assert "there is no such file" in (answers(build)[0].reason or "")


def test_killed_and_run_again_it_ends_with_the_same_bytes(
    build: BuildFolder,
    tmp_path: Path,
    contents: Callable[[Path], dict[str, bytes]],
    kill_when: Callable[[str, Callable[[], bool]], None],
) -> None:
    whole = sampled(tmp_path / "whole", SAMPLES)
    program = (
        "from data_build.mdmr.folder import BuildFolder\n"
        "from data_build.mdmr.instructions import write_instructions\n"
        "from data_build.mdmr.settings import InstructSettings\n"
        "from tests.data_build.mdmr.writers import Author\n"
        f"write_instructions(BuildFolder({str(build.path)!r}), InstructSettings(Author(delay=0.2), batch_size=1))"
    )
    kill_when(program, lambda: build.instructions.exists() and build.instructions.read_bytes().count(b"\n") >= 2)
    finished = build.instructions.read_bytes()
    with build.instructions.open("ab") as lines:
        lines.write(b'{"about": "torn')

    author = Author()
    write_instructions(build, InstructSettings(author, batch_size=1))
    write_instructions(whole, InstructSettings(Author(), batch_size=1))
    assert contents(build.stage("instruct")) == contents(whole.stage("instruct"))
    assert author.num_written <= 5 - finished.count(b"\n")


def test_a_real_model_that_cannot_write_ends_in_statuses(build: BuildFolder, tmp_path: Path) -> None:
    vlm = tiny_model(tmp_path / "model")
    settings = InstructSettings(vlm, GenerationParameters(max_tokens=60, temperature=1.0))
    with pytest.raises(UserError, match=r"no sample got an instruction: (parse_error|truncated)"):
        write_instructions(build, settings)

    assert len(answers(build)) == 5
    assert {answer.status for answer in answers(build)} <= {"parse_error", "truncated"}
    assert all(answer.case is None and answer.reason for answer in answers(build))


def tiny_model(folder: Path) -> LocalVLM:
    """Return a Qwen3-VL of random weights that stops by itself before long."""
    processor = make_processor()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = make_judge_base(processor, layers=1)
    with torch.no_grad():
        model.model.language_model.embed_tokens.weight[processor.tokenizer.eos_token_id] *= 20
    save_judge_base(folder, model, processor)
    return LocalVLM(folder, name="tiny")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"instruct\.vlm, got none"):
        write_instructions(BuildFolder(tmp_path), InstructSettings())
    with pytest.raises(UserError, match=r"samples\.jsonl of the stage sample.*--stage sample"):
        write_instructions(BuildFolder(tmp_path), InstructSettings(Author()))
    with pytest.raises(UserError, match=r"instruct\.batch_size >= 1, got 0"):
        InstructSettings(Author(), batch_size=0)
