"""Draw validation curves of runs of `gnomon rl fit` as one picture: `python tools/draw_curves.py OUT.png RUN...`."""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.figure import Figure

from gnomon.runs import read_manifest
from rl.callbacks import read_curve

PANELS = {
    "validation/reward": "judge's reward",
    "validation/oracle/success": "oracle: success",
    "validation/oracle/instruction": "oracle: instruction",
    "validation/oracle/consistency": "oracle: consistency",
}


def draw(out: Path, runs: list[Path]) -> None:
    """Draw one panel per figure and one line per run."""
    figure = Figure(figsize=(10, 5.2), layout="constrained")
    for axes, (key, title) in zip(figure.subplots(2, 2).flat, PANELS.items(), strict=True):
        for run in runs:
            manifest = read_manifest(run)
            assert manifest is not None, f"{run} is no run folder"
            points = [(point.iteration, point.metrics[key]) for point in read_curve(run) if point.kind == "validation"]
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=f"seed {manifest.seed}")
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xlabel("iteration")
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
