"""Recipes of EditReward-Compass' models have its paper's numbers, and tiny models of their families are sampled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from bench.editcompass.cases import CELLS
from data_build.preferences.filters import FilterSettings
from data_build.preferences.pairs import ProposedPair
from data_build.preferences.proposing import ProposalSettings, propose_preferences
from data_build.preferences.sampling import SamplingSettings
from gnomon.datasets import CASES, validate, write_records
from gnomon.images import save_png
from gnomon.jsonl import read_records
from gnomon.records import Case, Reference, Text
from rl.generator import DiffusersGenerator
from tests.rl.families.conftest import load_module

PAPER = {"flux1_kontext": (16, 0.8, 21, 1), "qwen_image_edit": (16, 0.3, 20, None), "uniworld_v2": (16, 0.7, 15, None)}
"""Table 7 of arXiv 2605.13062: candidates, noise level, steps; and how many pictures the model takes."""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cases, with one and with two pictures of other sizes."""
    root = tmp_path_factory.mktemp("cases")
    written = []
    for count, size in ((1, (96, 96)), (2, (64, 64))):
        references = [f"images/{count}_{place}.png" for place in range(count)]
        for place, path in enumerate(references):
            pixels = np.random.default_rng((count, place)).integers(0, 256, (*size, 3), dtype=np.uint8)
            save_png(Image.fromarray(pixels), root / path)
        written.append(
            Case(
                id=f"case {count}",
                benchmark="small",
                task="add",
                instruction=Text(en="Add a hat."),
                references=[Reference(path=path) for path in references],
            )
        )
    write_records(root / CASES, written)
    return root


@pytest.mark.parametrize("name", list(PAPER))
def test_a_recipe_has_the_papers_numbers(name: str, repository: Path) -> None:
    recipe: dict[str, Any] = yaml.safe_load((repository / "configs" / "data" / f"preferences_{name}.yaml").read_text())
    candidates, noise_level, steps, max_references = PAPER[name]
    names = ("num_candidates", "noise_level", "window_size", "window_first", "window_last")
    sampling = SamplingSettings(**{key: recipe[key] for key in names})

    assert (sampling.num_candidates, sampling.noise_level) == (candidates, noise_level)
    assert recipe["generator"]["init_args"]["num_inference_steps"] == steps
    assert sampling.window(0, 0, steps) == range(steps - 1)
    assert recipe.get("max_references") == max_references
    # The paper pools models for world knowledge and algorithms; 21 of the 36 tasks are others.
    assert recipe["tasks"] == [
        cell.task
        for cell in CELLS.values()
        if cell.category not in ("world_knowledge_reasoning", "algorithmic_visual_reasoning")
    ]


@pytest.mark.parametrize(("family", "max_references"), [("flux_kontext", 1), ("qwen_image_edit_plus", None)])
def test_their_families_are_sampled_with_one_and_two_references(
    family: str, max_references: int | None, cases: Path, random_editor: Path, tmp_path: Path
) -> None:
    module = load_module(family)
    with torch.random.fork_rng():
        torch.manual_seed(0)  # some draws of the weights make equal pictures, of which one is left out
        module.build(tmp_path / "model", random_editor)
    generator = DiffusersGenerator(str(tmp_path / "model"), **{**module.SETTINGS, "num_inference_steps": 2})
    settings = ProposalSettings(
        SamplingSettings(num_candidates=2, window_size=1, window_last=0),
        FilterSettings(noise_floor=255.0, min_distance=0.0),  # untrained models make noise
        max_references=max_references,
    )

    summary = propose_preferences(cases, tmp_path / "out", generator, settings)

    sampled = 1 if max_references else 2
    assert (summary.num_not_sampled, sum(summary.num_candidates.values())) == (2 - sampled, 2 * sampled)
    assert len(read_records(tmp_path / "out" / "pairs.jsonl", ProposedPair)) == sampled
    assert validate(tmp_path / "out").ok
