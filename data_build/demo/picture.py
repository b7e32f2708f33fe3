"""The loop as one picture: a source, candidates with the judge's rewards, and the edit before and after steering."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from bench.folder import BenchRun, image_path
from data_build.demo.summary import REWARD_DIMENSIONS
from gnomon.datasets import read_comparisons, resolve
from gnomon.images import load_image
from rl.grid import TILE, GridRow, draw_grid
from rm.reward_model import RewardModel

NUM_ROWS, NUM_CANDIDATES = 5, 5
HEADER = 26
TITLES = ((8, "source"), (160, "candidates of the editor, with the judge's reward"), (842, "before"), (978, "after"))
"""Where each title starts, in pixels, over the columns of :func:`rl.grid.draw_grid`."""


def draw_loop(out: Path) -> Image.Image:
    """Draw the first test cases of a finished demo, one of each kind of edit."""
    before, after = (BenchRun.read(out / "bench" / name) for name in ("before", "after"))
    judge = RewardModel.from_pretrained(out / "judge" / "model")
    root = out / "preferences" / "test"
    candidates = {comparison.group_id: comparison.candidates for comparison in read_comparisons(root)}
    rows: list[GridRow] = []
    tasks: set[str] = set()
    for item in before.items:
        case = before.cases[item[0]]
        if case.task in tasks or case.id not in candidates or len(rows) == NUM_ROWS:
            continue
        tasks.add(case.task)
        sources = [load_image(resolve(before.root, reference.path)) for reference in case.references]
        pictures = [load_image(resolve(root, side.path)) for side in candidates[case.id][:NUM_CANDIDATES]]
        pictures += [load_image(run.path / image_path(item)) for run in (before, after)]
        instruction = case.instruction.get("en")
        scores = judge.score(instruction=instruction, references=sources, candidates=pictures)
        rewards = scores.values[:, [scores.dimensions.index(name) for name in REWARD_DIMENSIONS]].sum(dim=1).tolist()
        rows.append(GridRow(instruction, sources, pictures, rewards))
    return _with_titles(draw_grid(rows))


def _with_titles(grid: Image.Image) -> Image.Image:
    canvas = Image.new("RGB", (max(grid.width, 8 * (TILE + 8)), grid.height + HEADER), "white")
    canvas.paste(grid, (0, HEADER))
    font = ImageFont.load_default(size=14)
    for left, title in TITLES:
        ImageDraw.Draw(canvas).text((left, 6), title, fill=(90, 90, 90), font=font)
    return canvas
