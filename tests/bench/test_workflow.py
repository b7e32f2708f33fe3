"""The steps over one run folder: what is done once, what is counted how, and what a kill leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

import bench.benchmarks
import bench.folder
from bench.benchmarks import Benchmark
from bench.folder import BenchRun
from bench.generators import FolderGenerator
from bench.results import Results
from bench.workflow import compare, generate, judge, summarize
from gnomon.datasets import dataset_hash, read_cases, read_records, write_records
from gnomon.errors import UserError
from gnomon.images import load_image, save_png
from gnomon.records import Candidate, Verdict

MakeDataset = Callable[..., Path]


def verdicts_of(run: Path) -> list[Verdict]:
    return read_records(run / "samples.jsonl", Verdict)


def test_the_steps_make_the_files_and_numbers_of_a_run(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run = make_dataset(6), tmp_path / "run"
    generate(root, run, brightness.NoisyCopy(), name="copy", repeats=2, batch_size=5)
    judge(run, brightness.BrightnessJudge(), batch_size=5)
    results = summarize(run)

    pictures = sorted((run / "images").iterdir())
    assert [path.name for path in pictures][:2] == ["case-0_0.png", "case-0_1.png"]
    levels = [np.asarray(load_image(path), float).mean() / 255 for path in pictures]
    cell = results.judges["brightness"].metrics["brightness"]
    assert cell.value == pytest.approx(np.mean(levels))
    assert (cell.n_total, cell.n_scored, cell.n_failed, cell.n_na, cell.n_pending) == (12, 12, 0, 0, 0)
    assert cell.num_clusters == 6
    assert cell.ci_low is not None
    assert cell.ci_low < np.mean(levels)
    assert set(cell.groups["task"]) == {"dark", "light"}
    assert cell.groups["task"]["dark"].n_total == 6
    assert results.candidates == {"ok": 12}
    assert Results.model_validate_json((run / "results.json").read_text()) == results


def test_cases_do_not_share_their_noise_and_repeats_differ(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    run = generate(make_dataset(8), tmp_path / "run", brightness.NoisyCopy(), name="copy", repeats=2)
    noise = [candidate.sampling["noise_seed"] for candidate in run.candidates()]
    assert len(set(noise)) == 16


def test_a_second_call_does_nothing_twice(make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path) -> None:
    root, run = make_dataset(4), tmp_path / "run"
    for _ in range(2):
        generator, judge_ = brightness.NoisyCopy(), brightness.BrightnessJudge()
        generate(root, run, generator, name="copy")
        judge(run, judge_)
    assert generator.calls == []
    assert judge_.num_requests == 0
    assert len(verdicts_of(run)) == 8
    assert len(read_records(run / "candidates.jsonl", Candidate)) == 4


def test_a_failure_that_stays_the_same_is_not_written_again_however_long_it_took(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    class Slower(brightness.BrightnessJudge):  # type: ignore[name-defined,misc]
        reason, seconds = "no face", 0.5

        def judge(self, requests: list[object]) -> list[Verdict]:
            failed = {"value": None, "status": "unreadable_image", "rationale": self.reason, "seconds": self.seconds}
            return [verdict.model_copy(update=failed) for verdict in super().judge(requests)]

    run, judge_ = tmp_path / "run", Slower()
    generate(make_dataset(2), run, brightness.NoisyCopy(), name="copy")
    judge(run, judge_)
    once = len(verdicts_of(run))
    judge_.seconds = 0.75
    judge(run, judge_)
    assert len(verdicts_of(run)) == once > 0
    judge_.reason = "no such file"
    judge(run, judge_)
    assert len(verdicts_of(run)) == 2 * once


def test_generation_goes_on_after_an_interrupt_with_the_same_batches(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run, whole = make_dataset(6), tmp_path / "run", tmp_path / "whole"
    generate(root, whole, brightness.NoisyCopy(), name="copy", batch_size=2)
    generate(root, run, brightness.NoisyCopy(), name="copy", batch_size=2)
    lines = (run / "candidates.jsonl").read_text().splitlines(keepends=True)
    (run / "candidates.jsonl").write_text("".join(lines[:3]) + lines[3][:20])
    generator = brightness.NoisyCopy()
    generate(root, run, generator, name="copy", batch_size=2)
    assert generator.calls == [["case-2", "case-3"], ["case-4", "case-5"]]
    assert (run / "candidates.jsonl").read_text() == (whole / "candidates.jsonl").read_text()


def test_kill_during_judge_loses_nothing_and_counts_nothing_twice(
    make_dataset: MakeDataset, brightness: ModuleType, importable: Path, tmp_path: Path
) -> None:
    root, run, whole = make_dataset(12), tmp_path / "run", tmp_path / "whole"
    for folder in (run, whole):
        generate(root, folder, brightness.NoisyCopy(), name="copy")
    judge(whole, brightness.BrightnessJudge(), batch_size=2)

    program = (
        "import sys; from brightness import BrightnessJudge; from bench.workflow import judge\n"
        "judge(sys.argv[1], BrightnessJudge(delay=0.05), batch_size=2)"
    )
    path = os.pathsep.join([str(importable), str(Path(__file__).parents[2])])
    process = subprocess.Popen([sys.executable, "-c", program, str(run)], env={**os.environ, "PYTHONPATH": path})
    samples = run / "samples.jsonl"
    deadline = time.monotonic() + 60
    while not samples.exists() or samples.read_bytes().count(b"\n") < 5:
        assert process.poll() is None, "the judge ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    finished = samples.read_bytes()
    assert finished.count(b"\n") < 24

    with samples.open("ab") as file:
        file.write(b'{"case_id": "case-')  # what a kill in the middle of a line leaves
    judge(run, brightness.BrightnessJudge(), batch_size=2)
    assert samples.read_bytes().startswith(finished)
    assert samples.read_bytes() == (whole / "samples.jsonl").read_bytes()
    assert summarize(run) == summarize(whole)


def test_a_batch_that_was_cut_short_is_judged_whole_and_only_its_rest_is_added(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    generate(make_dataset(4), run, brightness.NoisyCopy(), name="copy")
    judge(run, brightness.BrightnessJudge(), batch_size=2)
    whole = (run / "samples.jsonl").read_text()
    (run / "samples.jsonl").write_text("".join(whole.splitlines(keepends=True)[:5]))
    again = brightness.BrightnessJudge()
    judge(run, again, batch_size=2)
    assert (again.num_calls, again.num_requests) == (1, 4)
    assert (run / "samples.jsonl").read_text() == whole


def test_missing_and_broken_pictures_are_statuses_with_counts(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    outputs, run = tmp_path / "outputs", tmp_path / "run"
    for position in range(6):
        save_png(Image.new("RGB", (16, 16), "white"), outputs / f"case-{position}.png")
    (outputs / "case-1.png").unlink()
    (outputs / "case-2.png").write_bytes(b"no picture")
    done = generate(make_dataset(6), run, FolderGenerator(outputs), name="folder")
    assert [candidate.status for candidate in done.candidates()] == [
        "ok", "missing_output", "unreadable_image", "ok", "ok", "ok",
    ]  # fmt: skip
    (run / "images/case-3_0.png").unlink()
    whole = (run / "images/case-4_0.png").read_bytes()
    (run / "images/case-4_0.png").write_bytes(whole[: len(whole) // 2])

    judge_ = brightness.BrightnessJudge()
    judge(run, judge_)
    assert judge_.num_requests == 4
    results = summarize(run)
    cell = results.judges["brightness"].metrics["brightness"]
    assert cell.failed == {"missing_output": 2, "unreadable_image": 2}
    assert (cell.value, cell.n_total, cell.n_scored, cell.n_failed, cell.num_clusters) == (1.0, 6, 2, 4, 2)
    assert results.candidates == {"missing_output": 1, "ok": 4, "unreadable_image": 1}
    assert cell.groups["task"]["light"].n_failed == 2


def test_a_metric_that_only_other_cases_list_is_not_applicable(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run = make_dataset(4), tmp_path / "run"
    cases = [
        case.model_copy(update={"metrics": ["redness"] if case.task == "dark" else []}) for case in read_cases(root)
    ]
    write_records(root / "cases.jsonl", cases)
    generate(root, run, brightness.NoisyCopy(), name="copy")
    judge(run, brightness.BrightnessJudge())
    metrics = summarize(run).judges["brightness"].metrics
    assert (metrics["redness"].n_scored, metrics["redness"].n_na) == (2, 2)
    assert metrics["redness"].groups["task"]["light"].value is None
    assert (metrics["brightness"].n_scored, metrics["brightness"].n_na) == (4, 0)


def test_what_applies_to_a_case_does_not_hang_on_the_selection(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run = make_dataset(4), tmp_path / "run"
    cases = [
        case.model_copy(update={"metrics": ["redness" if case.task == "dark" else "brightness"]})
        for case in read_cases(root)
    ]
    write_records(root / "cases.jsonl", cases)
    generate(root, run, brightness.NoisyCopy(), name="copy", tasks=["light"])
    judge_ = brightness.BrightnessJudge()
    judge(run, judge_)
    metrics = summarize(run).judges["brightness"].metrics
    assert (metrics["brightness"].n_scored, metrics["redness"].n_scored, metrics["redness"].n_na) == (2, 0, 2)
    assert judge_.num_requests == 2


def test_what_the_benchmark_says_does_not_apply_is_not_asked(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = Benchmark("grey", "for tests", applies=lambda case, metric: (case.task, metric) != ("dark", "redness"))
    monkeypatch.setattr(bench.benchmarks, "known_benchmarks", lambda: {"grey": benchmark})
    run = tmp_path / "run"
    generate(make_dataset(4), run, brightness.NoisyCopy(), name="copy")
    judge(run, brightness.BrightnessJudge())
    redness = summarize(run).judges["brightness"].metrics["redness"]
    assert (redness.n_scored, redness.n_na) == (2, 2)


def test_what_is_not_judged_yet_is_pending(make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path) -> None:
    run = tmp_path / "run"
    generate(make_dataset(4), run, brightness.NoisyCopy(), name="copy")
    judge(run, brightness.BrightnessJudge())
    samples = (run / "samples.jsonl").read_text().splitlines(keepends=True)
    (run / "samples.jsonl").write_text("".join(samples[:2]))
    candidates = (run / "candidates.jsonl").read_text().splitlines(keepends=True)
    (run / "candidates.jsonl").write_text("".join(candidates[:3]))
    results = summarize(run)
    cell = results.judges["brightness"].metrics["brightness"]
    assert (cell.n_total, cell.n_scored, cell.n_pending) == (4, 1, 3)
    assert cell.ci_low is None
    assert results.candidates == {"ok": 3, "pending": 1}


def test_two_judges_add_their_verdicts_side_by_side(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    generate(make_dataset(3), run, brightness.NoisyCopy(), name="copy")
    judge(run, brightness.BrightnessJudge())
    judge(run, brightness.BrightnessJudge(name="second/opinion", version=2))
    assert set(summarize(run).judges) == {"brightness", "second/opinion"}
    assert len(verdicts_of(run)) == 12


def test_another_judge_under_the_same_name_is_refused(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    generate(make_dataset(3), run, brightness.NoisyCopy(), name="copy")
    judge(run, brightness.BrightnessJudge(version=1))
    with pytest.raises(UserError, match="give this judge another name"):
        judge(run, brightness.BrightnessJudge(version=2))
    assert len(verdicts_of(run)) == 6


def test_a_judge_that_never_answered_may_be_put_right_under_its_name(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    class Unreachable(brightness.BrightnessJudge):  # type: ignore[name-defined,misc]
        def judge(self, requests: list[object]) -> list[Verdict]:
            raise UserError("no such model")

    run = tmp_path / "run"
    generate(make_dataset(3), run, brightness.NoisyCopy(), name="copy")
    with pytest.raises(UserError, match="no such model"):
        judge(run, Unreachable(version=1))
    judge(run, brightness.BrightnessJudge(version=2))
    assert {verdict.judge for verdict in verdicts_of(run)} == {"brightness-2"}
    assert summarize(run).judges["brightness"].fingerprint == "brightness-2"


def test_another_generator_in_the_same_folder_is_refused(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run = make_dataset(3), tmp_path / "run"
    generate(root, run, brightness.NoisyCopy(), name="copy")
    with pytest.raises(UserError, match="generator_fingerprint"):
        generate(root, run, brightness.NoisyCopy(offset=3), name="copy")


def test_a_dataset_that_changed_is_not_judged(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run = make_dataset(3), tmp_path / "run"
    generate(root, run, brightness.NoisyCopy(), name="copy")
    save_png(Image.new("RGB", (16, 16), "blue"), root / "images/0.png")
    with pytest.raises(UserError, match="changed since"):
        judge(run, brightness.BrightnessJudge())


def test_a_folder_that_is_no_run_is_refused(brightness: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="gnomon bench generate"):
        judge(tmp_path, brightness.BrightnessJudge())


def test_a_judge_that_answers_another_question_is_stopped(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    class Confused(brightness.BrightnessJudge):  # type: ignore[name-defined,misc]
        def judge(self, requests: list[object]) -> list[Verdict]:
            answers: list[Verdict] = super().judge(requests)
            return answers[::-1]

    run = tmp_path / "run"
    generate(make_dataset(3), run, brightness.NoisyCopy(), name="copy")
    with pytest.raises(ValueError, match=r"asked for .'case-0', 0, 'brightness'"):
        judge(run, Confused())
    assert not (run / "samples.jsonl").exists()


def test_compare_pairs_by_case_and_leaves_out_what_one_side_lacks(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root = make_dataset(8)
    for name, offset in (("before", 0), ("after", 51)):
        generate(root, tmp_path / name, brightness.NoisyCopy(offset), name=name, repeats=2)
    (tmp_path / "after/images/case-0_0.png").unlink()
    (tmp_path / "after/images/case-0_1.png").unlink()
    (tmp_path / "after/images/case-1_1.png").unlink()
    for name in ("before", "after"):
        judge(tmp_path / name, brightness.BrightnessJudge())
    comparison = compare(tmp_path / "before", tmp_path / "after", tmp_path / "comparison")
    change = comparison.judges["brightness"]["brightness"]
    # The noise of a seed is the same in both runs, so a case with both repeats differs by exactly 51 / 255.
    assert (change.n_pairs, change.n_unpaired) == (7, 1)
    assert change.groups["task"]["dark"].difference == pytest.approx(0.2)
    assert change.groups["task"]["dark"].ci_low == pytest.approx(0.2)
    assert change.after is not None
    assert change.before is not None
    assert change.difference == pytest.approx(change.after - change.before)
    written = json.loads((tmp_path / "comparison/comparison.json").read_text())
    assert written["before"] == "before"


def test_runs_that_cannot_be_compared_are_refused(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    first, second = make_dataset(3), make_dataset(3, name="other", instruction="other words")
    for name, root in (("a", first), ("b", first), ("c", second)):
        generate(root, tmp_path / name, brightness.NoisyCopy(), name=name)
    judge(tmp_path / "a", brightness.BrightnessJudge(version=1))
    with pytest.raises(UserError, match="different datasets"):
        compare(tmp_path / "a", tmp_path / "c", tmp_path / "out")
    with pytest.raises(UserError, match="no judge in common"):
        compare(tmp_path / "a", tmp_path / "b", tmp_path / "out")
    judge(tmp_path / "b", brightness.BrightnessJudge(version=2))
    with pytest.raises(UserError, match="not the same in"):
        compare(tmp_path / "a", tmp_path / "b", tmp_path / "out")
    before = (tmp_path / "a/manifest.json").read_bytes()
    with pytest.raises(UserError, match="holds another run"):
        compare(tmp_path / "a", tmp_path / "a", tmp_path / "a")
    assert (tmp_path / "a/manifest.json").read_bytes() == before


def test_a_comparison_overwrites_itself_and_nothing_else(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root = make_dataset(3)
    for name in "abc":
        generate(root, tmp_path / name, brightness.NoisyCopy(), name=name)
        judge(tmp_path / name, brightness.BrightnessJudge())
    a, b, c, out = tmp_path / "a", tmp_path / "b", tmp_path / "c", tmp_path / "out"
    compare(a, b, out)
    for path in (a, b):
        judge(path, brightness.BrightnessJudge(name="second", version=2))
    assert set(compare(a, b, out).judges) == {"brightness", "second"}
    written = (out / "comparison.json").read_bytes()
    with pytest.raises(UserError, match=r"config\.after: 'b' -> 'c'.*inputs\.after"):
        compare(a, c, out)
    assert (out / "comparison.json").read_bytes() == written
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/report.html").write_text("mine")
    with pytest.raises(UserError, match=r"holds report\.html"):
        compare(a, b, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["report.html"]


def test_a_limited_run_knows_its_own_cases(make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path) -> None:
    run = generate(make_dataset(6), tmp_path / "run", brightness.NoisyCopy(), name="copy", limit=2, seed=7)
    assert BenchRun.read(run.path).items == [("case-0", 7), ("case-1", 7)]


def test_a_dataset_is_hashed_once_and_again_when_a_file_was_written(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, run = make_dataset(3), tmp_path / "run"
    generate(root, run, brightness.NoisyCopy(), name="copy")
    hashed: list[Path] = []

    def watched(path: Path) -> str:
        hashed.append(path)
        return dataset_hash(path)

    monkeypatch.setattr(bench.folder, "dataset_hash", watched)
    generate(root, run, brightness.NoisyCopy(), name="copy")
    judge(run, brightness.BrightnessJudge())
    assert hashed == []
    save_png(load_image(root / "images/0.png"), root / "images/0.png")  # the same pixels
    judge(run, brightness.BrightnessJudge())
    assert hashed == [root]
    save_png(Image.new("RGB", (16, 16), "red"), root / "images/0.png")
    with pytest.raises(UserError, match="changed since pictures of its cases were made"):
        judge(run, brightness.BrightnessJudge())


def test_a_dataset_that_moved_is_named_and_found_again_by_generate(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run = make_dataset(3), tmp_path / "run"
    generate(root, run, brightness.NoisyCopy(), name="copy")
    moved = root.rename(tmp_path / "moved")
    with pytest.raises(UserError, match=rf"were read from {root}, which is no longer there; .* as --cases"):
        judge(run, brightness.BrightnessJudge())
    generator = brightness.NoisyCopy()
    generate(moved, run, generator, name="copy")
    judge(run, brightness.BrightnessJudge())
    assert generator.calls == []
    assert summarize(run).judges["brightness"].metrics["redness"].n_scored == 3
