"""Every loss teaches: on the tabletop world each makes a judge that beats its base on instructions it never saw.

And heads with uncertainty learn where labels conflict.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_ind

from data_build.demo.steps import config_file, demo_steps, model_folder
from gnomon.datasets import COMPARISONS, read_comparisons, write_records
from gnomon.images import load_image
from gnomon.records import Comparison
from rm.reward_model import RewardModel

pytestmark = pytest.mark.slow

UNCERTAIN = ["--model.loss", "null", "--model.uncertainty", "true", "--model.centring", "0"]
LOSSES = {
    "bradley_terry": [],
    "margins": ["--model.use_margins", "true"],
    "rao_kupper": ["--model.loss", "rao_kupper", "--model.tie_k", "3.0", "--model.centring", "0"],
    "ties fitted": ["--model.loss", "rao_kupper", "--model.tie_k", "fit", "--model.centring", "0"],
    "gaussian": UNCERTAIN,
    "hpsv3": ["--model.loss", "hpsv3", "--model.uncertainty", "true", "--model.centring", "0"],
    "listwise": ["--model.loss", "listwise", "--model.centring", "0"],
    "regression": ["--model.loss", "regression", "--model.centring", "0"],
}
"""Each alone: only the last one sees absolute scores."""


CONFLICTING = ("recolour", "remove")


def _gnomon(*argv: str) -> None:
    subprocess.run([sys.executable, "-m", "gnomon", *argv], check=True)


@pytest.fixture(scope="module")
def preferences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the demo's preferences, and measure the base on those of unseen instructions."""
    out = tmp_path_factory.mktemp("losses")
    for step in demo_steps(out, 0):
        if step.name.startswith(("cases-", "preferences-")):
            _gnomon(*step.argv)
    test, before = str(out / "preferences" / "test"), str(out / "before")
    _gnomon("rm", "eval", "--judge", str(model_folder("judge")), "--data", test, "--out", before)
    return out


def _fit(out: Path, preferences: Path, *flags: str) -> None:
    """Train the recipe's judge; a flag that comes twice counts the last time."""
    recipe = ["--config", str(config_file("rm/tabletop.yaml")), "--model.base", str(model_folder("judge"))]
    data = [f"--data.{split}={preferences / 'preferences' / split}" for split in ("train", "validation")]
    _gnomon("rm", "fit", *recipe, *data, "--out", str(out), *flags)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_a_loss_beats_the_base_on_unseen_instructions(loss: str, preferences: Path, tmp_path: Path) -> None:
    weight = "1" if loss == "regression" else "0"
    _fit(tmp_path / "run", preferences, "--model.regression_weight", weight, *LOSSES[loss])
    test, before = str(preferences / "preferences" / "test"), str(preferences / "before")
    judge = str(tmp_path / "run" / "model")
    _gnomon("rm", "eval", "--judge", judge, "--data", test, "--out", str(tmp_path / "after"), "--against", before)
    results: dict[str, Any] = json.loads((tmp_path / "after" / "results.json").read_text())
    gain = results["against"]["strict"]["overall"]
    assert gain["n"] > 1000
    assert gain["ci_low"] > 0, gain


def test_doubt_is_learnt_where_labels_conflict(preferences: Path, tmp_path: Path) -> None:
    """Two annotators contradict each other on two kinds of edits: on those, and there alone, deviations grow."""
    split = preferences / "preferences" / "train"
    comparisons = read_comparisons(split)
    opposite = [_contradicted(item) for item in comparisons if item.task in CONFLICTING]
    assert 10 < len(opposite) < len(comparisons) - 10
    conflicting = tmp_path / "conflicting"
    shutil.copytree(split, conflicting)
    write_records(conflicting / COMPARISONS, [*comparisons, *opposite])
    flags = ["--model.regression_weight", "0", *UNCERTAIN]
    _fit(tmp_path / "clear", preferences, *flags)
    _fit(tmp_path / "doubtful", preferences, *flags, f"--data.train={conflicting}")
    unseen = preferences / "preferences" / "test"
    clear, doubtful = (_deviations(tmp_path / name / "model", unseen) for name in ("clear", "doubtful"))
    grown = {item.id: np.log(doubtful[item.id] / clear[item.id]) for item in read_comparisons(unseen)}
    there = [grown[item.id] for item in read_comparisons(unseen) if item.task in CONFLICTING]
    elsewhere = [grown[item.id] for item in read_comparisons(unseen) if item.task not in CONFLICTING]
    print(f"log growth of the deviation: {np.mean(there):.3f} there, {np.mean(elsewhere):.3f} elsewhere")
    assert ttest_ind(there, elsewhere, equal_var=False, alternative="greater").pvalue < 0.001


def _contradicted(comparison: Comparison) -> Comparison:
    """Return a second annotation that says the opposite."""
    swapped = {"i": "j", "j": "i"}
    judgements = [
        judgement.model_copy(update={"label": swapped.get(judgement.label, judgement.label)})
        for judgement in comparison.judgements
    ]
    return comparison.model_copy(update={"id": f"{comparison.id}-again", "judgements": judgements})


def _deviations(model_path: Path, data: Path) -> dict[str, float]:
    """Return the mean standard deviation of the overall scores of each comparison's candidates."""
    model = RewardModel.from_pretrained(model_path)
    column = model.dimensions.index("overall")
    found = {}
    for item in read_comparisons(data):
        scores = model.score(
            instruction=item.instruction.get("en"),
            references=[load_image(data / reference.path) for reference in item.references],
            candidates=[load_image(data / candidate.path) for candidate in item.candidates],
        )
        assert scores.sigmas is not None
        found[item.id] = float(scores.sigmas[:, column].mean())
    return found
