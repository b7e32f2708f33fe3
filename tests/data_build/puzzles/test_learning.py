"""A tiny editor, trained from nothing but the shipped autoencoder, learns a puzzle by RL from exact verdicts alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.workflow import compare
from gnomon.cli import main
from rl.callbacks import read_curve

pytestmark = pytest.mark.slow
CONFIGS = Path(__file__).resolve().parents[3] / "configs"


def gnomon(*argv: object) -> None:
    assert main([str(argument) for argument in argv]) == 0


def test_the_verifier_alone_teaches_an_editor_to_find_the_best_way(tmp_path: Path) -> None:
    for split, num in (("train", 256), ("validation", 240), ("test", 240)):
        arguments = ["--num", str(num), "--split", split, "--out", str(tmp_path / split)]
        gnomon("data", "build", "avr", "--config", CONFIGS / "data/tiny_puzzles.yaml", *arguments)
    for split in ("validation", "test"):
        gnomon("data", "validate", tmp_path / "train", "--against", tmp_path / split)
    gnomon("data", "train-puzzle-editor", "--out", tmp_path / "editor")
    editor, policy = tmp_path / "editor/model", tmp_path / "policy"
    folders = ["--data.train", tmp_path / "train", "--data.validation", tmp_path / "validation"]
    recipe = ["--config", CONFIGS / "rl/puzzle_optimal_path.yaml", "--model.generator.init_args.model", editor]
    gnomon("rl", "fit", *recipe, *folders, "--out", policy)
    gnomon("rl", "export", policy, tmp_path / "lora")

    for name, adapter in (("before", []), ("after", ["--generator.init_args.lora", tmp_path / "lora"])):
        run = tmp_path / name
        recipe = ["--config", CONFIGS / "bench/tabletop_generate.yaml", "--generator.init_args.model", editor, *adapter]
        gnomon("bench", "generate", *recipe, "--cases", tmp_path / "test", "--name", name, "--out", run)
        gnomon("bench", "judge", "--run", run, "--judge.class_path", "data_build.puzzles.judging.PuzzleJudge")
        gnomon("bench", "summarize", "--run", run)
    differences = compare(tmp_path / "before", tmp_path / "after", tmp_path / "compared").judges["verifier"]

    solved = differences["solved"]
    assert (solved.n_pairs, solved.n_unpaired) == (240, 0)
    assert solved.ci_low is not None
    assert solved.ci_low > 0
    held_out = [point.metrics for point in read_curve(policy) if point.kind == "validation"]
    assert len(held_out) > 2
    assert all(metrics["validation/failed"] == 0.0 for metrics in held_out)
