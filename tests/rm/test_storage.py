"""Where a base model is found, and folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from gnomon.errors import UserError
from rm.heads import ScoreHead
from rm.storage import MANIFEST, base_fingerprint, check_adapter, load_head, relative_to, replace_folder, resolve_base


def test_a_base_is_a_folder_beside_a_folder_here_or_a_name_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models/base").mkdir(parents=True)
    (tmp_path / "models/judge").mkdir()
    expected = str(tmp_path / "models/base")
    assert resolve_base("../base", beside=tmp_path / "models/judge") == expected
    assert resolve_base(expected) == expected
    monkeypatch.chdir(tmp_path)
    assert resolve_base("models/base", beside=tmp_path / "models/judge") == expected
    assert resolve_base("Qwen/Qwen3-VL-2B-Instruct") == "Qwen/Qwen3-VL-2B-Instruct"
    for missing in ("models/base/nothing", "../nothing", str(tmp_path / "nothing"), "nothing"):
        with pytest.raises(UserError, match="no such folder"):
            resolve_base(missing, beside=tmp_path)


def test_the_base_is_named_relative_to_the_reward_model(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    assert relative_to(str(tmp_path / "base"), tmp_path / "runs/judge") == "../../base"
    assert relative_to("Qwen/Qwen3-VL-2B-Instruct", tmp_path) == "Qwen/Qwen3-VL-2B-Instruct"


def test_the_fingerprint_follows_weights_and_config_and_not_the_place(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    (first / "config.json").write_text("{}")
    save_file({"a": torch.zeros(3), "b": torch.ones(3)}, first / "model.safetensors")
    original = base_fingerprint(str(first))
    shutil.copytree(first, tmp_path / "second")
    assert base_fingerprint(str(tmp_path / "second")) == original
    save_file({"a": torch.zeros(3), "b": torch.full((3,), 2.0)}, first / "model.safetensors")
    assert base_fingerprint(str(first)) != original
    (tmp_path / "second/config.json").write_text('{"x": 1}')
    assert base_fingerprint(str(tmp_path / "second")) != original


def test_a_failed_save_leaves_the_old_folder_and_no_rest(tmp_path: Path) -> None:
    folder = tmp_path / "judge"
    with replace_folder(folder) as temporary:
        (temporary / MANIFEST).write_text("old")

    def fail() -> None:
        with replace_folder(folder) as temporary:
            (temporary / MANIFEST).write_text("new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (folder / MANIFEST).read_text() == "old"
    assert os.listdir(tmp_path) == ["judge"]  # noqa: PTH208, hidden names count here


def test_an_adapter_must_exist_and_do_something(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected a LoRA adapter"):
        check_adapter(tmp_path)
    weights = {"x.lora_A.weight": torch.ones(2, 2), "x.lora_B.weight": torch.zeros(2, 2)}
    save_file(weights, tmp_path / "adapter_model.safetensors")
    with pytest.raises(UserError, match="identity"):
        check_adapter(tmp_path)
    weights["x.lora_B.weight"][0, 0] = 1e-8
    save_file(weights, tmp_path / "adapter_model.safetensors")
    check_adapter(tmp_path)


def test_heads_of_another_shape_or_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"heads \[4, 8\]"):
        load_head(ScoreHead(8, 4), tmp_path)
    save_file({"weight": torch.zeros(3, 8), "bias": torch.zeros(3)}, tmp_path / "head.safetensors")
    with pytest.raises(UserError, match=r"heads \[4, 8\]"):
        load_head(ScoreHead(8, 4), tmp_path)
    (tmp_path / "head.safetensors").write_bytes(b"torn")
    with pytest.raises(UserError, match=r"heads \[4, 8\]"):
        load_head(ScoreHead(8, 4), tmp_path)
