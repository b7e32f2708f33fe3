"""Every loss teaches: on the tabletop world each makes a judge that beats its base on instructions it never saw."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from data_build.demo.steps import config_file, demo_steps, model_folder

pytestmark = pytest.mark.slow

LOSSES = {
    "bradley_terry": [],
    "margins": ["--model.use_margins", "true"],
    "rao_kupper": ["--model.loss", "rao_kupper", "--model.tie_k", "3.0", "--model.centring", "0"],
    "ties fitted": ["--model.loss", "rao_kupper", "--model.tie_k", "fit", "--model.centring", "0"],
    "gaussian": ["--model.loss", "null", "--model.uncertainty", "true", "--model.centring", "0"],
    "hpsv3": ["--model.loss", "hpsv3", "--model.uncertainty", "true", "--model.centring", "0"],
    "listwise": ["--model.loss", "listwise", "--model.centring", "0"],
    "regression": ["--model.loss", "regression", "--model.centring", "0"],
}
"""Each alone: only the last one sees absolute scores."""


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


@pytest.mark.parametrize("loss", list(LOSSES))
def test_a_loss_beats_the_base_on_unseen_instructions(loss: str, preferences: Path, tmp_path: Path) -> None:
    recipe = ["--config", str(config_file("rm/tabletop.yaml")), "--model.base", str(model_folder("judge"))]
    data = [f"--data.{split}={preferences / 'preferences' / split}" for split in ("train", "validation")]
    weight = "1" if loss == "regression" else "0"
    _gnomon(
        *("rm", "fit", *recipe, *data, "--out", str(tmp_path / "run")),
        *("--model.regression_weight", weight, *LOSSES[loss]),
    )
    test, before = str(preferences / "preferences" / "test"), str(preferences / "before")
    judge = str(tmp_path / "run" / "model")
    _gnomon("rm", "eval", "--judge", judge, "--data", test, "--out", str(tmp_path / "after"), "--against", before)
    results: dict[str, Any] = json.loads((tmp_path / "after" / "results.json").read_text())
    gain = results["against"]["strict"]["overall"]
    assert gain["n"] > 1000
    assert gain["ci_low"] > 0, gain
