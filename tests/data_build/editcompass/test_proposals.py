from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from data_build.editcompass.photos import Photo
from data_build.editcompass.proposals import Proposal, propose_edits
from data_build.editcompass.questions import ask_for_instructions
from data_build.tabletop.tiny_judge import make_judge_base, make_processor, save_judge_base
from gnomon.errors import UserError
from gnomon.images import content_hash, load_image, save_png
from gnomon.jsonl import read_records
from rm.vlm.conversation import VLM, GenerationParameters
from rm.vlm.local import LocalVLM
from rm.vlm.scripted import ScriptedVLM
from rm.vlm.wire import conversation_hash
from tests.data_build.editcompass.writers import Writer, noise

TASKS = ("add", "remove")


def proposals(out: Path) -> list[Proposal]:
    return read_records(out / "proposals.jsonl", Proposal)


def test_every_model_writes_three_for_every_photograph_and_task(photos: Path, tmp_path: Path) -> None:
    summary = propose_edits(photos, tmp_path / "out", [Writer("one"), Writer("two")], tasks=TASKS)
    written = proposals(tmp_path / "out")
    taken = read_records(tmp_path / "out" / "photos.jsonl", Photo)

    assert (summary.num_photos, summary.num_asked, summary.statuses) == (3, 36, {"ok": 36})
    assert summary.statuses_of_models == {"one": {"ok": 18}, "two": {"ok": 18}}
    assert Counter((line.task, line.model) for line in written) == {
        (task, model): 9 for task in TASKS for model in ("one", "two")
    }
    assert len({line.id for line in written}) == len({line.key for line in written}) == 36
    assert all(line.instruction and line.instruction.en and line.instruction.zh for line in written)
    assert [photo.file for photo in taken] == ["a.png", "b.png", "holiday/c.png"]
    for photo in taken:
        assert content_hash(tmp_path / "out" / photo.path) == content_hash(photos / photo.file)
        assert content_hash(photos / photo.file).startswith(photo.id)


def test_the_manifest_holds_models_and_our_words(photos: Path, tmp_path: Path) -> None:
    propose_edits(photos, tmp_path / "out", [Writer()], tasks=TASKS)
    config = json.loads((tmp_path / "out" / "manifest.json").read_text())["config"]

    assert config["models"] == {"writer": "writer writer"}
    assert config["texts"].startswith("version 1, ")
    assert (config["tasks"], config["num"]) == (["add", "remove"], 3)


def test_failures_are_statuses_with_counts_and_one_model_does_not_spoil_another(photos: Path, tmp_path: Path) -> None:
    first, second, third = (load_image(photos / name) for name in ("a.png", "b.png", "holiday/c.png"))
    entries = [{"en": "Add a cat.", "zh": "加一只猫。"}, {"en": "Add a dog.", "zh": ""}]
    table = {
        conversation_hash(ask_for_instructions(first, "add", 2)): json.dumps({"instructions": entries}),
        conversation_hash(ask_for_instructions(second, "add", 2)): "I am sorry, I cannot help with that.",
    }
    assert third.size == (24, 24)

    vlms: list[VLM] = [ScriptedVLM("table", table=table, name="scripted"), Writer()]
    summary = propose_edits(photos, tmp_path / "out", vlms, tasks=["add"], num=2)

    assert summary.statuses_of_models == {
        "scripted": {"api_error": 2, "ok": 1, "parse_error": 1, "refused": 2},
        "writer": {"ok": 6},
    }
    lines = [line for line in proposals(tmp_path / "out") if line.model == "scripted"]
    assert [line.raw is not None for line in lines] == [True, False, True, False, False, False]
    assert all(line.reason for line in lines if line.status != "ok")


