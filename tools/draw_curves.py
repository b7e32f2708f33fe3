"""Draw validation curves of runs of `gnomon rl fit` as one picture: `python tools/draw_curves.py OUT.png RUN...`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure

PANELS = {
    "validation/reward": "judge's reward",
    "validation/oracle/success": "oracle: success",
    "validation/oracle/instruction": "oracle: instruction",
    "validation/oracle/consistency": "oracle: consistency",
}


def validations(run: Path) -> list[dict[str, float]]:
    """Return the validation metrics of a run, each with its iteration."""
    lines = (run / "curve.jsonl").read_text(encoding="utf-8").splitlines()
    points = [point for point in map(json.loads, lines) if point["kind"] == "validation"]
    return [{"iteration": point["iteration"], **point["metrics"]} for point in points]


def draw(out: Path, runs: list[Path]) -> None:
    """Draw one panel per figure and one line per run."""
    figure = Figure(figsize=(10, 5.2), layout="constrained")
    for axes, (key, title) in zip(figure.subplots(2, 2).flat, PANELS.items(), strict=True):
        for run in runs:
            seed = json.loads((run / "manifest.json").read_text(encoding="utf-8"))["config"]["seed_everything"]
            points = [(point["iteration"], point[key]) for point in validations(run)]
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=f"seed {seed}")
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xlabel("iteration")
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
