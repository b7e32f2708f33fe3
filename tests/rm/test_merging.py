"""A merged reward model is a plain model with the same scores, and says so only after it has looked."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForImageTextToText

from gnomon.cli import main
from gnomon.errors import UserError
from rm import merging
from rm.lora import LoraOptions
from rm.merging import merge
from rm.reward_model import RewardModel


def _adapted(base_folder: Path, folder: Path, dtype: str = "float32") -> Path:
    model = RewardModel.from_base(base_folder, lora=LoraOptions(r=2, alpha=8), dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(std=0.3, generator=generator)
    model.save_pretrained(folder)
    return folder


def test_merged_scores_are_the_adapters_and_the_base_is_plain(
    base_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = _adapted(base_folder, tmp_path / "model")
    assert main(["rm", "merge", "--model", str(model), "--out", str(tmp_path / "merged")]) == 0
    assert "differ by" in capsys.readouterr().out
    plain = AutoModelForImageTextToText.from_pretrained(tmp_path / "merged" / "base")
    assert not [name for name in plain.state_dict() if "lora" in name]
    stock = AutoModelForImageTextToText.from_pretrained(base_folder)
    assert any(not torch.equal(plain.state_dict()[name], value) for name, value in stock.state_dict().items())


def test_sixteen_bits_merge_within_their_rounding(base_folder: Path, tmp_path: Path) -> None:
    assert merge(_adapted(base_folder, tmp_path / "model", "bfloat16"), tmp_path / "merged") > 0


def test_a_merged_model_that_scores_differently_is_named(
    base_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _adapted(base_folder, tmp_path / "model", "bfloat16")
    monkeypatch.setitem(merging.TOLERANCE, "bfloat16", 1e-9)
    with pytest.raises(UserError, match=r"apart from .*model"):
        merge(model, tmp_path / "merged")


def test_heads_alone_have_nothing_to_merge(base_folder: Path, tmp_path: Path) -> None:
    RewardModel.from_base(base_folder).save_pretrained(tmp_path / "model")
    with pytest.raises(UserError, match="nothing to merge"):
        merge(tmp_path / "model", tmp_path / "merged")