def test_run_again_only_what_failed_or_is_new_is_asked(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    propose_edits(photos, out, [Writer(broken="Take away")], tasks=TASKS)
    before = (out / "proposals.jsonl").read_bytes()
    (photos / "a.png").rename(photos / "renamed.png")
    save_png(noise(9), photos / "new.png")

    again = Writer()
    summary = propose_edits(photos, out, [again], tasks=TASKS)

    assert again.num_asked == 3 + 2
    assert (out / "proposals.jsonl").read_bytes().startswith(before)
    assert (summary.num_photos, summary.statuses) == (4, {"ok": 24})

    idle = Writer()
    propose_edits(photos, out, [idle], tasks=TASKS)
    assert idle.num_asked == 0


def test_a_failure_that_stays_the_same_is_no_news(photos: Path, tmp_path: Path) -> None:
    propose_edits(photos, tmp_path / "out", [Writer(broken="photograph")], tasks=["add"])
    before = (tmp_path / "out" / "proposals.jsonl").read_bytes()

    summary = propose_edits(photos, tmp_path / "out", [Writer(broken="photograph")], tasks=["add"])

    assert (tmp_path / "out" / "proposals.jsonl").read_bytes() == before
    assert summary.statuses == {"parse_error": 9}


def test_killed_and_run_again_it_ends_with_the_same_bytes(
    photos: Path,
    tmp_path: Path,
    contents: Callable[[Path], dict[str, bytes]],
    kill_when: Callable[[str, Callable[[], bool]], None],
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    program = (
        "from data_build.editcompass.proposals import propose_edits\n"
        "from tests.data_build.editcompass.writers import Writer\n"
        f"propose_edits({str(photos)!r}, {str(out)!r}, [Writer(delay=0.1)], tasks={TASKS}, batch_size=1)"
    )
    file = out / "proposals.jsonl"
    kill_when(program, lambda: file.exists() and file.read_bytes().count(b"\n") >= 4)
    finished = file.read_bytes()
    assert finished.count(b"\n") < 18

    with file.open("ab") as lines:
        lines.write(b'{"id": "torn')  # what a kill in the middle of a line leaves
    writer = Writer()
    propose_edits(photos, out, [writer], tasks=TASKS, batch_size=1)
    propose_edits(photos, whole, [Writer()], tasks=TASKS, batch_size=1)

    assert contents(out) == contents(whole)
    assert file.read_bytes().startswith(finished[: finished.rfind(b"\n") + 1])
    assert writer.num_asked <= 6 - finished.count(b"\n") // 3


def test_a_real_model_that_cannot_write_ends_in_statuses(photos: Path, tmp_path: Path) -> None:
    processor = make_processor()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = make_judge_base(processor, layers=1)
    with torch.no_grad():  # so that it stops by itself before long
        model.model.language_model.embed_tokens.weight[processor.tokenizer.eos_token_id] *= 20
    save_judge_base(tmp_path / "model", model, processor)
    vlm = LocalVLM(tmp_path / "model", name="tiny")
    parameters = GenerationParameters(max_tokens=100, temperature=1.0)

    summary = propose_edits(photos, tmp_path / "out", [vlm], tasks=TASKS, parameters=parameters)

    written = proposals(tmp_path / "out")
    assert (summary.num_asked, summary.statuses) == (18, {"parse_error": 18})
    assert all(line.instruction is None and line.reason for line in written)
    assert any(line.raw for line in written if line.number == 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tasks": ["ad"]}, "got 'ad' .did you mean 'add'"),
        ({"tasks": ["causal"]}, "got 'causal'.*built from scenarios or by program"),
        ({"tasks": []}, "got none"),
        ({"tasks": ["add", "add"]}, "different tasks"),
        ({"num": 0}, "num and batch_size >= 1, got 0"),
        ({"vlms": []}, "models with names of their own, got none"),
        ({"vlms": [Writer(), Writer()]}, "names of their own, got writer, writer"),
    ],
)
def test_wrong_arguments_are_named_and_leave_no_folder(
    photos: Path, tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        propose_edits(photos, tmp_path / "out", **{"vlms": [Writer()], "tasks": ["add"], **arguments})

    assert not (tmp_path / "out").exists()


def test_a_folder_without_photographs_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is none; check --photos"):
        propose_edits(tmp_path / "nowhere", tmp_path / "out", [Writer()], tasks=["add"])
    (tmp_path / "photos").mkdir()
    with pytest.raises(UserError, match="found none; check --photos"):
        propose_edits(tmp_path / "photos", tmp_path / "out", [Writer()], tasks=["add"])
    (tmp_path / "photos" / "a.png").write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"no photograph .* can be read, the first: .*a\.png"):
        propose_edits(tmp_path / "photos", tmp_path / "out", [Writer()], tasks=["add"])
