"""The stage sample: the same scenes for the same seed, and a pool that is too small."""

from __future__ import annotations

from pathlib import Path

import pytest

from data_build.cogcanvas.attributes import read_references
from data_build.cogcanvas.sample import report_lines, sample_scenes
from data_build.cogcanvas.scenes import read_scenes
from data_build.cogcanvas.settings import SampleSettings
from gnomon.errors import UserError
from tests.data_build.cogcanvas.stages import sampled


def test_scenes_are_the_same_for_a_seed_and_can_be_drawn_anew(tmp_path: Path) -> None:
    folder = sampled(tmp_path, num=30)
    before = folder.scenes.read_bytes()
    report = sample_scenes(folder, SampleSettings(30))
    assert folder.scenes.read_bytes() == before
    assert report.group_sizes == {"2": 12, "3": 9, "4": 5, "5": 4}
    assert sum(report.cells.values()) == 30
    assert "large_wearable, loose" in report.empty_cells
    assert any(line.startswith("no item is so large") for line in report_lines(report))
    roles = {name: one.role for name, one in read_references(folder).items()}
    for scene in read_scenes(folder.scenes):
        assert {roles[name] for name in scene.people} == {"identity"}
        assert {roles[one.item] for one in scene.bindings} <= {"object", "fashion"}
        assert roles[scene.background] == "background"


def test_a_pool_without_enough_people_says_what_is_missing(tmp_path: Path) -> None:
    folder = sampled(tmp_path)
    lines = folder.references.read_text().splitlines(keepends=True)
    folder.references.write_text("".join(line for line in lines if '"name": "Ada Bell"' not in line))
    sample_scenes(folder, SampleSettings(4))
    folder.references.write_text("".join(line for line in lines if "Ada Bell" not in line and "Ben Cole" not in line))
    with pytest.raises(UserError, match=r"expected 5 people for the largest groups, .* got 4, 5 and 2"):
        sample_scenes(folder, SampleSettings(8))
    with pytest.raises(UserError, match="num >= 1"):
        SampleSettings(0)
