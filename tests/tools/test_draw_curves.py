"""The picture of curves is drawn from what a run of `gnomon rl fit` leaves."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image

from tools.draw_curves import PANELS, draw, validations


def _run(folder: Path, seed: int) -> Path:
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"config": {"seed_everything": seed}}))
    points = [{"kind": "validation", "iteration": i, "metrics": dict.fromkeys(PANELS, i / 8)} for i in (0, 4, 8)]
    train = {"kind": "train", "iteration": 4, "metrics": {"train/loss": 0.0}}
    (folder / "curve.jsonl").write_text("\n".join(map(json.dumps, [points[0], train, *points[1:]])) + "\n")
    return folder


def test_only_validations_are_points_of_a_curve(tmp_path: Path) -> None:
    points = validations(_run(tmp_path / "run", 0))

    assert [(point["iteration"], point["validation/reward"]) for point in points] == [(0, 0.0), (4, 0.5), (8, 1.0)]


def test_each_further_run_changes_the_picture(tmp_path: Path) -> None:
    runs = [_run(tmp_path / f"run{seed}", seed) for seed in (0, 1)]
    draw(tmp_path / "one.png", runs[:1])
    draw(tmp_path / "two.png", runs)

    one, two = (Image.open(tmp_path / name) for name in ("one.png", "two.png"))
    assert one.size == two.size
    assert one.tobytes() != two.tobytes()
