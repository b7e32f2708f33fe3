"""What a run folder says about itself: command, config, seed, inputs and versions, without secrets."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

import gnomon
from gnomon.hashing import to_plain

RunStatus = Literal["running", "finished", "failed", "interrupted"]

MASK = "***"
_PACKAGES = ("torch", "transformers", "diffusers", "peft", "pytorch-lightning", "numpy")
_SECRET_WORDS = {"password", "passwd", "passphrase", "secret", "credential", "credentials", "authorization", "apikey"}
# What makes a last word "key" or "token" a secret: hf_token and api_key, but not sort_key, image_token or api_key_env.
_OWNERS = {"hf", "hub", "huggingface", "openai", "anthropic", "azure", "aws", "github", "gitlab", "slack", "wandb"}
_BEFORE_KEY = _OWNERS | {"api", "access", "auth", "private", "signing", "encryption"}
_BEFORE_TOKEN = _OWNERS | {"api", "access", "auth", "bearer", "private", "refresh", "security", "session", "bot"}
# Keys as their issuers write them: at the start of a word, and with a long part that no separator interrupts, so that
# neither `task-removal-v1` nor a folder like `hf_models_of_mine` or `sk-learn-experiments` is one.
_SECRET_VALUE = re.compile(
    r"(?<![A-Za-z0-9])"
    r"(?:(?:hf_|gh[pousr]_|github_pat_)[A-Za-z0-9]{16}\w*"
    r"|(?:sk|xox[abprs])-[\w\-]*?[A-Za-z0-9]{16}[\w\-]*"
    r"|Bearer [\w\-.~+/=]{16,})",
    re.ASCII,
)
_URL_PASSWORD = re.compile(r"(?<=://)[^/?#\s]+@")


class Start(BaseModel):
    """One start of one step of a run. `versions` are those that differ from the run's first start."""

    model_config = ConfigDict(extra="forbid")

    step: str
    status: RunStatus = "running"
    error: str | None = None
    started_at: str
    ended_at: str | None = None
    seconds: float = 0.0
    versions: dict[str, str] = Field(default_factory=dict)


class Manifest(BaseModel):
    """`manifest.json` of a run folder.

    `versions` are those of the first start; `seconds` and `peak_memory_bytes` cover all starts. `status` is "finished"
    when the last start of every step finished, otherwise how the last start of a step that did not finish ended.
    """

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
    num_starts: int = 0
    seconds: float = 0.0
    peak_memory_bytes: int = 0
    starts: list[Start] = Field(default_factory=list)

    def identity(self) -> dict[str, object]:
        """Return what makes this run another one when it differs, flat, by dotted key."""
        parts = {"command": self.command, "config": self.config, "seed": self.seed, "inputs": self.inputs}
        return flatten(parts)

    def with_start(self, start: Start, peak_memory_bytes: int) -> Manifest:
        """Return this manifest with one more start, which runs or has ended."""
        # Whoever adds a start holds the folder's lock, so earlier ones that "run" were killed.
        earlier = [
            old.model_copy(update={"status": "interrupted"}) if old.status == "running" else old for old in self.starts
        ]
        last_of_step = {entry.step: entry for entry in [*earlier, start]}.values()
        unfinished = sorted(
            (entry for entry in last_of_step if entry.status != "finished"),
            key=lambda entry: ("running", "failed", "interrupted").index(entry.status),
        )
        changes = {
            "status": unfinished[0].status if unfinished else "finished",
            "error": unfinished[0].error if unfinished else None,
            "ended_at": start.ended_at,
            "num_starts": self.num_starts + 1,
            "seconds": self.seconds + start.seconds,
            "peak_memory_bytes": max(self.peak_memory_bytes, peak_memory_bytes),
            "starts": [*earlier, start],
        }
        return self.model_copy(update=changes)

    def other_versions(self) -> dict[str, str]:
        """Return the versions of now that differ from those of the first start."""
        now = versions()
        names = sorted(now.keys() | self.versions.keys())
        return {name: now.get(name, "missing") for name in names if now.get(name) != self.versions.get(name)}


def versions() -> dict[str, str]:
    """Return the versions that a result depends on, read from package metadata: nothing heavy is imported."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
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
    """Replace strings under names like `api_key`, `hf_token` or `password`, and what looks like a key in any other."""
    if isinstance(value, dict):
        return {name: mask_secrets(item, secret=secret or is_secret_name(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [mask_secrets(item, secret=secret) for item in value]
    if not isinstance(value, str) or not value:
        return value
    return MASK if secret else mask_text(value)


def mask_text(text: str) -> str:
    """Replace what looks like a key by its hash, so that two differ, and users and passwords in URLs."""

    def hashed(match: re.Match[str]) -> str:
        return MASK + hashlib.sha256(match[0].encode()).hexdigest()[:8]

    # Passwords get no hash: people choose them, so they could be guessed from it.
    return _URL_PASSWORD.sub(f"{MASK}@", _SECRET_VALUE.sub(hashed, text))


def is_secret_name(name: str) -> bool:
    """Say whether a config key of this name holds a secret: its words decide, so `tokenizer` does not."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
    parts = [word for word in re.split(r"[^a-z0-9]+", words) if word]
    if _SECRET_WORDS.intersection(parts) or parts == ["token"]:
        return True
    before, last = set(parts[:-1]), parts[-1] if parts else ""
    return bool((last in ("key", "keys") and before & _BEFORE_KEY) or (last == "token" and before & _BEFORE_TOKEN))


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
