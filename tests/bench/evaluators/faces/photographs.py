"""Real weights and photographs out of ordinary packages, for tests alone; skipped where they are not installed."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.evaluators.faces.mtcnn import OUTPUT, PROPOSAL, REFINEMENT
from bench.evaluators.offline import FOLDER_VARIABLE, is_there
from gnomon.images import load_image

if TYPE_CHECKING:
    from PIL import Image

    from bench.evaluators.faces.dlib_resnet import DlibRecognizer
    from bench.evaluators.faces.mtcnn import MtcnnDetector


def detector() -> MtcnnDetector:
    if not all(is_there(file) for file in (PROPOSAL, REFINEMENT, OUTPUT)):
        pytest.skip(f"the weights of MTCNN are not installed: {PROPOSAL.install}")
    return _detector()


def recognizer() -> DlibRecognizer:
    from bench.evaluators.faces.dlib_resnet import MANIFEST, WEIGHTS

    if not all(is_there(file) for file in (MANIFEST, WEIGHTS)):
        pytest.skip(f"the weights of dlib's network are not installed: {WEIGHTS.install}")
    return _recognizer()


def skimage_photograph(name: str) -> Image.Image:
    """Return a photograph of scikit-image, from its files without an import."""
    spec = find_spec("skimage")
    file = Path(spec.origin).parent / "data" / name if spec is not None and spec.origin else None
    if file is None or not file.is_file():
        pytest.skip(f"no photograph {name}: pip install scikit-image")
    return load_image(file)


def photograph(path: str) -> Image.Image:
    """Return a photograph of @vladmandic/face-api, or of the source archive of face-recognition 1.3.0."""
    folder = os.environ.get(FOLDER_VARIABLE)
    for package in ("node_modules/@vladmandic/face-api", "face_recognition-1.3.0"):
        file = Path(folder or "") / package / path
        if folder and file.is_file():
            return load_image(file)
    pytest.skip(
        f"no photograph {path} in {FOLDER_VARIABLE}: npm install @vladmandic/face-api@1.7.15, and unpack the archive "
        "of pip download --no-deps --no-binary :all: face-recognition==1.3.0"
    )


@cache
def _detector() -> MtcnnDetector:
    from bench.evaluators.faces.mtcnn import MtcnnDetector

    return MtcnnDetector()


@cache
def _recognizer() -> DlibRecognizer:
    from bench.evaluators.faces.dlib_resnet import DlibRecognizer

    return DlibRecognizer()
