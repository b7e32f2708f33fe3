"""What a run folder says about itself: command, config, seed, inputs and versions, without secrets."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

import gnomon
from gnomon.hashing import to_plain

RunStatus = Literal["running", "finished", "failed", "interrupted"]

MASK = "***"
_PACKAGES = ("torch", "transformers", "diffusers", "peft", "pytorch-lightning", "numpy")
_SECRET_WORDS = {"password", "passwd", "passphrase", "secret", "credential", "credentials", "authorization", "apikey"}
_SECRET_LAST_WORDS = {"key", "keys", "token"}  # hf_token and api_key, but not max_tokens or api_key_env
_SECRET_VALUE = re.compile(r"(sk-|hf_|gh[pousr]_|xox[abprs]-|Bearer )\S{8,}")
_URL_PASSWORD = re.compile(r"(?<=://)[^/@\s]+@")


class Manifest(BaseModel):
    """`manifest.json` of a run folder. `seconds` and `peak_memory_bytes` cover all starts of the run."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    command: str
    config: dict[str, object]
    seed: int
    inputs: dict[str, str] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    status: RunStatus = "running"
    error: str | None = None
    started_at: str
    ended_at: str | None = None
    num_starts: int = 1
    seconds: float = 0.0
    peak_memory_bytes: int = 0

    def identity(self) -> dict[str, object]:
        """Return what makes this run another one when it differs, flat, by dotted key."""
        parts = {"command": self.command, "config": self.config, "seed": self.seed, "inputs": self.inputs}
        return flatten(parts)


def versions() -> dict[str, str]:
    """Return the versions that a result depends on, read from package metadata: nothing heavy is imported."""
    found = {"gnomon": gnomon.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue  # a part of the stack that this installation does without
    return found


def plain_config(config: Mapping[str, object]) -> dict[str, object]:
    """Return `config` as JSON can hold it, with every secret masked.

    Raises:
        ValueError: for a value that JSON cannot hold, with its dotted key.
    """
    plain = to_plain(config)
    assert isinstance(plain, dict)
    masked = mask_secrets(plain)
    assert isinstance(masked, dict)
    return masked


def mask_secrets(value: object, *, secret: bool = False) -> object:
    """Replace strings under names like `api_key`, `hf_token` or `password`, and strings that look like keys."""
    if isinstance(value, dict):
        return {name: mask_secrets(item, secret=secret or is_secret_name(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [mask_secrets(item, secret=secret) for item in value]
    if not isinstance(value, str) or not value:
        return value
    if secret:
        return MASK
    return _URL_PASSWORD.sub(f"{MASK}@", _SECRET_VALUE.sub(MASK, value))


def is_secret_name(name: str) -> bool:
    """Say whether a config key of this name holds a secret: its words decide, so `tokenizer` does not."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
    parts = [word for word in re.split(r"[^a-z0-9]+", words) if word]
    return bool(_SECRET_WORDS.intersection(parts)) or (bool(parts) and parts[-1] in _SECRET_LAST_WORDS)


def flatten(value: object, key: str = "") -> dict[str, object]:
    """Return the leaves of nested mappings and lists by dotted key; empty containers are leaves."""
    items: list[tuple[str, object]] = []
    if isinstance(value, dict):
        items = [(str(name), item) for name, item in value.items()]
    elif isinstance(value, list):
        items = [(str(position), item) for position, item in enumerate(value)]
    if not items:
        return {key: value}
    flat: dict[str, object] = {}
    for name, item in items:
        flat.update(flatten(item, f"{key}.{name}" if key else name))
    return flat


def differences(old: Manifest, new: Manifest) -> list[str]:
    """Return a line `key: old -> new` for every part of the identity that is not the same in both."""
    before, after = old.identity(), new.identity()
    missing = object()
    lines = []
    for key in sorted(before.keys() | after.keys()):
        left, right = before.get(key, missing), after.get(key, missing)
        if left != right:
            shown = ("(not set)" if side is missing else repr(side) for side in (left, right))
            lines.append(f"{key}: " + " -> ".join(shown))
    return lines
