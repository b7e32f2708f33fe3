"""`gnomon rm think` at tiny size: what the model is shown, both stages, kills, and every refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText, Qwen3VLModel, TrainerCallback

from gnomon.cli import main
from gnomon.datasets import read_comparisons, resolve, write_records
from gnomon.errors import UserError
from gnomon.images import load_image
from gnomon.records import Comparison
from gnomon.runs import read_manifest
from rm.lora import LoraOptions, load_lora
from rm.storage import check_adapter
from rm.thinking import stages
from rm.thinking.asking import Order, Preference, Question
from rm.thinking.options import ColdStart, Grpo, ThinkingOptions
from rm.thinking.stages import last_checkpoint
from rm.thinking.training import parse, train
from rm.vlm.conversation import Conversation, Message
from rm.vlm.processor import load_processor

Make = Callable[[ThinkingOptions], Question]
ADAPTER = "adapter/adapter_model.safetensors"


def test_both_stages_write_an_adapter_that_loads_on_the_base(
    options: ThinkingOptions, pairwise: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    train(options, out, pairwise)
    check_adapter(out / "adapter")
    base = AutoModelForImageTextToText.from_pretrained(options.base)
    model = load_lora(base, str(out / "adapter"))
    adapted = [name for name, _ in model.named_parameters() if "lora_" in name]
    assert adapted
    assert all("language_model" in name for name in adapted)  # the vision tower stays as it is
    assert set(model.peft_config) == {"default"}
    assert not (out / "adapter" / "ref").exists()
    assert load_processor(str(out / "adapter"), base.config).tokenizer.padding_side == "right"

    manifest = json.loads((out / "adapter" / "thinking.json").read_text())
    assert (out / "adapter" / manifest["base"]).resolve() == Path(options.base).resolve()
    assert manifest["protocol"] == "pairwise"
    assert manifest["prompt_hash"] == "hash"
    card = (out / "adapter" / "README.md").read_text()
    assert "4 of cold start, 4 of GRPO" in card
    results = json.loads((out / "results.json").read_text())
    assert results["rationales"]["used"] == 48
    assert set(results["last_rewards"]) == {"answer", "format", "soft_overlong_punishment_reward"}
    figures = (out / "logs/csv/version_0/metrics.csv").read_text()
    assert "cold_start/loss" in figures
    assert "grpo/rewards/format/mean" in figures

    before = (out / ADAPTER).stat().st_mtime_ns
    capsys.readouterr()
    train(options, out, pairwise)
    assert "is finished" in capsys.readouterr().out
    assert (out / ADAPTER).stat().st_mtime_ns == before
    with pytest.raises(UserError, match=r"differs in config\.grpo\.beta"):
        train(replace(options, grpo=replace(options.grpo, beta=0.1)), out, pairwise)


class _StoppedError(Exception):
    """Stands for a kill: nothing of the run's own handles it."""


