"""Fixtures: judged runs on a dataset whose texts are an attack, with failures and repeats, and on drawn scenes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.generators import FolderGenerator, file_stem
from bench.workflow import generate, judge
from gnomon.datasets import write_records
from gnomon.images import save_png
from gnomon.records import Case, Reference, Text

IMPORTABLE = str(Path(__file__).parent.parent / "importable")
ATTACK = "<script>document.title = 'run'</script> \"make\" it & <img src=x onerror=alert(1)> brighter"
TASKS = ("add", "visual_text_rendering_in_chinese", "move_" + "x" * 60, "style transfer")


@pytest.fixture(scope="session")
def judged_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Return two judged run folders, the second of a brighter generator that fails once."""
    sys.path.insert(0, IMPORTABLE)
    brightness = import_module("brightness")
    folder = tmp_path_factory.mktemp("reports")
    cases = []
    for position in range(8):
        noise = np.random.default_rng(position).integers(0, 90 + 5 * position, (160, 240, 3), dtype=np.uint8)
        paths = [f"images/{position}_{number}.png" for number in range(1 + position % 2)]
        for path in paths:
            save_png(Image.fromarray(noise), folder / "cases" / path)
        cases.append(
            Case(
                id=f"<case> '{position}'",
                benchmark="grey",
                task=TASKS[position % len(TASKS)],
                instruction=Text(en=f"{ATTACK} {position}", zh="让它更亮"),
                references=[Reference(path=path, name='a "name"') for path in paths],
            )
        )
    write_records(folder / "cases" / "cases.jsonl", cases)
    generators = {
        "plain <b>copy</b>": brightness.NoisyCopy(),
        "bright": brightness.MoodyCopy({"<case> '3'": "refused"}),
    }
    generators["bright"].offset = 60
    for position, (name, generator) in enumerate(generators.items()):
        generate(folder / "cases", folder / f"run-{position}", generator, name=name, repeats=2)
        judge(folder / f"run-{position}", brightness.ExplainingJudge())
    yield folder / "run-0", folder / "run-1"
    sys.path.remove(IMPORTABLE)


@pytest.fixture(scope="session")
def scene_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Return two judged runs on drawn scenes of CogCanvas: a careful one, a hasty one without a background input."""
    sys.path.insert(0, IMPORTABLE)
    from tests.bench.report import drawn_scenes

    rule_judge = import_module("checklists").RuleJudge
    folder = tmp_path_factory.mktemp("scenes")
    cases = drawn_scenes.write_scenes(folder / "cases")
    for position, name in enumerate(("careful", "hasty <b>")):
        made = drawn_scenes.pictures(cases, careful=position == 0)
        for case in cases[position:]:  # the second run lacks one
            save_png(made[case.id], folder / f"pictures-{position}" / f"{file_stem(case.id)}.png")
        roles = None if position == 0 else ["identity", "object"]
        generator = FolderGenerator(folder / f"pictures-{position}")
        generate(folder / "cases", folder / f"run-{position}", generator, name=name, reference_roles=roles)
        for one in (*drawn_scenes.judges(), rule_judge("rules", drawn_scenes.answer)):
            judge(folder / f"run-{position}", one)
    yield folder / "run-0", folder / "run-1"
    sys.path.remove(IMPORTABLE)
