"""Manifests: secrets stay out, versions are found without imports, differences are named."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from gnomon.manifest import (
    Manifest,
    RunStatus,
    Start,
    differences,
    flatten,
    is_secret_name,
    mask_secrets,
    mask_text,
    plain_config,
)


def manifest(**changes: Any) -> Manifest:
    fields: dict[str, Any] = {"command": "bench judge", "config": {}, "seed": 0, "started_at": "now"}
    return Manifest(**(fields | changes))


@pytest.mark.parametrize(
    "name",
    ["api_key", "apiKey", "API-KEY", "apikey", "hf_token", "HF_TOKEN", "token", "password", "db.passwd",
     "client_secret", "secret", "Authorization", "credentials", "access_key", "openai_api_keys", "openai_key",
     "access_token", "use_auth_token", "HUGGING_FACE_HUB_TOKEN"],
)  # fmt: skip
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens",
        "tokenizer",
        "num_key_value_heads",
        "api_key_env",
        "image_token",
        "pad_token",
        "sort_key",
        "key",
        "keyboard",
        "monkey",
        "tokens",
        "key_dim",
        "seed",
    ],
)
def test_names_of_ordinary_settings_are_no_secrets(name: str) -> None:
    assert not is_secret_name(name)


def test_secrets_are_masked_wherever_they_stand() -> None:
    config = {
        "api_key": "abc",
        "token": "",
        "password": None,
        "auth_token": 151655,
        "headers": {"Authorization": "Bearer abcdefghijkl"},
        "secrets": ["left alone", {"api_key": "x"}],
        "secret": {"left": ["a", "b"]},
        "argv": ["--key=sk-abcdefgh12345678", "https://user:p@ss@host/path", "hf_abcdefghijklmnop"],
        "url": "https://host/a@b",
    }
    assert mask_secrets(config) == {
        "api_key": "***",
        "token": "",
        "password": None,
        "auth_token": 151655,
        "headers": {"Authorization": "***"},
        "secrets": ["left alone", {"api_key": "***"}],
        "secret": {"left": ["***", "***"]},
        # The first digits of `printf %s sk-abcdefgh12345678 | sha256sum`, and of the other.
        "argv": ["--key=***6285e73c", "https://***@host/path", "***4c9edfe5"],
        "url": "https://host/a@b",
    }


@pytest.mark.parametrize(
    "key",
    [
        "sk-abcdefghijklmnop",
        "sk-proj-ab_cd-ABCDEFGHIJKLMNOP_x-12",
        "sk-ant-api03-abcdefghijklmnopqrstuv",
        "hf_abcdefghijklmnopqrstuvwxyz12345678",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
        "xoxb-123456789012-1234567890123-abcdefghijklmnopqrstuvwx",
        "Bearer eyJhbGciOi.eyJzdWIi.abc_-x",
    ],
)
def test_keys_of_all_kinds_are_masked_in_any_text_and_two_of_them_stay_two(key: str) -> None:
    masked = mask_text(f"401 for '{key}', key={key}")
    assert key not in masked
    assert masked.startswith("401 for '***")
    assert mask_text(key) == mask_text(key)
    assert mask_text(key) != mask_text(f"{key}0")


@pytest.mark.parametrize(
    "text",
    [
        "data/mask-train-v1",
        "/home/x/desk-top/task-removal_version1/base",
        "disk-abcdefghijklmnopqrst",
        "/data/hf_models_of_mine/sk-learn-experiments-2024",
        "risk-abcdefghijklmnopqrst ghp_of_mine Bearer of bad news",
        "https://host:80/a?mail=x@y",
    ],
)
def test_paths_and_names_that_hold_the_letters_of_a_key_are_left_alone(text: str) -> None:
    assert mask_text(text) == text


def test_a_config_that_json_cannot_hold_names_its_key() -> None:
    with pytest.raises(ValueError, match=r"'model\.rate'"):
        plain_config({"model": {"rate": float("inf")}})


def test_leaves_have_dotted_keys() -> None:
    assert flatten({"a": {"b": [1, {"c": 2}]}, "d": [], "e": {}}) == {"a.b.0": 1, "a.b.1.c": 2, "d": [], "e": {}}


def test_differences_are_named_by_dotted_key_and_only_where_they_matter() -> None:
    old = manifest(config={"a": {"b": 1, "c": "x"}, "d": [1]}, inputs={"data": "h1"}, versions={"numpy": "1"})
    new = manifest(config={"a": {"b": 2, "c": "x"}, "d": [1, 2]}, inputs={"data": "h2"}, seed=3, command="rm eval")
    assert differences(old, new) == [
        "command: 'bench judge' -> 'rm eval'",
        "config.a.b: 1 -> 2",
        "config.d.1: (not set) -> 2",
        "inputs.data: 'h1' -> 'h2'",
        "seed: 0 -> 3",
    ]
    assert differences(old, old.model_copy(update={"status": "failed", "versions": {}, "seconds": 5.0})) == []


@pytest.mark.parametrize(
    ("starts", "status"),
    [
        ([("generate", "finished"), ("judge", "finished")], "finished"),
        ([("generate", "interrupted"), ("judge", "finished")], "interrupted"),
        ([("generate", "interrupted"), ("judge", "failed")], "failed"),
        ([("generate", "interrupted"), ("generate", "finished")], "finished"),
        ([("generate", "finished"), ("judge", "running")], "running"),
        ([("generate", "running"), ("judge", "finished")], "interrupted"),  # killed, as another one could start
    ],
)
def test_a_run_is_finished_when_the_last_start_of_every_step_is(
    starts: list[tuple[str, RunStatus]], status: RunStatus
) -> None:
    found = manifest()
    for step, ended in starts:
        error = "why" if ended == "failed" else None
        found = found.with_start(Start(step=step, status=ended, error=error, started_at="now", seconds=2.0), 10)
    assert found.status == status
    assert found.error == ("why" if status == "failed" else None)
    assert (found.num_starts, found.seconds, found.peak_memory_bytes) == (2, 4.0, 10)
    assert [start.step for start in found.starts] == [step for step, _ in starts]


def test_versions_are_found_without_importing_the_packages() -> None:
    program = (
        "import sys; from gnomon.manifest import versions; found = versions(); "
        "print(sorted(found)); print('torch' in sys.modules, 'diffusers' in sys.modules)"
    )
    lines = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    expected = ["diffusers", "gnomon", "numpy", "peft", "python", "pytorch-lightning", "torch", "transformers"]
    assert lines == [str(expected), "False False"]
