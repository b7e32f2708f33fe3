"""The models that ship: small, loadable by stock libraries, and as good as their cards say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from diffusers import Flux2KleinPipeline, Flux2Transformer2DModel
from safetensors import safe_open

from data_build.demo.steps import model_folder
from data_build.tabletop.edits import SIMPLE_KINDS
from data_build.tabletop.shipped import DILIGENT, ship_editor, ship_judge
from data_build.tabletop.train_editor import Editor, measure, sample_pairs
from rl.generator import DiffusersGenerator
from rm.reward_model import RewardModel

MEGABYTE = 10**6


@pytest.fixture(scope="module")
def pipeline() -> Flux2KleinPipeline:
    return Flux2KleinPipeline.from_pretrained(model_folder("editor"))


def test_they_take_fifteen_megabytes_at_most_and_have_cards() -> None:
    folders = [model_folder(name) for name in ("editor", "judge")]
    sizes = [path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert sum(sizes) <= 15 * MEGABYTE
    assert all((folder / "README.md").stat().st_size > 500 for folder in folders)


def test_no_config_names_a_folder_of_the_machine_it_was_made_on() -> None:
    configs = [path for name in ("editor", "judge") for path in model_folder(name).rglob("*.json")]
    assert len(configs) > 6
    absolute = re.compile(r':\s*"(/[A-Za-z]|[A-Za-z]:\\\\)[^"]*"')
    assert [path for path in configs if absolute.search(path.read_text(encoding="utf-8"))] == []


def test_the_lazy_editor_has_room_and_the_diligent_one_is_good(pipeline: Flux2KleinPipeline) -> None:
    cases = sample_pairs("validation", SIMPLE_KINDS, 60, seed=7)
    success = {}
    for name, transformer in (
        ("lazy", pipeline.transformer),
        ("diligent", Flux2Transformer2DModel.from_pretrained(model_folder("editor") / DILIGENT)),
    ):
        editor = Editor(pipeline.text_encoder, transformer)
        success[name] = measure(editor, pipeline.vae, pipeline.tokenizer, cases, seed=7)["success"]
    assert 0.1 < success["lazy"] < 0.5
    assert success["diligent"] > 0.8


def test_stock_loading_computes_in_single_precision_what_is_stored_in_half(pipeline: Flux2KleinPipeline) -> None:
    assert pipeline.transformer.dtype == pipeline.text_encoder.dtype == torch.float32
    with safe_open(model_folder("editor") / "transformer" / "diffusion_pytorch_model.safetensors", "pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.float16}  # noqa: SIM118, no mapping


def test_our_generator_reads_its_settings() -> None:
    generator = DiffusersGenerator(str(model_folder("editor")))
    assert (generator.num_inference_steps, generator.height, generator.width) == (8, 64, 64)
    assert generator.pipeline_kwargs["max_sequence_length"] == 24


def test_a_reward_model_starts_from_the_judge() -> None:
    model = RewardModel.from_base(model_folder("judge"))
    assert sum(parameter.numel() for parameter in model.vlm.parameters()) < 2e6


def test_both_are_trained_from_nothing_by_one_call(tmp_path: Path) -> None:
    out = tmp_path / "editor"
    folder = tmp_path / "a"
    ship_editor(folder, out=out, autoencoder_steps=1, editor_steps=1, lazy_steps=1, num_pairs=12, num_check=5)
    assert DiffusersGenerator(str(out)).num_inference_steps == 8
    assert (tmp_path / "a" / "editor" / "curve.csv").exists()
    ship_judge(tmp_path / "b", out=tmp_path / "judge", num_steps=1, num_check=4)
    assert RewardModel.from_base(tmp_path / "judge").dimensions
