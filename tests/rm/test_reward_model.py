"""Scores do not depend on batch, padding or a trip through the disk, and depend on everything they should."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.special import expit
from transformers import AutoModelForImageTextToText

from gnomon.errors import UserError
from rm.lora import LoraOptions
from rm.prompt import PromptTemplate
from rm.reward_model import RewardModel, ScoreOutput, weights_hash

Draw = Callable[..., Image.Image]


def _rows(draw: Draw) -> dict[str, Any]:
    """Five rows with different lengths, sizes and numbers of references (0 to 3)."""
    return {
        "instructions": ["make the circle red", "add", "move the triangle to the left and remove a square .", "", "圆"],
        "references": [
            [draw(1)],
            [],
            [draw(2), draw(3, (48, 32))],
            [draw(4), draw(5), draw(6)],
            [draw(7)],
        ],
        "candidates": [draw(11), draw(12, (64, 32)), draw(13), draw(14), draw(15, (32, 80))],
    }


def _train_a_little(model: RewardModel) -> RewardModel:
    """Make the adapter something else than the identity."""
    generator = torch.Generator().manual_seed(5)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.1
    return model


def test_scores_do_not_depend_on_the_batch_size(reward_model: RewardModel, make_picture: Draw) -> None:
    rows = _rows(make_picture)
    together = reward_model.score_batch(**rows, batch_size=5).values
    alone = reward_model.score_batch(**rows, batch_size=1).values
    assert together.shape == (5, 4)
    assert together.std(dim=0).min() > 1e-2
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)


def test_scores_do_not_depend_on_the_padding_side(reward_model: RewardModel, make_picture: Draw) -> None:
    values = {}
    for side in ("left", "right"):
        reward_model.encoder.processor.tokenizer.padding_side = side
        with torch.no_grad():
            values[side] = reward_model(reward_model.encoder.encode(**_rows(make_picture))).mean
    torch.testing.assert_close(values["left"], values["right"], atol=1e-5, rtol=0)
    torch.testing.assert_close(
        values["left"], reward_model.score_batch(**_rows(make_picture)).values, atol=1e-5, rtol=0
    )


def test_scores_depend_on_every_input(reward_model: RewardModel, make_picture: Draw) -> None:
    draw = make_picture

    def score(instruction: str = "make the circle red", source: int = 1, second: int = 2, candidate: int = 3) -> float:
        references = [draw(source), draw(second)]
        output = reward_model.score(instruction=instruction, references=references, candidates=[draw(candidate)])
        return output.values[0, -1].item()

    original = score()
    for changed in (score(instruction="remove a square"), score(source=9), score(second=9), score(candidate=9)):
        assert abs(changed - original) > 1e-4
    swapped_references = score(source=2, second=1)
    assert abs(swapped_references - original) > 1e-4


def test_positions_are_those_of_the_stock_forward(base_folder: Path, make_picture: Draw) -> None:
    model = RewardModel.from_base(base_folder)
    stock = AutoModelForImageTextToText.from_pretrained(base_folder).eval()
    rows = _rows(make_picture)
    inputs = model.encoder.encode(**rows)
    with torch.no_grad():
        hidden = stock(**inputs, output_hidden_states=True).hidden_states[-1]
        read = hidden[torch.arange(5), model.encoder.end_positions(inputs)]
        expected = torch.nn.functional.linear(read, model.head.weight, model.head.bias)
    torch.testing.assert_close(model.score_batch(**rows).values, expected, atol=1e-5, rtol=0)


def test_the_template_and_its_hash_survive_the_disk_and_scores_are_equal(
    base_folder: Path, make_picture: Draw, tmp_path: Path
) -> None:
    template = PromptTemplate("{instruction} : {references} and {candidate}", "<|endoftext|>")
    lora = LoraOptions(r=4, alpha=16, targets="language+vision+merger")
    model = _train_a_little(RewardModel.from_base(base_folder, lora=lora, template=template, seed=3))
    untrained = RewardModel.from_base(base_folder, lora=lora, template=template, seed=3)
    rows = _rows(make_picture)
    before = model.score_batch(**rows).values
    assert (before - untrained.score_batch(**rows).values).abs().max() > 1e-2, "the adapter does nothing"

    model.save_pretrained(tmp_path / "saved", notes={"steps": 3})
    loaded = RewardModel.from_pretrained(tmp_path / "saved")
    assert loaded.dimensions == model.dimensions
    assert loaded.encoder.template == template
    assert loaded.lora == lora
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
    assert torch.equal(loaded.score_batch(**rows).values, before)
    names = {file.name for file in (tmp_path / "saved").iterdir()}
    assert {"adapter_model.safetensors", "adapter_config.json", "head.safetensors", "reward_model.json"} <= names
    assert not {"model.safetensors", "base"} & names
    assert "steps: 3" in (tmp_path / "saved/README.md").read_text()


def test_a_merged_copy_needs_no_base_and_scores_the_same(
    reward_model: RewardModel, make_picture: Draw, tmp_path: Path
) -> None:
    before = _train_a_little(reward_model).score_batch(**_rows(make_picture)).values
    reward_model.save_pretrained(tmp_path / "saved", include_base=True)
    (tmp_path / "elsewhere").mkdir()
    moved = shutil.move(tmp_path / "saved", tmp_path / "elsewhere/model")
    after = RewardModel.from_pretrained(moved).score_batch(**_rows(make_picture)).values
    torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-5)


def test_model_and_base_can_move_together_or_the_base_be_named(
    base_folder: Path, make_picture: Draw, tmp_path: Path
) -> None:
    shutil.copytree(base_folder, tmp_path / "a/base")
    model = RewardModel.from_base(tmp_path / "a/base")
    model.save_pretrained(tmp_path / "a/model")
    (tmp_path / "a").rename(tmp_path / "b")
    inputs: dict[str, Any] = {"instruction": "add", "references": [], "candidates": [make_picture(1)]}
    expected = model.score(**inputs).values
    assert torch.equal(RewardModel.from_pretrained(tmp_path / "b/model").score(**inputs).values, expected)

    (tmp_path / "b/base").rename(tmp_path / "base")
    with pytest.raises(UserError, match="base model"):
        RewardModel.from_pretrained(tmp_path / "b/model")
    found = RewardModel.from_pretrained(tmp_path / "b/model", base=tmp_path / "base")
    assert torch.equal(found.score(**inputs).values, expected)


def test_another_base_of_the_same_shape_is_refused(base_folder: Path, tmp_path: Path) -> None:
    RewardModel.from_base(base_folder).save_pretrained(tmp_path / "model")
    other = AutoModelForImageTextToText.from_pretrained(base_folder)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1e-3)
    shutil.copytree(base_folder, tmp_path / "other")
    other.save_pretrained(tmp_path / "other")
    with pytest.raises(UserError, match="another base model"):
        RewardModel.from_pretrained(tmp_path / "model", base=tmp_path / "other")


@pytest.mark.parametrize(
    ("file", "key", "value", "what"),
    [
        ("reward_model.json", "template", "{references}{instruction}{candidate}!", "template"),
        ("processor_config.json", "image_processor", None, "preprocessing"),
    ],
)
def test_a_changed_template_or_preprocessing_is_refused(
    reward_model: RewardModel, tmp_path: Path, file: str, key: str, value: str | None, what: str
) -> None:
    _train_a_little(reward_model).save_pretrained(tmp_path / "model")
    content = json.loads((tmp_path / "model" / file).read_text())
    content[key] = value or {**content[key], "image_mean": [0.4, 0.4, 0.4]}
    (tmp_path / "model" / file).write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"the {what} is not the one"):
        RewardModel.from_pretrained(tmp_path / "model")


def test_an_adapter_that_is_the_identity_is_refused(reward_model: RewardModel, tmp_path: Path) -> None:
    reward_model.save_pretrained(tmp_path / "model")
    with pytest.raises(UserError, match="identity"):
        RewardModel.from_pretrained(tmp_path / "model")


def test_saving_replaces_a_reward_model_but_nothing_else(reward_model: RewardModel, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="empty folder"):
        reward_model.save_pretrained(tmp_path / "mine")
    assert [file.name for file in tmp_path.rglob("*.txt")] == ["thesis.txt"]
    _train_a_little(reward_model)
    for _ in range(2):
        reward_model.save_pretrained(tmp_path / "model")
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["mine", "model"]


def test_missing_folders_are_the_users_problem(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"reward_model\.json"):
        RewardModel.from_pretrained(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        RewardModel.from_base(tmp_path / "nothing/at/all")
    with pytest.raises(UserError, match="vision-language model"):
        RewardModel.from_base(tmp_path)


@pytest.mark.parametrize("targets", ["language", "language+vision", "vision+merger", "language+vision+merger"])
def test_every_adapter_tensor_and_head_gets_a_gradient(base_folder: Path, make_picture: Draw, targets: str) -> None:
    lora = LoraOptions(r=4, alpha=8, targets=targets)
    model = _train_a_little(RewardModel.from_base(base_folder, lora=lora)).train()
    rows = _rows(make_picture)
    model(model.encoder.encode(**rows)).mean.square().sum().backward()
    trainable = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert all(("lora_" in name) or name.startswith("head.") for name in trainable)
    assert sum("lora_" in name for name in trainable) >= 8
    silent = [name for name, parameter in trainable.items() if parameter.grad is None or not parameter.grad.any()]
    assert silent == []


def test_fresh_parts_depend_on_the_seed_alone(base_folder: Path) -> None:
    torch.manual_seed(1)
    first = RewardModel.from_base(base_folder, lora=LoraOptions(r=4), seed=7)
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(1)), "torch's own generator was used"
    second = RewardModel.from_base(base_folder, lora=LoraOptions(r=4), seed=7)
    for (name, left), (_, right) in zip(first.named_parameters(), second.named_parameters(), strict=True):
        assert torch.equal(left, right), name


def test_heads_stay_in_float32_over_a_bfloat16_base(base_folder: Path, make_picture: Draw) -> None:
    model = RewardModel.from_base(base_folder, dtype="bfloat16", lora=LoraOptions(r=4))
    exact = RewardModel.from_base(base_folder, lora=LoraOptions(r=4))
    rows = _rows(make_picture)
    values = model.score_batch(**rows).values
    assert values.dtype == torch.float32
    assert values.unique().numel() == values.numel(), "rounding tied different candidates"
    torch.testing.assert_close(values, exact.score_batch(**rows).values, atol=0.2, rtol=0)


def test_scoring_leaves_the_mode_alone_and_keeps_no_gradient(reward_model: RewardModel, make_picture: Draw) -> None:
    reward_model.train()
    output = reward_model.score(instruction="add", references=[], candidates=[make_picture(1), make_picture(2)])
    assert reward_model.training
    assert not output.values.requires_grad
    assert output.values.shape == (2, 4)
    assert reward_model.score(instruction="add", references=[], candidates=[]).values.shape == (0, 4)


def test_unequal_lists_and_names_are_refused(reward_model: RewardModel, base_folder: Path, make_picture: Draw) -> None:
    with pytest.raises(ValueError, match="equal length"):
        reward_model.score_batch(instructions=["a"], references=[], candidates=[make_picture(1)])
    with pytest.raises(UserError, match="different dimensions"):
        RewardModel.from_base(base_folder, dimensions=["overall", "overall"])


def test_a_base_model_answers_yes_or_no_with_the_log_odds_of_its_next_word(
    base_folder: Path, make_picture: Draw
) -> None:
    model = RewardModel.from_base(base_folder)
    model.answer_yes_or_no()
    inputs = model.encoder.encode(["make the circle red"], [[make_picture(1)]], [make_picture(2)])
    stock = AutoModelForImageTextToText.from_pretrained(base_folder).eval()
    with torch.no_grad():
        logits = stock(**inputs).logits[0, int(model.encoder.end_positions(inputs)[0])]
        words = model.encoder.processor.tokenizer.get_vocab()
        expected = logits[words["yes"]] - logits[words["no"]]
        assert torch.allclose(model(inputs).mean, expected.expand(1, 4), atol=1e-4)


def test_a_tokenizer_without_the_words_is_refused(reward_model: RewardModel) -> None:
    with pytest.raises(UserError, match="maybe"):
        reward_model._word_id("maybe")


def test_scores_with_doubt_come_back_from_the_disk_with_their_temperatures(
    base_folder: Path, make_picture: Draw, tmp_path: Path
) -> None:
    model = RewardModel.from_base(base_folder, uncertainty=True)
    torch.nn.init.normal_(model.head.weight, std=0.2, generator=torch.Generator().manual_seed(5))
    model.temperatures = {"overall": 2.0}
    model.save_pretrained(tmp_path / "model")
    loaded = RewardModel.from_pretrained(tmp_path / "model")
    rows = _rows(make_picture)
    ours, theirs = model.score_batch(**rows), loaded.score_batch(**rows)
    assert ours.sigmas is not None
    assert theirs.sigmas is not None
    assert ours.sigmas.shape == ours.values.shape
    torch.testing.assert_close(theirs.values, ours.values)
    torch.testing.assert_close(theirs.sigmas, ours.sigmas)
    assert theirs.temperatures.tolist() == [1.0, 1.0, 1.0, 2.0]
    assert "P(first better) = sigmoid(difference / 2)" in (tmp_path / "model" / "README.md").read_text()


def test_a_preference_is_the_calibrated_marginal_probability() -> None:
    values, sigmas = torch.tensor([[1.0, 0.0], [0.0, 0.5]]), torch.tensor([[1.0, 1e-3], [1.0, 1e-3]])
    plain = ScoreOutput(("a", "b"), values, None, torch.tensor([1.0, 2.0]))
    assert plain.preference(0, 1) == pytest.approx({"a": expit(1.0), "b": expit(-0.25)}, abs=1e-6)
    doubtful = ScoreOutput(("a", "b"), values, sigmas, torch.tensor([1.0, 2.0])).preference(0, 1)
    samples = np.random.default_rng(0).normal(1.0, 2**0.5, 400_000)
    assert doubtful["a"] == pytest.approx(expit(samples).mean(), abs=2e-3)
    assert doubtful["b"] == pytest.approx(expit(-0.25), abs=1e-5)


def test_an_uncertain_head_starts_equally_unsure_of_everything(base_folder: Path, make_picture: Draw) -> None:
    output = RewardModel.from_base(base_folder, uncertainty=True).score_batch(**_rows(make_picture))
    assert output.sigmas is not None
    assert (output.sigmas == 1).all()
    assert len(set(output.values[:, 0].tolist())) > 1


def test_a_shared_beginning_changes_no_score(reward_model: RewardModel, make_picture: Draw) -> None:
    """Two sources with several candidates each, in turns, and a row of its own kind."""
    model = _train_a_little(reward_model)
    draw = make_picture
    sources: list[list[Image.Image]] = [[draw(1), draw(2, (48, 32))], [draw(3)], []]
    rows: dict[str, Any] = {
        "instructions": ["make the circle red", "remove a square", "make the circle red"] * 4 + ["add"],
        "references": [*sources * 4, sources[0]],
        "candidates": [draw(20 + k, (32 + 16 * (k % 3), 32)) for k in range(13)],
    }
    expected = model.score_batch(**rows, batch_size=1, share_prefix=False).values
    assert expected.std(dim=0).min() > 1e-2
    seen: list[tuple[int, int]] = []
    backbone: Any = model._stock().model
    backbone.register_forward_pre_hook(
        lambda _, args, inputs: seen.append((inputs["input_ids"].shape[0], inputs["image_grid_thw"].shape[0])),
        with_kwargs=True,
    )
    for size in (2, 16):
        seen.clear()
        found = model.score_batch(**rows, batch_size=size).values
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    # Of two sources the pictures run once, and behind them four candidates; rows without sources and the odd one whole.
    assert seen == [(1, 2), (4, 4), (1, 1), (4, 4), (5, 7)]


def test_rows_are_what_the_processor_makes_of_the_prompts(reward_model: RewardModel, make_picture: Draw) -> None:
    encoder, rows = reward_model.encoder, _rows(make_picture)
    encoder.processor.tokenizer.padding_side = "right"
    expected = encoder.encode(**rows)
    found = encoder.inputs.collate(encoder.rows(**rows))
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def test_an_impossible_picture_is_refused_before_anything_is_scored(
    reward_model: RewardModel, make_picture: Draw
) -> None:
    with pytest.raises(ValueError, match="6000 x 4"):
        reward_model.score(instruction="add", references=[], candidates=[make_picture(1), Image.new("RGB", (6000, 4))])


@pytest.fixture(scope="module")
def four_bit_model(base_folder: Path) -> RewardModel:
    pytest.importorskip("bitsandbytes")
    lora = LoraOptions(r=4, alpha=16, targets="language+vision")
    return RewardModel.from_base(base_folder, lora=lora, dtype="bfloat16", quantize="nf4", seed=3)


def test_four_bits_are_for_the_language_model_alone_and_what_is_trained_is_float32(
    four_bit_model: RewardModel,
) -> None:
    # Adapted layers wrap theirs, whose class is bitsandbytes'.
    four_bits = {name for name, module in four_bit_model.named_modules() if type(module).__name__ == "Linear4bit"}
    four_bits = {name for name in four_bits if name.endswith("base_layer")}
    assert len(four_bits) == 2 * 7
    assert all("language_model" in name for name in four_bits)
    trained = [parameter for parameter in four_bit_model.parameters() if parameter.requires_grad]
    assert len(trained) > 2 * 7
    assert {parameter.dtype for parameter in trained} == {torch.float32}


def test_a_four_bit_model_learns_and_scores_the_same_after_a_trip_through_the_disk(
    four_bit_model: RewardModel, base_folder: Path, make_picture: Draw, tmp_path: Path
) -> None:
    model = _train_a_little(four_bit_model)
    rows = _rows(make_picture)
    model.train()
    model(model.encoder.encode(**rows)).mean.square().sum().backward()
    silent = [name for name, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    assert silent == []
    model.eval()
    before = model.score_batch(**rows).values
    model.save_pretrained(tmp_path / "saved")
    assert json.loads((tmp_path / "saved/reward_model.json").read_text())["quantize"] == "nf4"
    assert "nf4" in (tmp_path / "saved/README.md").read_text()
    loaded = RewardModel.from_pretrained(tmp_path / "saved")
    assert loaded.quantize == "nf4"
    assert torch.equal(loaded.score_batch(**rows).values, before)
    exact = RewardModel.from_base(base_folder, lora=model.lora, seed=3)
    exact.load_state_dict({k: v for k, v in model.state_dict().items() if "lora_" in k or "head." in k}, strict=False)
    difference = (exact.score_batch(**rows).values - before).abs()
    assert 1e-3 < difference.max() < 1.5, "four bits are close to full precision, and not the same"
    assert weights_hash(model) != weights_hash(exact)
    with pytest.raises(UserError, match="quantized"):
        model.save_pretrained(tmp_path / "whole", include_base=True)


def test_a_limit_of_pixels_saves_tokens_and_is_saved(base_folder: Path, make_picture: Draw, tmp_path: Path) -> None:
    rows: dict[str, Any] = {
        "instructions": ["add"], "references": [[]], "candidates": [make_picture(1, (128, 128))]
    }  # fmt: skip
    free, limited = RewardModel.from_base(base_folder), RewardModel.from_base(base_folder, max_pixels=32 * 32)
    assert limited.encoder.preprocessing_hash != free.encoder.preprocessing_hash
    grids = [model.encoder.encode(**rows)["image_grid_thw"].prod().item() for model in (free, limited)]
    assert grids[1] == 16  # 32 x 32 pixels in patches of 8
    assert grids[0] > grids[1]
    limited.save_pretrained(tmp_path / "model")
    loaded = RewardModel.from_pretrained(tmp_path / "model")
    torch.testing.assert_close(loaded.score_batch(**rows).values, limited.score_batch(**rows).values)


def test_a_limit_below_the_smallest_picture_is_refused(base_folder: Path) -> None:
    with pytest.raises(UserError, match="max_pixels of at least"):
        RewardModel.from_base(base_folder, max_pixels=10)
