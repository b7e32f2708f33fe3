"""Evaluations of real judges on a small comparison folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from gnomon.datasets import write_records
from gnomon.images import save_png
from gnomon.records import ComparedImage, Comparison, Judgement, Text
from rm.cli import evaluate

DIMENSIONS = ("instruction_awareness", "visual_consistency", "visual_quality")
LABELS = ("i", "j", "j", "tie")

ANSWERS = """'{"score": 3}', '{"score": 5}', '{"score": 7}', '{"score": 9}', 'hm'"""
RUBRIC = """\
class_path: rm.protocols.rubric.RubricJudge
init_args:
  metrics: [{metrics}]
  vlm:
    class_path: rm.vlm.scripted.ScriptedVLM
    init_args: {{rule: random, seed: {seed}, answers: [{answers}]}}
"""
PAIRWISE = """\
class_path: rm.protocols.pairwise.PairwiseJudge
init_args:
  vlm:
    class_path: rm.vlm.scripted.ScriptedVLM
    init_args: {rule: random, answers: ['{"winner": "A"}', '{"winner": "B"}']}
"""


def write_comparisons(folder: Path, count: int) -> Path:
    """Write comparisons of two grey pictures, each in one dimension, two of an instruction."""
    records = []
    for number in range(count):
        for side in "ab":
            save_png(
                Image.new("L", (8, 8), (7 * number + ord(side)) % 256).convert("RGB"), folder / f"{number}{side}.png"
            )
        label = LABELS[number % 4]
        judgement = Judgement(i=0, j=1, dimension=DIMENSIONS[number % 3], label=label)  # type: ignore[arg-type]
        records.append(
            Comparison(
                id=f"c{number}",
                instruction=Text(en=f"do it {number // 2} <times>"),
                candidates=[ComparedImage(path=f"{number}{side}.png") for side in "ab"],
                judgements=[judgement],
                group_id=f"g{number // 2}",
            )
        )
    write_records(folder / "comparisons.jsonl", records)
    return folder


@pytest.fixture(scope="session")
def comparisons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 24 comparisons."""
    return write_comparisons(tmp_path_factory.mktemp("comparisons"), 24)


@pytest.fixture(scope="session")
def evaluated(comparisons: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of four evaluations: two judges of all dimensions that fail at times, one of two, one of pairs."""
    root = tmp_path_factory.mktemp("runs")
    judges = {
        "plain": RUBRIC.format(answers=ANSWERS, metrics=", ".join(DIMENSIONS), seed=0),
        "thinking": RUBRIC.format(answers=ANSWERS, metrics=", ".join(DIMENSIONS), seed=1),
        "partial": RUBRIC.format(answers=ANSWERS, metrics=", ".join(DIMENSIONS[:2]), seed=2),
        "pairs": PAIRWISE,
    }
    for name, text in judges.items():
        (root / f"{name}.yaml").write_text(text)
        evaluate(judge=str(root / f"{name}.yaml"), data=str(comparisons), out=str(root / name))
    return root


@pytest.fixture
def about(tmp_path: Path) -> Callable[[str], Path]:
    """A function that writes a file about the runs."""

    def write(text: str) -> Path:
        (tmp_path / "about.csv").write_text(text)
        return tmp_path / "about.csv"

    return write
