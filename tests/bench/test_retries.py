"""The same commands again: what failed is tried again, what is an answer stays, and the manifest tells no lies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bench.folder import BenchRun
from bench.generators import FolderGenerator
from bench.workflow import generate, judge, summarize
from gnomon.datasets import read_cases, write_records
from gnomon.errors import UserError
from gnomon.images import save_png

MakeDataset = Callable[..., Path]


def manifest_of(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "manifest.json").read_text())
    return content


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n")


@pytest.mark.parametrize(
    ("status", "again"),
    [("missing_output", True), ("unreadable_image", True), ("api_error", True), ("refused", False)],
)
def test_a_failed_candidate_is_made_again_alone_unless_its_failure_is_an_answer(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path, status: str, again: bool
) -> None:
    root, run, whole = make_dataset(4), tmp_path / "run", tmp_path / "whole"
    generate(root, run, brightness.MoodyCopy({"case-1": status}), name="copy")
    judge(run, brightness.MoodyJudge())
    assert summarize(run).judges["brightness"].metrics["brightness"].failed == {status: 1}

    generator, judge_ = brightness.MoodyCopy(), brightness.MoodyJudge()
    generate(root, run, generator, name="copy")
    judge(run, judge_)
    assert generator.calls == ([["case-1"]] if again else [])
    assert judge_.asked == ([("case-1", "brightness"), ("case-1", "redness")] if again else [])
    results = summarize(run)
    if again:
        generate(root, whole, brightness.MoodyCopy(), name="copy")
        judge(whole, brightness.MoodyJudge())
        assert results == summarize(whole)
    else:
        assert results.candidates == {"ok": 3, status: 1}


@pytest.mark.parametrize(
    ("status", "again"),
    [("api_error", True), ("truncated", True), ("parse_error", True), ("unreadable_image", True), ("refused", False),
     ("not_applicable", False), ("out_of_range", False)],
)  # fmt: skip
def test_a_failed_verdict_is_asked_for_again_alone_unless_its_failure_is_an_answer(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path, status: str, again: bool
) -> None:
    run = tmp_path / "run"
    generate(make_dataset(4), run, brightness.MoodyCopy(), name="copy")
    judge(run, brightness.MoodyJudge({"case-2": status}))
    judge_ = brightness.MoodyJudge()
    judge(run, judge_)
    assert judge_.asked == ([("case-2", "redness")] if again else [])
    cell = summarize(run).judges["brightness"].metrics["redness"]
    assert (cell.n_scored, cell.n_failed + cell.n_na) == ((4, 0) if again else (3, 1))


def test_a_failure_that_is_the_same_again_adds_nothing_and_asks_no_judge(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run = make_dataset(4), tmp_path / "run"
    for _ in range(3):
        generate(root, run, brightness.MoodyCopy({"case-1": "api_error"}), name="copy")
        (run / "images/case-3_0.png").write_bytes(b"no picture")
        judge_ = brightness.MoodyJudge({"case-2": "parse_error"})
        judge(run, judge_)
    assert judge_.asked == [("case-2", "redness")]
    assert lines_of(run / "candidates.jsonl") == 4
    assert lines_of(run / "samples.jsonl") == 8


def test_a_retry_that_was_cut_short_goes_on(make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path) -> None:
    root, run, whole = make_dataset(6), tmp_path / "run", tmp_path / "whole"
    generate(root, whole, brightness.MoodyCopy(), name="copy", batch_size=3)
    failures = dict.fromkeys(("case-0", "case-2", "case-5"), "api_error")
    generate(root, run, brightness.MoodyCopy(failures), name="copy", batch_size=3)
    lines = (run / "candidates.jsonl").read_text().splitlines(keepends=True)
    (run / "candidates.jsonl").write_text("".join(lines[:5]))  # killed before case-5
    generator = brightness.MoodyCopy()
    generate(root, run, generator, name="copy", batch_size=3)
    assert generator.calls == [["case-0", "case-2"], ["case-3", "case-4", "case-5"]]
    assert BenchRun.read(run).candidates() == BenchRun.read(whole).candidates()


def test_pictures_that_were_forgotten_can_be_added_and_are_then_scored(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run, outputs = make_dataset(4), tmp_path / "run", tmp_path / "outputs"
    save_png(Image.new("RGB", (16, 16), "white"), outputs / "case-0.png")
    (outputs / "case-1.png").write_bytes(b"half a picture")
    for done in (1, 4):
        generate(root, run, FolderGenerator(outputs), name="mine")
        judge(run, brightness.BrightnessJudge())
        results = summarize(run)
        assert results.candidates["ok"] == done
        assert results.judges["brightness"].metrics["brightness"].n_scored == done
        for position in range(1, 4):
            save_png(Image.new("RGB", (16, 16), "black"), outputs / f"case-{position}.png")
    assert results.judges["brightness"].metrics["brightness"].value == pytest.approx(np.mean([1, 0, 0, 0]))


def test_pictures_that_were_overwritten_since_are_refused_and_leave_the_run_as_it_is(
    make_dataset: MakeDataset, tmp_path: Path
) -> None:
    root, run, outputs = make_dataset(2), tmp_path / "run", tmp_path / "outputs"
    for position in range(2):
        save_png(Image.new("RGB", (16, 16), "white"), outputs / f"case-{position}.png")
    generate(root, run, FolderGenerator(outputs), name="mine")
    before = (run / "manifest.json").read_bytes()
    save_png(Image.new("RGB", (16, 16), "black"), outputs / "case-1.png")
    with pytest.raises(UserError, match=r"outputs/case-1\.png changed since .*another --out"):
        generate(root, run, FolderGenerator(outputs), name="mine")
    assert (run / "manifest.json").read_bytes() == before


def test_an_interrupted_generation_is_not_finished_by_the_steps_after_it(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    class Stopped(brightness.NoisyCopy):  # type: ignore[name-defined,misc]
        def generate(self, *arguments: Any) -> Any:
            if self.calls:
                raise KeyboardInterrupt
            return super().generate(*arguments)

    root, run = make_dataset(4), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        generate(root, run, Stopped(), name="copy", batch_size=2)
    before = manifest_of(run)
    assert before["status"] == "interrupted"
    summarize(run)
    assert manifest_of(run) == before
    judge(run, brightness.BrightnessJudge())
    assert manifest_of(run)["status"] == "interrupted"
    generate(root, run, Stopped(), name="copy", batch_size=4)
    assert manifest_of(run)["status"] == "finished"
    steps = [(entry["step"], entry["status"]) for entry in manifest_of(run)["starts"]]
    assert steps == [("generate", "interrupted"), ("judge brightness", "finished"), ("generate", "finished")]


def test_a_refused_judge_leaves_a_finished_run_finished(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    generate(make_dataset(2), run, brightness.NoisyCopy(), name="copy")
    judge(run, brightness.BrightnessJudge())
    before = manifest_of(run)
    with pytest.raises(UserError, match="give this judge another name"):
        judge(run, brightness.BrightnessJudge(version=2))
    assert manifest_of(run) == before


@pytest.mark.parametrize("name", ["sk-abcdefghijklmnopqrst", "task-removal-v1", "https://a:b@host/model"])
def test_a_generator_s_name_is_shown_in_full_and_two_never_count_as_one(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path, name: str
) -> None:
    root, run = make_dataset(2), tmp_path / "run"
    assert generate(root, run, brightness.NoisyCopy(), name=name).config.generator == name
    assert summarize(run).generator == name
    with pytest.raises(UserError, match=r"config\.generator"):
        generate(root, run, brightness.NoisyCopy(), name=f"{name}-2")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"cases": 3}', "\xff"])
@pytest.mark.parametrize("name", ["generate.json", "judge_brightness.json"])
def test_a_damaged_file_of_a_run_is_a_message_that_names_it(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path, name: str, content: str
) -> None:
    run = tmp_path / "run"
    generate(make_dataset(2), run, brightness.NoisyCopy(), name="copy")
    judge(run, brightness.BrightnessJudge())
    (run / name).write_text(content, encoding="latin-1")
    for step in (lambda: summarize(run), lambda: judge(run, brightness.BrightnessJudge())):
        with pytest.raises(UserError, match=rf"{name} is not as `gnomon bench` wrote it: .+; delete it and run"):
            step()


def test_case_ids_that_are_too_long_for_file_names_go_through_all_steps(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run = make_dataset(2), tmp_path / "run"
    cases = [case.model_copy(update={"id": "x" * 300 + str(place)}) for place, case in enumerate(read_cases(root))]
    write_records(root / "cases.jsonl", cases)
    generate(root, run, brightness.NoisyCopy(), name="copy")
    judge(run, brightness.BrightnessJudge(name="j" * 300))
    assert summarize(run).judges["j" * 300].metrics["redness"].n_scored == 2
