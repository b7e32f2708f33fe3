"""Draw edits of puzzles before and after steering: `python tools/draw_puzzle_loop.py BEFORE AFTER PICTURE`.

BEFORE and AFTER are folders of `gnomon bench generate` on the same puzzles. Each row has a source, its answer, and both
edits with their rewards. docs/puzzles/loop.png is made by this.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

from bench.folder import BenchRun, image_path
from data_build.puzzles.judging import PuzzleReward
from data_build.puzzles.verify import TARGET
from gnomon.datasets import resolve
from gnomon.images import load_image, save_png
from rl.grid import GridRow, draw_grid

NUM_ROWS = 8
SUBOPTIMAL = 0.3
"""As in configs/rl/puzzle_optimal_path.yaml."""


def page(before: Path, after: Path) -> Image.Image:
    """Return the first cases, two beside each other."""
    runs = [BenchRun.read(folder) for folder in (before, after)]
    rows = []
    for item in runs[0].items[:NUM_ROWS]:
        case = runs[0].cases[item[0]]
        source = load_image(resolve(runs[0].root, case.references[0].path))
        answer = load_image(resolve(runs[0].root, case.meta[TARGET]))
        pictures = [answer, *(load_image(run.path / image_path(item)) for run in runs)]
        rewards = PuzzleReward(SUBOPTIMAL)(cases=[case] * 3, references=[[source]] * 3, images=pictures).total
        rows.append(GridRow("source, answer, before, after", [source], pictures, rewards.tolist()))
    halves = [draw_grid(rows[start::2]) for start in (0, 1)]
    sheet = Image.new("RGB", (2 * halves[0].width, halves[0].height), "white")
    for number, half in enumerate(halves):
        sheet.paste(half, (number * half.width, 0))
    return sheet


def main() -> None:
    """Write the picture."""
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    before, after, picture = map(Path, sys.argv[1:])
    save_png(page(before, after).quantize(128), picture)
    print(picture)


if __name__ == "__main__":
    main()
