"""The tiny editor of puzzles: what it learns from, and how it is steered by the verifier."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
import torch
import yaml
from diffusers import Flux2KleinPipeline

from data_build.puzzles.build import build_puzzles, draw_instances, make_puzzle
from data_build.puzzles.puzzle import AnyPuzzle
from data_build.puzzles.tiny_editor import (
    RESOLUTION,
    SETTINGS,
    TASK,
    any_pictures,
    changed_tokens,
    draw_puzzles,
    encode_puzzles,
    make_words,
    measure_autoencoder,
    measure_editor,
    pictures_of,
    tokens_of,
    train_puzzle_editor,
)
from data_build.puzzles.verify import verify_instance
from data_build.tabletop.tiny_editor import CALL_ARGUMENTS, TEXT_LENGTH, encode_pictures, make_tokenizer
from data_build.tabletop.train_editor import Editor, to_pictures
from gnomon.cli import main
from gnomon.datasets import read_cases, write_records
from gnomon.errors import UserError
from gnomon.records import Split
from rl.callbacks import read_curve
from rl.generator import DiffusersGenerator

CONFIGS = Path(__file__).resolve().parents[3] / "configs"


@pytest.fixture(scope="module")
def puzzle() -> AnyPuzzle:
    return make_puzzle(TASK, SETTINGS)


@pytest.fixture(scope="module")
def pipeline(random_editor: Path) -> Flux2KleinPipeline:
    return Flux2KleinPipeline.from_pretrained(random_editor)


def test_what_it_knows_is_what_the_recipe_draws() -> None:
    recipe = yaml.safe_load((CONFIGS / "data/tiny_puzzles.yaml").read_text(encoding="utf-8"))
    assert recipe["settings"] == {TASK: SETTINGS}
    assert (recipe["task"], recipe["resolution"]) == (TASK, RESOLUTION)


def test_the_best_answer_comes_first_and_another_valid_one_second(puzzle: AnyPuzzle) -> None:
    drawn = draw_puzzles(puzzle, 60, 0, "train")
    values: Counter[tuple[str, ...]] = Counter()
    for item in drawn:
        source = puzzle.render(item.instance, RESOLUTION)
        edits = [puzzle.render(item.instance, RESOLUTION, answer) for answer in item.answers]
        values[tuple(verify_instance(puzzle, item.instance, source, edit).value for edit in edits)] += 1
    assert set(values) == {("correct",), ("correct", "suboptimal")}
    assert values["correct", "suboptimal"] > 30


def test_its_puzzles_are_its_own_and_the_same_each_time(puzzle: AnyPuzzle) -> None:
    drawn = [item.instance for item in draw_puzzles(puzzle, 20, 0, "train")]
    assert drawn == [item.instance for item in draw_puzzles(puzzle, 20, 0, "train")]
    assert drawn != list(draw_instances(puzzle, 20, 0, "train"))
    assert drawn != [item.instance for item in draw_puzzles(puzzle, 20, 0, "validation")]


def test_settings_that_admit_no_puzzle_are_named(tmp_path: Path) -> None:
    walls = make_puzzle(TASK, SETTINGS | {"shares": {"wall": 1.0}})
    with pytest.raises(UserError, match="settings of optimal_path that admit 2 different puzzles, found 0"):
        train_puzzle_editor(tmp_path / "a", out=tmp_path / "b", puzzle=walls, num_check=2)


def test_pictures_survive_the_way_into_numbers_and_back(puzzle: AnyPuzzle) -> None:
    image = puzzle.render(draw_puzzles(puzzle, 1, 3, "train")[0].instance, RESOLUTION)
    (back,) = to_pictures(pictures_of([image]))
    assert back.tobytes() == image.tobytes()


def test_the_autoencoder_sees_sources_and_answers(puzzle: AnyPuzzle) -> None:
    pictures = any_pictures(puzzle)(random.Random(0), 15)
    assert pictures.shape == (15, 3, RESOLUTION, RESOLUTION)
    red = (pictures[:, 0] > 0.6) & (pictures[:, 1] < -0.6)
    assert 3 < red.flatten(1).any(1).sum() < 15


def test_changed_tokens_are_those_with_another_pixel() -> None:
    sources = torch.zeros(1, 3, 64, 64)
    targets = sources.clone()
    targets[0, 1, 16, 47] = 0.1  # the first row of the second row of tokens, the last column of the third
    targets[0, 2, 63, 0] = -1.0
    assert changed_tokens(sources, targets).nonzero().tolist() == [[0, 6], [0, 12]]


def test_every_answer_is_a_pair_with_its_source(puzzle: AnyPuzzle, pipeline: Flux2KleinPipeline) -> None:
    drawn = draw_puzzles(puzzle, 12, 1, "train")
    pairs = encode_puzzles(puzzle, drawn, pipeline.vae, pipeline.tokenizer, seed=1)
    assert len(pairs) == sum(len(item.answers) for item in drawn) > len(drawn)
    first = drawn[0]
    images = [puzzle.render(first.instance, RESOLUTION, answer) for answer in (None, *first.answers)]
    with torch.no_grad():
        source, *targets = encode_pictures(pipeline.vae, pictures_of(images)).half()
    for row, target in enumerate(targets):
        assert torch.allclose(pairs.sources[row], source, atol=5e-3)
        assert torch.allclose(pairs.targets[row], target, atol=5e-3)
    assert (pairs.sources[: len(targets)] != pairs.targets[: len(targets)]).any()
    assert pairs.changed.any(1).all()
    assert len(pairs.input_ids.unique(dim=0)) == 2  # the instruction in English and in Chinese


def test_a_long_instruction_is_cut_as_the_stock_pipeline_cuts_it(
    puzzle: AnyPuzzle, pipeline: Flux2KleinPipeline
) -> None:
    instance = draw_puzzles(puzzle, 1, 2, "train")[0].instance
    texts = [puzzle.instruct(instance).get(language) for language in ("en", "zh")]
    tokenizer = make_tokenizer(make_words(puzzle, [instance]))
    assert len(tokenizer(texts[0])["input_ids"]) > TEXT_LENGTH
    assert tokenizer.convert_ids_to_tokens(tokenizer(" cheapest path")["input_ids"]) == ["Ġcheapest", "Ġpath"]
    ids, mask = tokens_of(texts, pipeline.tokenizer)
    with torch.no_grad():
        ours = Editor(pipeline.text_encoder, pipeline.transformer).encode_text(ids, mask)
        stock, _ = pipeline.encode_prompt(texts, **CALL_ARGUMENTS)
    assert torch.allclose(ours, stock, atol=1e-5)


def test_an_untrained_editor_solves_nothing(puzzle: AnyPuzzle, pipeline: Flux2KleinPipeline) -> None:
    drawn = draw_puzzles(puzzle, 6, 0, "validation")
    editor = Editor(pipeline.text_encoder, pipeline.transformer)
    shares = measure_editor(puzzle, drawn, editor, pipeline.vae, pipeline.tokenizer, seed=0)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["correct"] == 0
    assert measure_autoencoder(puzzle, drawn, pipeline.vae)["target_correct"] == 0


def test_one_call_trains_it_and_a_second_one_has_nothing_left_to_do(puzzle: AnyPuzzle, tmp_path: Path) -> None:
    out = tmp_path / "model"
    steps = {"autoencoder_steps": 1, "editor_steps": 1, "num_puzzles": 4, "num_check": 3}
    figures = train_puzzle_editor(tmp_path / "work", out=out, puzzle=puzzle, **steps)
    assert DiffusersGenerator(str(out)).num_inference_steps == 8
    weights = (out / "transformer/diffusion_pytorch_model.safetensors").read_bytes()
    assert train_puzzle_editor(tmp_path / "work", out=out, puzzle=puzzle, **steps) == figures
    assert (out / "transformer/diffusion_pytorch_model.safetensors").read_bytes() == weights


def test_rl_takes_the_verifier_as_its_reward_and_counts_what_it_cannot_verify(
    random_editor: Path, tmp_path: Path
) -> None:
    sizes: dict[Split, int] = {"train": 4, "validation": 3}
    for split, num in sizes.items():
        build_puzzles(
            tmp_path / split,
            tasks=[TASK],
            num=num,
            seed=0,
            split=split,
            resolution=RESOLUTION,
            settings={TASK: SETTINGS},
        )
        cases = read_cases(tmp_path / split)
        write_records(tmp_path / split / "cases.jsonl", [cases[0].model_copy(update={"meta": {}}), *cases[1:]])
    run = tmp_path / "run"
    code = main(
        [
            *("rl", "fit", "--config", str(CONFIGS / "rl/puzzle_optimal_path.yaml"), "--out", str(run)),
            *("--model.generator.init_args.model", str(random_editor), "--trainer.enable_progress_bar", "false"),
            *("--data.train", str(tmp_path / "train"), "--data.validation", str(tmp_path / "validation")),
            *("--trainer.max_epochs", "1", "--trainer.check_val_every_n_epoch", "1"),
            *("--model.rollout.num_prompts", "4", "--model.rollout.num_candidates", "2"),
            *("--model.rollout.micro_batch_size", "4", "--trainer.accumulate_grad_batches", "2"),
            *("--model.rollout.max_failed_share", "0.5"),
        ]
    )
    assert code == 0
    metrics = {name: value for point in read_curve(run) for name, value in point.metrics.items()}
    assert metrics["rollout/failed"] == 2  # the two candidates of the case that holds no puzzle
    assert metrics["validation/failed"] == 1
    for name in ("rollout/solved", "rollout/valid", "validation/solved", "validation/valid"):
        assert metrics[name] == 0.0
    assert json.loads((run / "manifest.json").read_text())["status"] == "finished"