class _StopAfter(TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            raise _StoppedError


def _stop(monkeypatch: pytest.MonkeyPatch, stage: str, step: int) -> None:
    """Let the next training end as if killed when it begins a step of a stage."""
    original = stages._run

    def run(trainer: Any, place: Any, name: str, **settings: Any) -> Any:
        if name == stage:
            trainer.add_callback(_StopAfter(step))
        return original(trainer, place, name, **settings)

    monkeypatch.setattr(stages, "_run", run)


def _interrupted(
    options: ThinkingOptions, out: Path, pairwise: Make, monkeypatch: pytest.MonkeyPatch, stage: str, step: int
) -> None:
    with monkeypatch.context() as patch:
        _stop(patch, stage, step)
        with pytest.raises(_StoppedError):
            train(options, out, pairwise)


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_a_run_that_was_stopped_in_both_stages_ends_with_the_same_bytes(
    beta: float, options: ThinkingOptions, pairwise: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped one step behind a checkpoint each time, with dropout and a second pass over the data."""
    options = replace(
        options, lora=replace(options.lora, dropout=0.1), grpo=replace(options.grpo, beta=beta), save_steps=2
    )
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    train(options, whole, pairwise)
    _interrupted(options, stopped, pairwise, monkeypatch, "cold_start", 3)
    assert last_checkpoint(stopped / "checkpoints/cold_start") is not None
    assert not (stopped / "cold_start").exists()
    _interrupted(options, stopped, pairwise, monkeypatch, "grpo", 3)
    assert (stopped / "cold_start").exists()
    # A checkpoint that the kill left half written is not gone on from.
    torn = stopped / "checkpoints/grpo/checkpoint-3"
    torn.mkdir()
    (torn / "trainer_state.json").write_text('{"global_st')
    train(options, stopped, pairwise)
    assert not torn.exists()
    assert (stopped / ADAPTER).read_bytes() == (whole / ADAPTER).read_bytes()
    manifest = read_manifest(stopped)
    assert manifest is not None
    assert manifest.status == "finished"


def test_a_run_that_was_stopped_before_it_saved_needs_no_step_more(
    options: ThinkingOptions, pairwise: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    options = replace(options, grpo=replace(options.grpo, steps=2), cold_start=replace(options.cold_start, steps=2))

    def fail(*_: Any, **__: Any) -> None:
        raise _StoppedError

    with monkeypatch.context() as patch:
        patch.setattr("rm.thinking.run.save_judge", fail)
        with pytest.raises(_StoppedError):
            train(options, out, pairwise)
    trained = (out / "checkpoints/grpo/checkpoint-2/adapter_model.safetensors").read_bytes()
    train(options, out, pairwise)
    assert (out / ADAPTER).read_bytes() == trained


@pytest.fixture
def mixed(data: Path) -> Path:
    """The data with three references in every second comparison."""
    records = read_comparisons(data)
    references = [reference for record in records[:3] for reference in record.references]
    changed = [
        record.model_copy(update={"references": references}) if number % 2 else record
        for number, record in enumerate(records)
    ]
    write_records(data / "comparisons.jsonl", changed)
    return data


def test_rows_with_different_numbers_of_pictures_are_told_apart_in_every_forward(
    options: ThinkingOptions, pairwise: Make, mixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kinds of tokens stand where the placeholders do, and there is one feature per placeholder."""
    seen: list[dict[str, torch.Tensor]] = []
    forward = Qwen3VLModel.forward  # trl calls the model below the head, generation the one with it

    @wraps(forward)
    def recorded(self: Any, **inputs: Any) -> Any:
        seen.append({name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)})
        return forward(self, **inputs)

    monkeypatch.setattr(Qwen3VLModel, "forward", recorded)
    options = replace(
        options,
        cold_start=replace(options.cold_start, steps=2),
        grpo=replace(options.grpo, steps=2, prompts_per_step=8, group_size=2, micro_batch_size=8),
    )
    train(options, tmp_path / "run", pairwise)
    placeholder = AutoModelForImageTextToText.from_pretrained(options.base).config.image_token_id
    whole = [inputs for inputs in seen if "pixel_values" in inputs]
    assert len(whole) >= 4
    counts = set()
    for inputs in whole:
        is_picture = inputs["input_ids"] == placeholder
        assert torch.equal(inputs["mm_token_type_ids"] == 1, is_picture)
        assert int(is_picture.sum()) == int((inputs["image_grid_thw"].prod(dim=1) // 4).sum())
        counts |= set(is_picture.sum(dim=1).tolist())
    assert counts == {12, 20}  # three and five pictures of four tokens


def test_half_precision_and_checkpointed_activations_train_as_well(
    options: ThinkingOptions, pairwise: Make, tmp_path: Path
) -> None:
    """What the defaults are on a GPU; the adapter is in single precision all the same."""
    cold, grpo = replace(options.cold_start, steps=1), replace(options.grpo, steps=1)
    options = replace(options, dtype="bfloat16", gradient_checkpointing=True, cold_start=cold, grpo=grpo)
    train(options, tmp_path / "run", pairwise)
    weights = load_file(tmp_path / "run" / ADAPTER)
    assert {value.dtype for value in weights.values()} == {torch.float32}


def test_a_rubric_judge_is_rewarded_for_the_order_of_two_pictures_scores(
    options: ThinkingOptions, data: Path, tmp_path: Path
) -> None:
    """The score is the number of times that a reply says "bright": people's label is met, missed, or a tie."""

    def build(comparison: Comparison, order: Order) -> Conversation:
        (position,) = order
        return (Message("user", (load_image(resolve(data, comparison.candidates[position].path)), "make red")),)

    question = Question("rubric", "hash", build, lambda text: float(text.split().count("bright")))
    grpo = replace(options.grpo, steps=2, temperature=5.0, max_completion_length=16)
    options = replace(options, protocol="rubric", rationales=None, grpo=grpo)
    train(options, tmp_path / "run", lambda _: question)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert 0 < results["last_rewards"]["answer"] < 1


def test_without_rationales_the_cold_start_is_skipped_and_said_once(
    options: ThinkingOptions, pairwise: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A random model never writes tags, so this question can be answered by chance."""

    def guessed(text: str) -> Preference:
        return "A>B" if text.split().count("red") % 2 else "B>A"

    train(
        replace(options, rationales=None, grpo=replace(options.grpo, steps=2, temperature=5.0)),
        tmp_path / "run",
        lambda settings: replace(pairwise(settings), read=guessed),
    )
    assert capsys.readouterr().out.count("no cold start: there are no rationales") == 1
    assert not (tmp_path / "run" / "cold_start").exists()
    check_adapter(tmp_path / "run" / "adapter")


def test_a_judge_that_learnt_nothing_is_not_saved(options: ThinkingOptions, pairwise: Make, tmp_path: Path) -> None:
    """No reply of one token has a thought and an answer, and all are equally long."""
    grpo = replace(options.grpo, steps=1, max_completion_length=1, length_cache=1)
    with pytest.raises(UserError, match=r"nothing was learnt .* format 0\.000"):
        train(replace(options, rationales=None, grpo=grpo), tmp_path / "run", pairwise)
    assert not (tmp_path / "run" / "adapter").exists()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"grpo": {"group_size": 1}}, "grpo.group_size of at least 2"),
        ({"grpo": {"prompts_per_step": 3}}, "grpo.prompts_per_step that 2 divides"),
        ({"grpo": {"micro_batch_size": 3}}, "expected grpo.micro_batch_size"),
        ({"grpo": {"temperature": 0.0}}, "grpo.temperature above 0"),
        ({"grpo": {"length_cache": 9}}, "grpo.length_cache between 1"),
        ({"cold_start": {"micro_batch_size": 3}}, "expected cold_start.micro_batch_size"),
        ({"save_steps": 0}, "save_steps of at least 1"),
        ({"metric": "beauty"}, "expected judgements in 'beauty'"),
        ({"rationales": None, "grpo": {"steps": 0}}, "expected something to train"),
        ({"base": "./nowhere"}, "expected the base model"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_there_is_a_run_folder(
    changes: dict[str, Any], problem: str, options: ThinkingOptions, pairwise: Make, tmp_path: Path
) -> None:
    for name, value in changes.items():
        options = replace(
            options, **{name: replace(getattr(options, name), **value) if isinstance(value, dict) else value}
        )
    with pytest.raises(UserError, match=problem):
        train(options, tmp_path / "run", pairwise)
    assert not (tmp_path / "run").exists()


def test_on_more_ranks_both_sides_of_a_pair_stay_on_one(options: ThinkingOptions) -> None:
    replace(options, grpo=replace(options.grpo, prompts_per_step=16)).check(ranks=8 // 4)
    with pytest.raises(UserError, match="that 16 divides"):
        replace(options, grpo=replace(options.grpo, prompts_per_step=8)).check(ranks=8)


def test_config_file_and_dotted_flags_become_options(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("base: b\ndata: d\ngrpo:\n  steps: 7\n  beta: 0.1\nlora:\n  r: 8\n", encoding="utf-8")
    options, out = parse([f"--config={config}", "--grpo.beta=0.2", "--cold-start.steps=3", "--out", "o"])
    assert options == ThinkingOptions(
        base="b",
        data="d",
        grpo=Grpo(steps=7, beta=0.2),
        lora=LoraOptions(r=8),
        cold_start=ColdStart(steps=3),
    )
    assert out == Path("o")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["--grpo.stps=3"], "grpo.stps"), (["--protocol=checklist"], "protocol"), (["--grpo.steps=many"], "grpo.steps")],
)
def test_unknown_keys_and_values_are_errors_that_name_them(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rm", "think", "--base=b", "--data=d", "--out=o", *arguments]) == 2
    assert named in capsys.readouterr().err


def test_an_unknown_key_of_the_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("base: b\ndata: d\ngrpo:\n  stps: 7\n", encoding="utf-8")
    assert main(["rm", "think", f"--config={config}", "--out=o"]) == 2
    assert "stps" in capsys.readouterr().err


def test_the_recipe_is_taken(repository: Path) -> None:
    options, _ = parse([f"--config={repository / 'configs/rm/qwen3_5_9b_thinking.yaml'}", "--out=o"])
    options.check(ranks=8)
    assert options.base == "Qwen/Qwen3.5-9B"
