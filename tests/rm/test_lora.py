"""LoRA goes to the parts it was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn
from transformers import AutoModelForImageTextToText

from gnomon.errors import UserError
from rm.lora import LoraOptions, add_lora, part_of, target_names


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model.language_model.layers.0.self_attn.q_proj", "language"),
        ("model.visual.blocks.0.attn.qkv", "vision"),
        ("model.visual.merger.linear_fc1", "merger"),
        ("model.visual.deepstack_merger_list.0.linear_fc2", "merger"),
        ("model.vision_tower.encoder.layers.1.mlp.fc1", "vision"),
        ("model.multi_modal_projector.linear", "merger"),
        ("model.text_model.layers.3.mlp.up_proj", "language"),
        ("lm_head", None),
    ],
)
def test_parts_are_told_by_their_names(name: str, part: str | None) -> None:
    assert part_of(name) == part


@pytest.mark.parametrize(
    ("targets", "count"),
    [("language", 14), ("vision", 8), ("merger", 4), ("language+vision", 22), ("merger+language", 18)],
)
def test_every_linear_of_a_part_is_adapted_and_nothing_else(base_folder: Path, targets: str, count: int) -> None:
    model = AutoModelForImageTextToText.from_pretrained(base_folder)
    names = target_names(model, targets)
    assert len(names) == count
    adapted = add_lora(model, LoraOptions(r=2, targets=targets))
    trained = {name.split(".lora_")[0] for name, p in adapted.named_parameters() if p.requires_grad}
    assert trained == {f"base_model.model.{name}" for name in names}


def test_a_part_without_linear_layers_and_an_unknown_part_are_refused() -> None:
    with pytest.raises(UserError, match="belongs to 'vision'"):
        target_names(nn.ModuleDict({"language_model": nn.Linear(2, 2)}), "language+vision")
    with pytest.raises(UserError, match="got 'lm_head'"):
        target_names(nn.ModuleDict({"language_model": nn.Linear(2, 2)}), "language+lm_head")
