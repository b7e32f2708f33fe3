"""A small folder of proposed pairs that nothing was sampled for: two cases with four pictures each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_build.preferences.pairs import PAIRS, ProposedPair, propose_pairs
from gnomon.datasets import CASES, write_records
from gnomon.images import save_png
from gnomon.records import Candidate, Case, Reference, Text

DIMENSIONS = ("instruction_awareness", "visual_consistency", "visual_quality")


@pytest.fixture
def pairs(tmp_path: Path) -> list[ProposedPair]:
    """Write the folder `tmp_path / "pairs"` and return its four pairs."""
    return write_pairs(tmp_path / "pairs", num_cases=2)


def write_pairs(root: Path, num_cases: int) -> list[ProposedPair]:
    """Write cases with four candidates of two generators each, and two pairs of each case."""
    cases: list[Case] = []
    candidates: list[Candidate] = []
    proposed: list[ProposedPair] = []
    for place in range(num_cases):
        name = f"case-{place}"
        case = Case(
            id=name,
            benchmark="small",
            task="remove",
            instruction=Text(en=f"Remove number {place}."),
            references=[Reference(path=f"references/{name}.png")],
            split="train",
        )
        _save(root / case.references[0].path, place, 9)
        of_case = {}
        for number in range(4):
            path = f"images/{name}_{number:02d}.png"
            _save(root / path, place, number)
            of_case[number] = Candidate(case_id=name, generator="ab"[number // 2], seed=number, path=path)
        cases.append(case)
        candidates += of_case.values()
        proposed += propose_pairs(name, of_case, DIMENSIONS, limit=2, seed=0)
    write_records(root / CASES, cases)
    write_records(root / "candidates.jsonl", candidates)
    write_records(root / PAIRS, proposed)
    return proposed


def _save(path: Path, *seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    save_png(Image.fromarray(pixels), path)
