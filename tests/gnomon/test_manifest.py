"""Manifests: secrets stay out, versions are found without imports, differences are named."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from gnomon.manifest import Manifest, differences, flatten, is_secret_name, mask_secrets, plain_config


def manifest(**changes: Any) -> Manifest:
    fields: dict[str, Any] = {"command": "bench judge", "config": {}, "seed": 0, "started_at": "now"}
    return Manifest(**(fields | changes))


@pytest.mark.parametrize(
    "name",
    ["api_key", "apiKey", "API-KEY", "key", "hf_token", "HF_TOKEN", "token", "password", "db.passwd", "client_secret",
     "secret", "Authorization", "credentials", "access_key", "openai_api_keys"],
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
        "image_token": 151655,
        "headers": {"Authorization": "Bearer abcdefghijkl"},
        "secrets": ["left alone", {"key": "x"}],
        "secret": {"left": ["a", "b"]},
        "argv": ["--key=sk-abcdefgh12345678", "https://user:pass@host/path", "hf_abcdefghijklmnop"],
        "url": "https://host/a@b",
    }
    assert mask_secrets(config) == {
        "api_key": "***",
        "token": "",
        "password": None,
        "image_token": 151655,
        "headers": {"Authorization": "***"},
        "secrets": ["left alone", {"key": "***"}],
        "secret": {"left": ["***", "***"]},
        "argv": ["--key=***", "https://***@host/path", "***"],
        "url": "https://host/a@b",
    }


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
