from __future__ import annotations

from pathlib import Path

import pytest

from rl import identity
from rl.identity import content_hash_of_path, input_hashes


def test_whatever_a_config_names_by_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("judge/model.safetensors", "editor/unet.safetensors", "code/reward.py", "mean/x"):
        Path(name).parent.mkdir()
        Path(name).write_text(name)
    model = {
        "generator": {"init_args": {"model": str(tmp_path / "editor"), "language": "en", "lora": None, "height": 64}},
        "reward": {
            "init_args": {
                "parts": {
                    "judge": {"init_args": {"model": "./judge", "dimension": "mean"}},
                    "code": {"init_args": {"function": "code/reward.py:score", "url": "http://127.0.0.1/v1"}},
                }
            }
        },
        "monitors": None,
        "rollout": {"sampler": "code/reward.py"},
    }
    found = input_hashes(model)
    assert sorted(found) == [
        "generator.init_args.model",
        "reward.init_args.parts.code.init_args.function",
        "reward.init_args.parts.judge.init_args.model",
    ]
    Path("judge/model.safetensors").write_text("Judge/model.safetensors")  # trained again, with the same size
    changed = input_hashes(model)
    assert {key for key in found if found[key] != changed[key]} == {"reward.init_args.parts.judge.init_args.model"}


def test_code_of_ones_own_counts_and_that_of_packages_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_code_of_identity.py").write_text("class Reward: ...")
    model = {
        "reward": {"class_path": "my_code_of_identity.Reward", "init_args": {"model": None}},
        "monitors": {
            "oracle": {"class_path": "data_build.tabletop.judging.OracleReward"},
            "installed": {"class_path": "torch.nn.Linear"},
            "gone": {"class_path": "no_such_package_at_all.module.Reward"},
        },
        "algorithm": {"class_path": "my_code_of_identity.Algorithm"},
    }
    found = input_hashes(model)
    assert sorted(found) == ["algorithm.class_path", "reward.class_path"]
    (tmp_path / "my_code_of_identity.py").write_text("class Reward: x = 1")
    assert all(found[key] != value for key, value in input_hashes(model).items())


def test_a_model_or_adapter_in_a_folder_of_one_word_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("editor").mkdir()
    Path("editor/weights").write_text("1")
    init_args = {"model": "editor", "lora": "editor", "language": "editor"}
    assert sorted(input_hashes({"generator": {"init_args": init_args}})) == [
        "generator.init_args.lora",
        "generator.init_args.model",
    ]


def test_names_count_and_hidden_files_do_not(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "a").write_text("1")
    before = content_hash_of_path(folder)
    (folder / ".cache").mkdir()
    (folder / ".cache" / "x").write_text("1")
    assert content_hash_of_path(folder) == before
    (folder / "a").rename(folder / "b")
    assert content_hash_of_path(folder) != before


def test_of_large_files_evenly_spaced_pieces_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_WHOLE", 1000)
    monkeypatch.setattr(identity, "_PIECE", 10)
    file = tmp_path / "weights"

    def hash_with_change_at(*places: int) -> str:
        data = bytearray(2000)
        for place in places:
            data[place] = 1
        file.write_bytes(bytes(data))
        return content_hash_of_path(file)

    plain = hash_with_change_at()
    assert hash_with_change_at(0) != plain
    assert hash_with_change_at(1999) != plain
    assert hash_with_change_at(*range(900, 960)) != plain
