"""How fast puzzles are built and verified: cases per second of one core's time, files included.

Seconds are of processor time, so that they do not count what else the machine does.

Run it with `python benchmarks/puzzles.py`; about a minute on one CPU core.

* built: an instance is drawn until it has one best answer, solved, and source and target are written as PNG, 512 pixels
  a side (target: at least 20 a second).
* verified: source and edited picture are read from PNG and compared, half of the edits right and half unedited (target:
  at least 100 a second).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from data_build.puzzles.build import draw_instances, save_picture
from data_build.puzzles.puzzle import AnyPuzzle
from data_build.puzzles.table import PUZZLES
from data_build.puzzles.verify import verify_instance
from gnomon.images import load_image
from gnomon.records import Record

RESOLUTION = 512
LEAST_BUILT, LEAST_VERIFIED = 20, 100


def build(puzzle: AnyPuzzle, num: int, folder: Path) -> tuple[list[Record], float]:
    """Write sources and targets of `num` puzzles; return their instances, and cases per second."""
    next(draw_instances(puzzle, 1, 1, "train"))  # what is loaded at first use, such as a word list, is no part of it
    start = time.process_time()
    instances = []
    for number, instance in enumerate(draw_instances(puzzle, num, 0, "test")):
        save_picture(puzzle.render(instance, RESOLUTION), folder / f"{number}-source.png")
        save_picture(puzzle.render(instance, RESOLUTION, puzzle.solve(instance)), folder / f"{number}-target.png")
        instances.append(instance)
    return instances, num / (time.process_time() - start)


def verify(puzzle: AnyPuzzle, instances: list[Record], folder: Path) -> float:
    """Verify every other target and every other source; return cases per second."""
    start = time.process_time()
    for number, instance in enumerate(instances):
        edit = "target" if number % 2 else "source"
        source, edited = (load_image(folder / f"{number}-{name}.png") for name in ("source", edit))
        value = verify_instance(puzzle, instance, source, edited).value
        assert (value == "correct") == (edit == "target"), f"{puzzle.task} {number}: {edit} is {value}"
    return len(instances) / (time.process_time() - start)


def main() -> None:
    """Print a line for each puzzle."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=100, help="cases of each puzzle")
    num = parser.parse_args().num
    for task, puzzle_class in PUZZLES.items():
        with tempfile.TemporaryDirectory() as name:
            puzzle = puzzle_class()
            instances, built = build(puzzle, num, Path(name))
            verified = verify(puzzle, instances, Path(name))
        verdict = "met" if built >= LEAST_BUILT and verified >= LEAST_VERIFIED else "MISSED"
        print(
            f"{task:<20} built {built:6.1f}/s (target {LEAST_BUILT}), verified {verified:6.1f}/s (target "
            f"{LEAST_VERIFIED}): {verdict}",
            flush=True,
        )


if __name__ == "__main__":
    main()
