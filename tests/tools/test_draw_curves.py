"""The picture of curves is drawn from what a run of `gnomon rl fit` leaves."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from gnomon.jsonl import write_records
from gnomon.manifest import Manifest
from rl.callbacks import CURVE, CurvePoint
from tools.draw_curves import PANELS, draw


def _run(folder: Path, seed: int, *train: CurvePoint) -> Path:
    folder.mkdir()
    manifest = Manifest(command="rl fit", config={}, seed=seed, started_at="2000-01-01T00:00:00+00:00")
    (folder / "manifest.json").write_text(manifest.model_dump_json())
    points = [CurvePoint(kind="validation", iteration=i, metrics=dict.fromkeys(PANELS, i / 8)) for i in (0, 4, 8)]
    write_records(folder / CURVE, [*points, *train])
    return folder


def _drawn(out: Path, *runs: Path) -> bytes:
    draw(out, list(runs))
    with Image.open(out) as picture:
        return picture.tobytes()


def test_each_run_and_its_seed_are_in_the_picture_and_training_points_are_not(tmp_path: Path) -> None:
    first, second = _run(tmp_path / "first", 0), _run(tmp_path / "second", 1)
    trained = _run(tmp_path / "trained", 0, CurvePoint(kind="train", iteration=4, metrics={"train/loss": 0.0}))
    alone = _drawn(tmp_path / "curves.png", first)

    assert _drawn(tmp_path / "curves.png", trained) == alone
    assert _drawn(tmp_path / "curves.png", second) != alone
    assert _drawn(tmp_path / "curves.png", first, second) != alone
