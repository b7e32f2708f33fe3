"""Prompts that are written, turned down, written again with the reasons told, given up, and let pass by people."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from data_build.cogcanvas.drafts import CheckAnswer, Draft, mentions
from data_build.cogcanvas.folder import BuildFolder
from data_build.cogcanvas.scene_graphs import complete_graphs, read_graphs
from data_build.cogcanvas.scenes import read_scenes
from data_build.cogcanvas.settings import GraphSettings, VerifySettings, WriteSettings
from data_build.cogcanvas.verify import read_decisions, verify_drafts
from data_build.cogcanvas.write import scene_materials, write_drafts
from gnomon.errors import UserError
from gnomon.jsonl import read_records, write_records
from rm.vlm.conversation import GenerationParameters
from rm.vlm.scripted import ScriptedVLM
from tests.data_build.cogcanvas.annotator import Annotator
from tests.data_build.cogcanvas.stages import sampled, written
from tests.data_build.mdmr.test_instructions import tiny_model


@pytest.fixture
def folder(tmp_path: Path) -> BuildFolder:
    return sampled(tmp_path)


def drafts(folder: BuildFolder) -> list[Draft]:
    return read_records(folder.drafts, Draft)


def first_scene(folder: BuildFolder) -> tuple[str, str]:
    """Return the id of the first scene and the text by which a model knows it."""
    materials, _ = scene_materials(folder)
    name = next(iter(materials))
    return name, materials[name].text()


def test_a_draft_that_is_turned_down_is_written_again_and_the_model_is_told_why(folder: BuildFolder) -> None:
    materials, _ = scene_materials(folder)
    place = next(iter(materials.values())).background.name
    num = sum(one.background.name == place for one in materials.values())
    annotator = Annotator(rejects={"layout": place})

    first = written(folder, annotator)
    assert (first.num_kept, first.num_waiting) == (4 - num, num)
    assert first.rejections == {"plausibility": (0, 4), "layout": (num, 4), "compatibility": (0, 4)}

    second = written(folder, annotator)
    assert (second.num_kept, second.num_waiting) == (4, 0)
    assert second.rejections["layout"] == (num, 4 + num)
    assert second.attempts == {"1": 4 - num, "2": num}
    again = [draft for draft in drafts(folder) if draft.about.endswith("/2")]
    assert len(again) == num
    assert all("slowly" in draft.written.prompt for draft in again if draft.written is not None)

    asked = annotator.num_asked
    assert written(folder, annotator) == second
    assert annotator.num_asked == asked


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("unmentioned", "not_mentioned"),
        ("absent", "absent_person"),
        ("cycle", "contradictory_positions"),
        ("nonsense", "unwritten"),
    ],
)
def test_a_draft_that_breaks_our_rules_is_followed_by_the_next_one_at_once(
    folder: BuildFolder, fault: str, kind: str
) -> None:
    name, text = first_scene(folder)
    report = written(folder, Annotator(first_faults={text: fault}))
    assert report.num_kept == 4
    assert report.rules == {kind: 1}
    assert report.num_drafts == 5
    assert report.rejections["layout"] == (0, 4)  # what breaks a rule is not checked by the model
    assert [draft.about for draft in drafts(folder) if draft.about.startswith(name)] == [f"{name}/1", f"{name}/2"]


def test_a_scene_is_given_up_after_its_last_attempt_and_people_may_let_it_pass(
    folder: BuildFolder, tmp_path: Path
) -> None:
    name, _ = first_scene(folder)
    materials, _ = scene_materials(folder)
    annotator = Annotator(always_rejects=f"before {materials[name].background.name}")
    report = written(folder, annotator, rounds=2, max_attempts=2)
    given_up = [one for one in read_decisions(folder) if one.outcome == "given_up"]
    assert name in {one.scene for one in given_up}
    assert report.num_kept == 4 - len(given_up)
    assert all(one.draft == f"{one.scene}/2" for one in given_up)
    assert given_up[0].problems == [
        f"{check}: {check} is wrong here" for check in ("plausibility", "layout", "compatibility")
    ]

    sheet = (folder.stage("verify") / "review.csv").read_text(encoding="utf-8-sig").splitlines()
    rows = list(csv.DictReader(sheet))
    by_draft = {row["draft"]: row for row in rows}
    by_draft[f"{name}/2"] |= {"reviewer": "Ann", "keep": "yes", "reason": "there is room enough"}
    passed = next(one for one in read_decisions(folder) if one.outcome == "passed")
    by_draft[str(passed.draft)] |= {"reviewer": "Ann", "keep": "no", "reason": "in bad taste"}
    file = tmp_path / "ann.csv"
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0].keys())
        writer.writeheader()
        writer.writerows([*rows, {**rows[0], "draft": "scene-99999/1", "reviewer": "Ann", "keep": "yes"}])

    report = verify_drafts(
        folder, VerifySettings(annotator, overrides=[file]), WriteSettings(annotator, max_attempts=2)
    )
    decisions = {one.scene: one for one in read_decisions(folder)}
    assert (decisions[name].outcome, decisions[name].override) == ("overridden", "ann: there is room enough")
    assert (decisions[passed.scene].outcome, decisions[passed.scene].problems) == ("taken_out", ["ann: in bad taste"])
    assert report.problems == {"unknown_item": 1}
    complete_graphs(folder, GraphSettings())
    assert {one.scene: one.override for one in read_graphs(folder)}[name] == "ann: there is room enough"


def test_nobody_lets_a_contradiction_pass(folder: BuildFolder, tmp_path: Path) -> None:
    name, text = first_scene(folder)
    annotator = Annotator(first_faults={text: "cycle"})
    written(folder, annotator, max_attempts=1)
    file = tmp_path / "ann.jsonl"
    write_records(file, [{"draft": f"{name}/1", "reviewer": "Ann", "keep": True}])
    verify_drafts(folder, VerifySettings(annotator, overrides=[file]), WriteSettings(annotator, max_attempts=1))
    decision = next(one for one in read_decisions(folder) if one.scene == name)
    assert decision.outcome == "given_up"
    assert decision.problems[0].startswith("contradictory_positions: ")


def test_a_scene_whose_reference_is_gone_is_counted_and_the_others_go_on(folder: BuildFolder) -> None:
    name, _ = first_scene(folder)
    scene = next(one for one in read_scenes(folder.scenes) if one.id == name)
    lines = folder.references.read_text().splitlines(keepends=True)
    folder.references.write_text("".join(line for line in lines if f'"id": "{scene.people[0]}"' not in line))
    usable, unusable = scene_materials(folder)
    assert unusable[name] == f"reference_gone: {scene.people[0]}"

    report = written(folder, Annotator())
    assert report.num_kept == len(usable) < 4
    assert report.outcomes["unusable"] == len(unusable)


def test_two_pictures_of_one_person_are_no_two_people(folder: BuildFolder) -> None:
    scenes = read_scenes(folder.scenes)
    person = scenes[0].people[0]
    other = person[:-1] + ("2" if person.endswith("1") else "1")
    people = [person, other, *scenes[0].people[2:]]
    bindings = [one.model_copy(update={"person": person}) for one in scenes[0].bindings[:1]]
    write_records(folder.scenes, [scenes[0].model_copy(update={"people": people, "bindings": bindings}), *scenes[1:]])
    _, unusable = scene_materials(folder)
    assert list(unusable) == [scenes[0].id]
    assert unusable[scenes[0].id].startswith("one_identity_twice: ")
    assert written(folder, Annotator()).outcomes == {"passed": 3, "unusable": 1}


def test_a_person_and_an_item_of_one_name_are_in_no_scene_together(folder: BuildFolder) -> None:
    """Neither graph nor prompt could tell them apart."""
    scene = read_scenes(folder.scenes)[0]
    lines = [json.loads(line) for line in folder.references.read_text().splitlines()]
    names = {line["picture"]["entry"]["id"]: line["picture"]["entry"]["name"] for line in lines}
    for line in lines:
        if line["picture"]["entry"]["id"] == scene.bindings[0].item:
            line["picture"]["entry"]["name"] = names[scene.people[0]].upper()
    folder.references.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    _, unusable = scene_materials(folder)
    assert unusable[scene.id].startswith("one_name_twice: ")


def test_a_model_that_does_not_answer_leaves_scenes_waiting(folder: BuildFolder) -> None:
    silent = ScriptedVLM("table", table={})
    report = write_drafts(folder, WriteSettings(silent))
    assert report.states == {"to_write": 4}
    assert report.statuses == {"api_error": 4}
    checked = verify_drafts(folder, VerifySettings(silent), WriteSettings(silent))
    assert checked.outcomes == {"to_write": 4}
    with pytest.raises(UserError, match="no scene is kept: to_write 4"):
        complete_graphs(folder, GraphSettings())


def test_a_check_without_an_answer_is_neither_passed_nor_turned_down(folder: BuildFolder) -> None:
    annotator = Annotator()
    writing = WriteSettings(annotator)
    write_drafts(folder, writing)
    report = verify_drafts(folder, VerifySettings(ScriptedVLM("always_yes")), writing)
    assert report.outcomes == {"unchecked": 4}
    assert report.rejections["layout"] == (0, 0)
    answers = read_records(folder.checks, CheckAnswer)
    assert {answer.status for answer in answers} == {"parse_error"}
    assert len(answers) == 12


def test_a_real_model_that_cannot_write_ends_with_scenes_that_are_given_up(tmp_path: Path) -> None:
    folder = sampled(tmp_path, num=2)
    vlm = tiny_model(tmp_path / "model")
    settings = WriteSettings(vlm, GenerationParameters(max_tokens=20, temperature=1.0), max_attempts=2)
    report = write_drafts(folder, settings)
    assert report.states == {"given_up": 2}
    assert set(report.statuses) <= {"parse_error", "truncated", "refused"}
    assert sum(report.statuses.values()) == 4
    assert report.problems == {"unwritten": 4}


def test_killed_and_run_again_it_ends_with_the_same_bytes(
    tmp_path: Path,
    contents: Callable[[Path], dict[str, bytes]],
    kill_when: Callable[[str, Callable[[], bool]], None],
) -> None:
    killed, whole = sampled(tmp_path / "killed"), sampled(tmp_path / "whole")
    program = (
        "from data_build.cogcanvas.folder import BuildFolder\n"
        "from data_build.cogcanvas.settings import WriteSettings\n"
        "from data_build.cogcanvas.write import write_drafts\n"
        "from tests.data_build.cogcanvas.annotator import Annotator\n"
        f"write_drafts(BuildFolder({str(killed.path)!r}), WriteSettings(Annotator(delay=0.3), batch_size=1))"
    )
    kill_when(program, lambda: killed.drafts.exists() and killed.drafts.read_bytes().count(b"\n") >= 2)
    finished = killed.drafts.read_bytes().count(b"\n")
    with killed.drafts.open("ab") as lines:
        lines.write(b'{"about": "torn')

    annotator = Annotator()
    for build, writer in ((killed, annotator), (whole, Annotator())):
        write_drafts(build, WriteSettings(writer, batch_size=1))
    assert contents(killed.stage("write")) == contents(whole.stage("write"))
    assert annotator.num_asked == 4 - finished


def test_names_are_found_as_whole_words() -> None:
    assert mentions("Then ann  Lee waves.", "Ann Lee")
    assert not mentions("Joanne Leeds waves.", "anne Leed")
    assert mentions("It is O'Neill (Jr.)!", "O'Neill (Jr.)")


def test_settings_out_of_range_and_missing_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="max_attempts >= 1"):
        WriteSettings(max_attempts=0)
    with pytest.raises(UserError, match=r"expected a model under write\.vlm"):
        write_drafts(BuildFolder(tmp_path), WriteSettings())
    with pytest.raises(UserError, match="run it first, with --stage write"):
        verify_drafts(BuildFolder(tmp_path), VerifySettings(Annotator()), WriteSettings())


def test_every_reply_is_kept_as_it_came(folder: BuildFolder) -> None:
    written(folder, Annotator())
    assert all(json.loads(draft.raw or "")["scene"]["prompt"] for draft in drafts(folder))
