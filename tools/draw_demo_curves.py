"""Draw the validation curves of finished demos as one picture: `python tools/draw_demo_curves.py OUT DEMO...`."""

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


def draw(out: Path, demos: list[Path]) -> None:
    """Draw one panel per figure and one line per demo."""
    figure = Figure(figsize=(10, 5.2), layout="constrained")
    for axes, (key, title) in zip(figure.subplots(2, 2).flat, PANELS.items(), strict=True):
        for demo in demos:
            summary = json.loads((demo / "summary.json").read_text(encoding="utf-8"))
            points = [(point["iteration"], point[key]) for point in summary["curve"]]
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=f"seed {summary['seed']}")
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xlabel("iteration")
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
