from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from PIL import Image

from bench.generators import FolderGenerator
from bench.workflow import generate, judge, summarize
from data_build.puzzles.build import build_puzzles
from data_build.puzzles.judging import PuzzleJudge, PuzzleReward
from data_build.puzzles.verify import puzzle_of
from gnomon.datasets import read_cases
from gnomon.errors import UserError
from gnomon.images import load_image, save_png
from gnomon.records import Case, Text

OTHER = Case(id="photo", benchmark="other", task="recolour", instruction=Text(en="make it red"))


@pytest.fixture(scope="module")
def puzzles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("puzzles") / "out"
    build_puzzles(folder, tasks=["maximum_bonus"], num=5, seed=0)
    return folder


def edits(folder: Path) -> list[Image.Image]:
    """A right edit, one with a smaller sum, an unedited picture and one of nothing."""
    cases = read_cases(folder)
    puzzle, instance = puzzle_of(cases[1])
    worse = puzzle.spoil(instance, random.Random(0))["smallest_sum"]
    return [
        load_image(folder / cases[0].meta["target"]),
        puzzle.render(instance, 512, worse),
        load_image(folder / cases[2].references[0].path),
        Image.new("RGB", (512, 512), "black"),
    ]


def test_the_verifier_judges_a_benchmark_run(puzzles: Path, tmp_path: Path) -> None:
    for case, picture in zip(read_cases(puzzles), edits(puzzles), strict=False):
        save_png(picture, tmp_path / "outputs" / f"{case.id}.png")
    run = tmp_path / "run"
    generate(puzzles, run, FolderGenerator(tmp_path / "outputs"), name="mixed")
    judge(run, PuzzleJudge())

    metrics = summarize(run).judges["verifier"].metrics

    assert metrics["solved"].value == pytest.approx(1 / 4)
    assert metrics["valid"].value == pytest.approx(2 / 4)
    assert (metrics["solved"].n_scored, metrics["solved"].n_failed) == (4, 1)
    lines = (run / "samples.jsonl").read_text()
    assert "suboptimal: the path's sum is" in lines
    assert "unreadable: " in lines


def test_a_reward_is_one_between_or_nothing(puzzles: Path) -> None:
    cases = read_cases(puzzles)[:4]
    references = [[load_image(puzzles / case.references[0].path)] for case in cases]

    pictures = edits(puzzles)
    output = PuzzleReward(suboptimal=0.25)(
        cases=[*cases, OTHER, cases[0]],
        references=[*references, references[0], []],
        images=[*pictures, pictures[0], pictures[0]],
    )

    assert output.total[:4].tolist() == [1, 0.25, 0, 0]
    assert output.breakdown["solved"][:4].tolist() == [1, 0, 0, 0]
    assert output.failed.tolist() == [False, False, False, False, True, True]
    assert torch.isnan(output.total[4])
    assert "expected a puzzle" in output.reasons[4]
    assert "without" in output.reasons[5]


def test_rewards_that_differ_have_other_fingerprints() -> None:
    assert PuzzleReward(0.5).fingerprint != PuzzleReward(0.25).fingerprint
    with pytest.raises(UserError, match=r"suboptimal in 0\.\.1, got 2"):
        PuzzleReward(2)
