"""Fixtures: tiny random checkpoints of the real vision classes, and a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.bench.evaluators import checkpoints

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def dinov2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.build_dinov2(tmp_path_factory.mktemp("dinov2"))


@pytest.fixture(scope="session")
def dinov3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.build_dinov3(tmp_path_factory.mktemp("dinov3"))


@pytest.fixture(scope="session")
def sam3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.build_sam3(tmp_path_factory.mktemp("sam3"))


@pytest.fixture(scope="session")
def owlv2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.build_owlv2(tmp_path_factory.mktemp("owlv2"))


@pytest.fixture(scope="session")
def grounding_dino(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.build_grounding_dino(tmp_path_factory.mktemp("grounding_dino"))


@pytest.fixture(scope="session")
def yolos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.build_yolos(tmp_path_factory.mktemp("yolos"))


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.build_clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="session")
def siglip_vision(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.build_siglip_vision(tmp_path_factory.mktemp("siglip"))


@pytest.fixture
def noise() -> Image.Image:
    """Return a picture of noise, wider than high."""
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8))
