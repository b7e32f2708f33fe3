"""What a score of the tabletop oracle costs, which `gnomon demo` asks for thousands of times.

Run it with `python benchmarks/tabletop_oracle.py`; a second or two on one CPU core. 200 scenes of every kind of edit,
each with its own target as the candidate: processor time of one score, its median and 95th percentile.
"""

from __future__ import annotations

import random
import statistics
import time

from data_build.tabletop.draw import draw
from data_build.tabletop.edits import EDIT_KINDS, TWO_REFERENCE_KINDS, apply_edit, sample_pair
from data_build.tabletop.oracle import score

NUM_SCENES, TARGET = 200, 4.0


def main() -> None:
    """Measure once and print the figures with their target."""
    generator = random.Random(0)
    kinds = EDIT_KINDS + TWO_REFERENCE_KINDS
    times = []
    for number in range(NUM_SCENES):
        source, edit = sample_pair(generator, "test", (kinds[number % len(kinds)],))
        target = apply_edit(source, edit)
        picture = draw(target)
        start = time.process_time()
        score(picture, source, target)
        times.append((time.process_time() - start) * 1000)
    median, slow = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    met = "met" if median < TARGET else "MISSED"
    print(f"a score: median {median:.2f} ms (target < {TARGET:g}: {met}), 95th percentile {slow:.2f} ms")


if __name__ == "__main__":
    main()
