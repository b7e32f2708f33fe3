"""Every recipe in configs/bench parses against the command that it names."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonargparse import auto_parser

from bench import cli
from bench.evaluators.faces.parsing import BISENET_LABELS

CONFIGS = Path(__file__).parents[2] / "configs/bench"


def test_every_recipe_is_tested_here() -> None:
    assert {path.name for path in CONFIGS.glob("*.yaml")} == {
        "cogcanvas_aesthetic.yaml",
        "cogcanvas_aesthetic_offline.yaml",
        "cogcanvas_attr_vqa.yaml",
        "cogcanvas_attr_vqa_words.yaml",
        "cogcanvas_background.yaml",
        "cogcanvas_background_offline.yaml",
        "cogcanvas_clip_t.yaml",
        "cogcanvas_clip_t_offline.yaml",
        "cogcanvas_identity.yaml",
        "cogcanvas_identity_offline.yaml",
        "cogcanvas_person_count.yaml",
        "cogcanvas_retrieval.yaml",
        "cogcanvas_sequential_inpainting.yaml",
        "cogcanvas_subject.yaml",
        "cogcanvas_subject_offline.yaml",
        "control_always_no.yaml",
        "control_always_yes.yaml",
        "control_text_only.yaml",
        "edit_compass_judge.yaml",
        "edit_compass_judge_local.yaml",
        "images_api_generate.yaml",
        "mdmr_judge.yaml",
        "mdmr_judge_local.yaml",
        "mdmr_score_judge.yaml",
        "tabletop_generate.yaml",
        "tabletop_judge.yaml",
    }


def test_the_judge_recipe_parses() -> None:
    settings = auto_parser(cli.judge_run).parse_args(["--config", str(CONFIGS / "tabletop_judge.yaml")])
    assert settings["judge"]["class_path"] == "rm.judge.RewardModelJudge"


def test_the_recipe_of_an_images_api_parses_and_says_how_many_requests_fly() -> None:
    settings = auto_parser(cli.generate).parse_args(["--config", str(CONFIGS / "images_api_generate.yaml")])
    generator = settings["generator"]
    assert generator["class_path"] == "bench.generators_api.ImagesApiGenerator"
    assert settings["batch_size"] >= generator["init_args"]["max_concurrency"]


def test_the_recipe_of_the_baseline_parses() -> None:
    settings = auto_parser(cli.generate).parse_args(["--config", str(CONFIGS / "cogcanvas_sequential_inpainting.yaml")])
    generator = settings["generator"]
    assert generator["class_path"] == "bench.cogcanvas.inpainting.SequentialInpaintingGenerator"
    assert (generator["init_args"]["height"], generator["init_args"]["width"]) == (1024, 1024)


@pytest.mark.parametrize("name", ["edit_compass_judge", "edit_compass_judge_local"])
def test_the_edit_compass_recipes_parse(name: str) -> None:
    settings = auto_parser(cli.judge_run).parse_args(["--config", str(CONFIGS / f"{name}.yaml")])
    assert settings["judge"]["class_path"] == "bench.editcompass.judge.EditCompassJudge"


@pytest.mark.parametrize(
    ("name", "class_path"),
    [
        ("subject", "subject.SubjectJudge"),
        ("subject_offline", "subject.SubjectJudge"),
        ("background", "background.BackgroundJudge"),
        ("background_offline", "background.BackgroundJudge"),
        ("person_count", "person_count.PersonCountJudge"),
        ("clip_t", "text_alignment.TextAlignmentJudge"),
        ("clip_t_offline", "text_alignment.TextAlignmentJudge"),
        ("aesthetic", "aesthetic.AestheticJudge"),
        ("aesthetic_offline", "technical_quality.TechnicalQualityJudge"),
    ],
)
def test_the_cogcanvas_recipes_parse(name: str, class_path: str) -> None:
    settings = auto_parser(cli.judge_run).parse_args(["--config", str(CONFIGS / f"cogcanvas_{name}.yaml")])
    assert settings["judge"]["class_path"] == f"bench.evaluators.{class_path}"


@pytest.mark.parametrize(
    ("name", "class_path"),
    [
        ("cogcanvas_attr_vqa", "rm.protocols.yes_no.YesNoJudge"),
        ("cogcanvas_attr_vqa_words", "rm.protocols.checklist.ChecklistJudge"),
        ("mdmr_judge", "rm.protocols.checklist.ChecklistJudge"),
        ("mdmr_judge_local", "rm.protocols.yes_no.YesNoJudge"),
        ("mdmr_score_judge", "bench.mdmr.score_judge.ScoreJudge"),
        ("control_always_yes", "rm.protocols.controls.ConstantJudge"),
        ("control_always_no", "rm.protocols.controls.ConstantJudge"),
        ("control_text_only", "rm.protocols.checklist.ChecklistJudge"),
    ],
)
def test_the_recipes_of_checklists_parse(name: str, class_path: str) -> None:
    settings = auto_parser(cli.judge_run).parse_args(["--config", str(CONFIGS / f"{name}.yaml")])
    assert settings["judge"]["class_path"] == class_path


@pytest.mark.parametrize("name", ["cogcanvas_identity", "cogcanvas_identity_offline"])
def test_the_identity_recipes_parse(name: str) -> None:
    settings = auto_parser(cli.judge_run).parse_args(["--config", str(CONFIGS / f"{name}.yaml")])
    judge = settings["judge"]
    assert judge["class_path"] == "bench.evaluators.identity.IdentityJudge"
    assert judge["init_args"]["detector"]["class_path"] == "bench.evaluators.faces.mtcnn.MtcnnDetector"
    if (parser := judge["init_args"]["parser"]) is not None:
        assert tuple(parser["init_args"]["labels"]) == BISENET_LABELS


@pytest.mark.parametrize(
    ("name", "place", "part"),
    [
        ("identity", "matching", "hungarian"),
        ("identity", "recognizer.class_path", "bench.evaluators.faces.arcface.IrSeRecognizer"),
        ("identity", "recognizer.init_args.weights", "models/model_ir_se50.pth"),
        ("subject", "embedder.init_args.model", "facebook/dinov2-base"),
        ("clip_t", "embedder.init_args.model", "openai/clip-vit-large-patch14"),
        ("aesthetic", "predictor.init_args.head", "weights/aesthetic_predictor_v2_5.pth"),
        ("aesthetic", "predictor.init_args.encoder", "google/siglip-so400m-patch14-384"),
        ("background", "segmenter.init_args.model", "facebook/sam3"),
        ("background", "embedder.init_args.model", "facebook/dinov3-vitb16-pretrain-lvd1689m"),
        ("attr_vqa", "vlm.init_args.model", "google/gemma-4-e4b-it"),
        ("attr_vqa_words", "vlm.init_args.model", "google/gemma-4-e4b-it"),
        ("attr_vqa_words", "form", "yes_no"),
        ("attr_vqa_words", "parameters.max_tokens", 2),
        ("attr_vqa_words", "parameters.temperature", 0),
    ],
)
def test_cogcanvas_recipes_name_the_papers_parts(name: str, place: str, part: object) -> None:
    """As its sections 4 and 5.2 and appendix C.5 have them."""
    settings = auto_parser(cli.judge_run).parse_args(["--config", str(CONFIGS / f"cogcanvas_{name}.yaml")])
    assert settings[f"judge.init_args.{place}"] == part


def test_the_retrieval_recipe_parses() -> None:
    settings = auto_parser(cli.retrieval).parse_args(["--config", str(CONFIGS / "cogcanvas_retrieval.yaml")])
    assert settings["embedder"]["class_path"] == "bench.evaluators.text_image.TextImageEmbedder"


@pytest.mark.slow  # imports diffusers
def test_the_generate_recipe_parses() -> None:
    settings = auto_parser(cli.generate).parse_args(["--config", str(CONFIGS / "tabletop_generate.yaml")])
    assert settings["generator"]["class_path"] == "rl.generator.DiffusersGenerator"
