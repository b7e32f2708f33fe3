"""A tiny editor with random weights, and small folders of tabletop cases to edit with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from data_build.tabletop.cases import build_cases
from data_build.tabletop.tiny_editor import (
    CALL_ARGUMENTS,
    make_autoencoder,
    make_text_encoder,
    make_tokenizer,
    make_transformer,
    save_pipeline,
    vocabulary_words,
)


@pytest.fixture(scope="session")
def random_editor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save an untrained editor of the shipped one's classes, smaller, with four sampling steps."""
    folder = tmp_path_factory.mktemp("random_editor")
    tokenizer = make_tokenizer(vocabulary_words())
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_pipeline(
            folder,
            make_autoencoder(),
            tokenizer,
            make_text_encoder(len(tokenizer), hidden=32),
            make_transformer(text_hidden=32, heads=1, double=1, single=1),
        )
    kwargs = {name: list(value) if isinstance(value, tuple) else value for name, value in CALL_ARGUMENTS.items()}
    settings = {"pipeline_kwargs": kwargs, "num_inference_steps": 4}
    (folder / "gnomon.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="session")
def tabletop_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write eleven test cases, one of each kind."""
    folder = tmp_path_factory.mktemp("tabletop_cases")
    build_cases(folder, num=11, seed=0, split="test")
    return folder
