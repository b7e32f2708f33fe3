"""Our own texts for models that help to build datasets: YAML files beside the code that asks, each with a version."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from gnomon.hashing import stable_hash


@cache
def load_texts(package: str, name: str) -> Any:
    """Return what `<name>.yaml` of a package holds."""
    return yaml.safe_load(files(package).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))


def texts_hash(package: str, name: str) -> str:
    """Return the version of a package's texts and a hash of every word, as one text for manifests."""
    texts = load_texts(package, name)
    return f"version {texts['version']}, {stable_hash(texts)}"
