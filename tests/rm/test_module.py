"""The module trains adapter and heads, nothing else, and measures what it says."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import Trainer

from gnomon.datasets import read_comparisons
from gnomon.errors import UserError
from rm.data import ComparisonDataset, ComparisonsDataModule, PairBatch, collate
from rm.lora import LoraOptions
from rm.losses import rao_kupper, regression
from rm.module import RewardModule, WarmupCosine

Write = Callable[..., Path]


@pytest.fixture
def batch(base_folder: Path, write_comparisons: Write, tmp_path: Path) -> PairBatch:
    root = write_comparisons(tmp_path / "data", 2)
    module = RewardModule(str(base_folder), lora=None)
    dataset = ComparisonDataset(root, read_comparisons(root), module.dimensions)
    encoder = module.reward_model.encoder
    return collate([dataset[0], dataset[1]], encoder=encoder, dimensions=module.dimensions)


def test_the_preference_loss_and_the_regression_reach_the_training(base_folder: Path, batch: PairBatch) -> None:
    module = RewardModule(str(base_folder), lora=None, loss="rao_kupper", tie_k=3.0, regression_weight=0.5)
    scores = module(batch.inputs)
    expected = rao_kupper(scores.mean[batch.first], scores.mean[batch.second], batch.labels, k=3.0).loss
    expected = expected + 0.5 * regression(scores.mean, batch.targets).loss
    torch.testing.assert_close(module.objective(scores, batch).loss, expected)


@pytest.fixture
def folders(write_comparisons: Write, tmp_path: Path) -> tuple[Path, Path]:
    return write_comparisons(tmp_path / "train", 4), write_comparisons(tmp_path / "validation", 4, seed=1)


def _fit(
    module: RewardModule, train: Path, validation: Path, folder: Path, **options: Any
) -> tuple[Trainer, ComparisonsDataModule]:
    data = ComparisonsDataModule(
        str(train), module.reward_model.encoder, module.dimensions, validation=str(validation), batch_size=4
    )
    trainer = Trainer(
        default_root_dir=folder,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        check_val_every_n_epoch=None,
        **options,
    )
    trainer.fit(module, data)
    return trainer, data


@pytest.mark.parametrize(("head_rate", "trained"), [(None, ("lora_", ".head.")), (0.0, ("lora_",))])
def test_only_what_is_trained_changes(
    base_folder: Path, folders: tuple[Path, Path], tmp_path: Path, head_rate: float | None, trained: tuple[str, ...]
) -> None:
    module = RewardModule(str(base_folder), lora=LoraOptions(r=2), learning_rate=1e-2, head_learning_rate=head_rate)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    _fit(module, *folders, tmp_path, max_steps=3, val_check_interval=3)
    changed = {name for name, value in module.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {name for name in before if any(part in name for part in trained)}


def test_it_learns_which_candidate_is_brighter(base_folder: Path, write_comparisons: Write, tmp_path: Path) -> None:
    train = write_comparisons(tmp_path / "train", 12)
    validation = write_comparisons(tmp_path / "validation", 8, seed=1)
    module = RewardModule(
        str(base_folder), lora=LoraOptions(r=4, alpha=8), learning_rate=5e-3, head_learning_rate=2e-2, warmup=0.1
    )
    trainer, _ = _fit(module, train, validation, tmp_path, max_steps=40, val_check_interval=40, gradient_clip_val=1.0)
    figures = module.figures["overall"]
    assert figures.n == 24
    assert figures.num_groups == 4
    assert figures.strict is not None
    assert figures.strict > 0.9
    assert trainer.callback_metrics["validation/accuracy_overall"].item() == pytest.approx(figures.strict)
    assert trainer.callback_metrics["validation/n_visual_quality"].item() == 0
    assert "validation/accuracy_visual_quality" not in trainer.callback_metrics


def test_dropout_follows_the_step_and_not_the_past(base_folder: Path, batch: PairBatch) -> None:
    module = RewardModule(str(base_folder), lora=LoraOptions(r=2, dropout=0.5)).train()
    for name, parameter in module.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(std=0.3)
    draws = []
    for _ in range(2):
        module.on_train_batch_start(batch, 0)
        draws.append(module(batch.inputs).mean)
        torch.rand(3)
    assert torch.equal(*draws)
    assert not torch.equal(draws[0], module(batch.inputs).mean)


def test_both_rates_warm_up_and_end_at_zero(base_folder: Path, folders: tuple[Path, Path], tmp_path: Path) -> None:
    module = RewardModule(
        str(base_folder), lora=LoraOptions(r=2), learning_rate=1e-3, head_learning_rate=1e-2, warmup=0.5
    )
    trainer, _ = _fit(module, *folders, tmp_path, max_steps=4, val_check_interval=4)
    rates = {group["name"]: group["initial_lr"] for group in trainer.optimizers[0].param_groups}
    assert rates == {"heads": 1e-2, "adapter": 1e-3}
    assert all(group["lr"] == pytest.approx(0, abs=1e-12) for group in trainer.optimizers[0].param_groups)


def test_warmup_is_linear_and_the_rest_half_a_cosine() -> None:
    factor = WarmupCosine(total=10, warmup=0.2)
    assert [factor(step) for step in range(3)] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert factor(6) == pytest.approx(0.5)
    assert factor(10) == pytest.approx(0.0)
    assert WarmupCosine(total=1, warmup=0.0)(0) == 1


def test_checkpointing_of_activations_changes_no_gradient(base_folder: Path, batch: PairBatch) -> None:
    gradients = []
    for checkpointing in (False, True):
        module = RewardModule(str(base_folder), lora=LoraOptions(r=2), gradient_checkpointing=checkpointing).train()
        module.objective(module(batch.inputs), batch).loss.backward()
        gradients.append({n: p.grad for n, p in module.named_parameters() if p.requires_grad})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, msg=name)


def test_a_loss_that_is_not_finite_ends_the_run(base_folder: Path, folders: tuple[Path, Path], tmp_path: Path) -> None:
    module = RewardModule(str(base_folder), lora=None)
    module.reward_model.head.bias.data.fill_(math.nan)
    with pytest.raises(UserError, match="finite loss, got nan at step 0"):
        _fit(module, *folders, tmp_path, max_steps=1, val_check_interval=1)


def test_nothing_to_train_and_nothing_to_measure_are_errors(
    base_folder: Path, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    module = RewardModule(str(base_folder), lora=LoraOptions(r=2))
    module.requires_grad_(False)
    with pytest.raises(UserError, match="nothing would be learnt"):
        _fit(module, *folders, tmp_path, max_steps=1, val_check_interval=1)
    ties = RewardModule(str(base_folder), dimensions=["visual_quality"], lora=None, loss="rao_kupper")
    with pytest.warns(UserWarning, match="left out"), pytest.raises(UserError, match="all of them are ties"):
        _fit(ties, *folders, tmp_path, max_steps=1, val_check_interval=1)


def test_a_checkpoint_of_another_model_is_refused(base_folder: Path) -> None:
    module, other = RewardModule(str(base_folder), lora=LoraOptions(r=2)), RewardModule(str(base_folder), lora=None)
    checkpoint: dict[str, Any] = {"state_dict": other.state_dict()}
    other.on_save_checkpoint(checkpoint)
    assert set(checkpoint["state_dict"]) == {"reward_model.head.weight", "reward_model.head.bias"}
    with pytest.raises(UserError, match="parameters differ"):
        module.on_load_checkpoint(checkpoint)


def test_a_learnt_tie_width_is_trained_saved_and_resumed(
    base_folder: Path, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    module = RewardModule(str(base_folder), lora=None, loss="rao_kupper", tie_k="fit", head_learning_rate=0.1)
    _fit(module, *folders, tmp_path, max_steps=2, val_check_interval=1)
    width = module.objective.tie_width
    assert width is not None
    # One dimension has ties, others have none: k starts at 5 and moves apart.
    assert len(set(width().tolist())) > 1
    checkpoint: dict[str, Any] = {"state_dict": module.state_dict()}
    module.on_save_checkpoint(checkpoint)
    assert "objective.tie_width.log_excess" in checkpoint["state_dict"]
    fixed = RewardModule(str(base_folder), lora=None, loss="rao_kupper", tie_k=5.0)
    with pytest.raises(UserError, match="parameters differ"):
        fixed.on_load_checkpoint(checkpoint)


def test_validation_measures_uncertain_scores_by_their_log_odds(
    base_folder: Path, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    module = RewardModule(str(base_folder), lora=None, uncertainty=True)
    trainer, _ = _fit(module, *folders, tmp_path, max_steps=1, val_check_interval=1)
    figures = module.figures["overall"]
    assert figures.n > 0
    assert figures.ece is not None
    assert figures.temperature is not None
    assert trainer.callback_metrics["validation/calibration_error_overall"].item() == pytest.approx(figures.ece)
