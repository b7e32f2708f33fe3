"""Draw a contact sheet of each puzzle: source, answer, three wrong edits: `python tools/draw_puzzles.py FOLDER`.

Below each edit stands what verification says of it. The pictures in docs/puzzles/ are made by this.
"""

from __future__ import annotations

import random
import sys
import textwrap
from itertools import islice
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from data_build.puzzles.build import draw_instances
from data_build.puzzles.puzzle import AnyPuzzle
from data_build.puzzles.table import PUZZLES
from data_build.puzzles.verify import verify_instance
from data_build.puzzles.wrong_edits import wrong_edits
from gnomon.images import save_png

RESOLUTION, SIDE, GAP, CAPTION = 512, 256, 12, 84
COLOURS = {"correct": "#1a7f37", "suboptimal": "#9a6700", "invalid": "#cf222e", "unreadable": "#57606a"}
NUM_WRONG = 3


def sheet(puzzle: AnyPuzzle) -> Image.Image:
    """Return source, answer and wrong edits of the second puzzle of seed 0, side by side."""
    other, instance = islice(draw_instances(puzzle, 2, 0, "test"), 2)
    source = puzzle.render(instance, RESOLUTION)
    panels = [("source", source, None), ("answer", puzzle.render(instance, RESOLUTION, puzzle.solve(instance)), "")]
    panels += [(kind.replace("_", " "), edit, "") for kind, edit in _chosen(puzzle, instance, other).items()]
    page = Image.new("RGB", (len(panels) * (SIDE + GAP) + GAP, SIDE + CAPTION + 2 * GAP), "white")
    for number, (title, picture, verdict) in enumerate(panels):
        left = GAP + number * (SIDE + GAP)
        page.paste(picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS), (left, GAP))
        ImageDraw.Draw(page).rectangle((left - 1, GAP - 1, left + SIDE, GAP + SIDE), outline="#d0d7de")
        _write(page, left, title, "#24292f", 0)
        if verdict is not None:
            outcome = verify_instance(puzzle, instance, source, picture)
            _write(page, left, f"{outcome.value}: {outcome.reason}", COLOURS[outcome.value], 1)
    return page


def _chosen(puzzle: AnyPuzzle, instance: Any, other: Any) -> dict[str, Image.Image]:
    """Return wrong edits, those that keep the rules first and those of the puzzle's own next."""
    edits = wrong_edits(puzzle, instance, other, RESOLUTION, random.Random(0))
    own = puzzle.spoil(instance, random.Random(0))
    source = puzzle.render(instance, RESOLUTION)
    suboptimal = [kind for kind in own if verify_instance(puzzle, instance, source, edits[kind]).value == "suboptimal"]
    kinds = [*suboptimal[:1], *(kind for kind in own if kind not in suboptimal), "other_colour"]
    return {kind: edits[kind] for kind in kinds[:NUM_WRONG]}


def _write(page: Image.Image, left: int, text: str, colour: str, line: int) -> None:
    font = ImageFont.load_default(14)
    for number, part in enumerate(textwrap.wrap(text, 38)[:4]):
        ImageDraw.Draw(page).text((left, GAP + SIDE + 4 + 16 * (line + number)), part, colour, font=font)


def main() -> None:
    """Write FOLDER/TASK.png for each puzzle."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for task, puzzle_class in PUZZLES.items():
        page = sheet(puzzle_class()).quantize(128)
        save_png(page, Path(sys.argv[1]) / f"{task}.png")
        print(Path(sys.argv[1]) / f"{task}.png")


if __name__ == "__main__":
    main()
