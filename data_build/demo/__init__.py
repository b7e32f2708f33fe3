"""`gnomon demo`: the closed loop on the tabletop world, each step the command that a user would type."""

from __future__ import annotations

from pathlib import Path


def demo(*, out: Path = Path("runs/demo"), seed: int = 0) -> None:
    """Train a judge, steer the shipped editor with it, measure both, and write a page that shows it.

    Run again, it skips the steps that are finished; a step that was killed goes on or starts over with the same
    result.

    Args:
        out: folder of the demo.
        seed: of everything that is drawn, sampled and trained.
    """
    from data_build.demo.loop import run_demo

    run_demo(out, seed)
