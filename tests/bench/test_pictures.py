"""Pictures of a run that were lost: they are made again, and verdicts count only for the picture they are about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

import bench.pictures
from bench.folder import BenchRun
from bench.generators import Failure, FolderGenerator
from bench.workflow import generate, judge, summarize
from gnomon.images import content_hash, load_image, save_png
from gnomon.records import Case

MakeDataset = Callable[..., Path]
LOST = "images/case-2_0.png"


def remove(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:40])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def overwrite(file: Path) -> None:
    save_png(Image.new("RGB", (16, 16), "red"), file)


def move_an_old_one_over_it(file: Path) -> None:
    other = file.with_suffix(".other")
    overwrite(other)
    os.utime(other, (0, 0))
    other.replace(file)


def turn_into_a_link_to_nothing(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.with_suffix(".gone"))


DAMAGES = [remove, cut, empty, overwrite, move_an_old_one_over_it, turn_into_a_link_to_nothing]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_lost_picture_is_made_again_and_its_verdicts_stay(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    root, run = make_dataset(6), tmp_path / "run"
    generate(root, run, brightness.NoisyCopy(), name="copy", batch_size=3)
    judge(run, brightness.BrightnessJudge())
    before, pixels = summarize(run), content_hash(run / LOST)
    damage(run / LOST)
    generator, judge_ = brightness.NoisyCopy(), brightness.BrightnessJudge()
    generate(root, run, generator, name="copy", batch_size=3)
    assert generator.calls == [["case-0", "case-1", "case-2"]]  # the whole batch, of which its bits may depend
    assert content_hash(run / LOST) == pixels
    judge(run, judge_)
    assert judge_.num_requests == 0
    assert summarize(run) == before
    assert (run / "candidates.jsonl").read_bytes().count(b"\n") == 6


class Itemwise:
    """Makes each picture by itself, in a colour that nobody fixes."""

    is_itemwise = True

    def __init__(self, colour: str = "white", failures: Sequence[str] = (), stopped_at: str | None = None) -> None:
        self.colour, self.failures, self.stopped_at = colour, failures, stopped_at
        self.calls: list[list[str]] = []

    def generate(self, cases: Sequence[Case], *_: Any) -> list[Image.Image | Failure]:
        self.calls.append([case.id for case in cases])
        if self.stopped_at in self.calls[-1]:
            raise KeyboardInterrupt
        return [
            Failure("api_error", "no") if case.id in self.failures else Image.new("RGB", (16, 16), self.colour)
            for case in cases
        ]


def test_a_picture_that_comes_out_otherwise_is_judged_again_and_old_verdicts_do_not_count(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run = make_dataset(4), tmp_path / "run"
    generate(root, run, Itemwise(), name="api")
    judge(run, brightness.BrightnessJudge())
    (run / LOST).unlink()
    generator = Itemwise("black")
    generate(root, run, generator, name="api")
    assert generator.calls == [["case-2"]]
    cell = summarize(run).judges["brightness"].metrics["brightness"]
    assert (cell.value, cell.n_scored, cell.n_pending) == (1.0, 3, 1)
    judge(run, brightness.BrightnessJudge())
    cell = summarize(run).judges["brightness"].metrics["brightness"]
    assert (cell.value, cell.n_scored) == (0.75, 4)

    (run / LOST).unlink()  # and back to the picture that was judged first
    generate(root, run, Itemwise(), name="api")
    judge_ = brightness.BrightnessJudge()
    judge(run, judge_)
    assert judge_.num_requests == 0
    assert summarize(run).judges["brightness"].metrics["brightness"].value == 1.0


def test_a_picture_that_cannot_be_made_again_is_a_failure_whatever_was_said_of_it(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run = make_dataset(4), tmp_path / "run"
    generate(root, run, Itemwise(), name="api")
    judge(run, brightness.BrightnessJudge())
    (run / LOST).unlink()
    generate(root, run, Itemwise(failures=["case-2"]), name="api")
    for step in (lambda: None, lambda: judge(run, brightness.BrightnessJudge())):
        step()
        results = summarize(run)
        cell = results.judges["brightness"].metrics["brightness"]
        assert results.candidates == {"api_error": 1, "ok": 3}
        assert cell.n_scored == 3
    assert cell.failed == {"api_error": 1}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_judge_does_not_look_at_a_lost_picture_and_is_asked_when_it_was_made_again(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    root, run = make_dataset(4), tmp_path / "run"
    generate(root, run, brightness.NoisyCopy(), name="copy")
    damage(run / LOST)
    judge(run, brightness.BrightnessJudge())
    cell = summarize(run).judges["brightness"].metrics["brightness"]
    assert (cell.n_scored, cell.n_failed) == (3, 1)
    generate(root, run, brightness.NoisyCopy(), name="copy")
    judge_ = brightness.BrightnessJudge()
    judge(run, judge_)
    assert judge_.num_requests == 2
    assert summarize(run).judges["brightness"].metrics["brightness"].n_scored == 4


def test_a_kill_between_two_lost_pictures_does_not_hide_the_second(make_dataset: MakeDataset, tmp_path: Path) -> None:
    root, run = make_dataset(4), tmp_path / "run"
    generate(root, run, Itemwise(), name="api", batch_size=1)
    for position in (1, 3):
        overwrite(run / f"images/case-{position}_0.png")
    with pytest.raises(KeyboardInterrupt):
        generate(root, run, Itemwise("blue", stopped_at="case-3"), name="api", batch_size=1)
    generator = Itemwise("blue")
    generate(root, run, generator, name="api", batch_size=1)
    assert generator.calls == [["case-3"]]
    assert load_image(run / "images/case-3_0.png").getpixel((0, 0)) == (0, 0, 255)


def test_pictures_that_nobody_touched_are_not_opened_and_those_of_a_copied_run_once(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def watched(path: Path) -> Image.Image:
        opened.append(path.name)
        return load_image(path)

    root, run = make_dataset(4), tmp_path / "run"
    generate(root, run, brightness.NoisyCopy(), name="copy")
    shutil.copytree(run, tmp_path / "copied")
    bench.pictures.note_look(run)
    candidates = {(made.case_id, made.seed): made for made in BenchRun.read(run).candidates()}
    with monkeypatch.context() as patch:
        patch.setattr(bench.pictures, "load_image", watched)
        assert bench.pictures.remove_lost(run, candidates) == set()
        assert opened == []
        os.utime(run / LOST)
        assert bench.pictures.remove_lost(run, candidates) == set()
    assert opened == ["case-2_0.png"]
    generator = brightness.NoisyCopy()
    generate(root, tmp_path / "copied", generator, name="copy")
    assert generator.calls == []


def test_a_lost_copy_of_a_picture_is_taken_again_from_its_folder(make_dataset: MakeDataset, tmp_path: Path) -> None:
    root, run, outputs = make_dataset(3), tmp_path / "run", tmp_path / "outputs"
    for position in range(3):
        overwrite(outputs / f"case-{position}.png")
    generate(root, run, FolderGenerator(outputs), name="mine")
    cut(run / LOST)
    generate(root, run, FolderGenerator(outputs), name="mine")
    assert content_hash(run / LOST) == content_hash(outputs / "case-2.png")
    (run / LOST).unlink()
    (outputs / "case-2.png").unlink()
    assert [made.status for made in generate(root, run, FolderGenerator(outputs), name="mine").candidates()] == [
        "ok",
        "ok",
        "missing_output",
    ]
