"""The recipe of a build parses, and names the parts and thresholds of the paper (section 3, appendix C)."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import auto_parser

from bench.cogcanvas.cases import GROUP_SIZES
from data_build.cogcanvas.cli import build_cogcanvas
from data_build.cogcanvas.settings import CurateSettings


def test_the_recipe_parses_and_has_the_papers_parts_and_thresholds(repository: Path) -> None:
    recipe = repository / "configs" / "data" / "cogcanvas.yaml"
    settings = auto_parser(build_cogcanvas).parse_args(["--config", str(recipe)]).as_dict()
    curate = settings["curate"]
    checks = {
        name: (found["backend"]["class_path"].rpartition(".")[2], found["backend"]["init_args"], threshold)
        for name, key in (("near_duplicates", "cosine"), ("text_picture", "minimum"), ("aesthetic", "minimum"))
        for found in [curate[name]]
        for threshold in [found[key]]
    }
    assert {name: (backend, threshold) for name, (backend, _, threshold) in checks.items()} == {
        "near_duplicates": ("DinoEmbedder", 0.90),
        "text_picture": ("TextImageEmbedder", 0.25),
        "aesthetic": ("AestheticPredictor", 5.0),
    }
    assert checks["near_duplicates"][1]["model"] == "facebook/dinov2-base"
    assert checks["text_picture"][1]["model"] == "openai/clip-vit-large-patch14"
    assert "v2_5" in checks["aesthetic"][1]["head"]
    assert (curate["min_side"], curate["faces"]["class_path"].rpartition(".")[2]) == (1024, "MtcnnDetector")
    assert CurateSettings().min_side == 1024
    for stage in ("attributes", "write", "verify"):
        assert settings[stage]["vlm"]["init_args"]["model"] == "google/gemma-4-E4B-it"
        assert (settings[stage]["parameters"] or {"temperature": 0.0})["temperature"] == 0
    assert settings["sample"]["num"] == 1361
    assert settings["dataset"]["tasks"] == ["reference_generation", "text_to_image"]


def test_group_sizes_are_those_that_the_paper_prints() -> None:
    assert GROUP_SIZES == {2: 558, 3: 382, 4: 225, 5: 196}
    assert sum(GROUP_SIZES.values()) == 1361
    assert [round(1000 * count / 1361) / 10 for count in GROUP_SIZES.values()] == [41.0, 28.1, 16.5, 14.4]
