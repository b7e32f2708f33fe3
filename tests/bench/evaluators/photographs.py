"""Real photographs of installed packages, and what offline backends need; tests skip with a reason without them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_image

from bench.evaluators.offline import EFFICIENTNET_LITE0, U2NETP, OfflineFile, is_there
from bench.evaluators.vision.salience import SalienceSegmenter


def need(*files: OfflineFile) -> None:
    """Skip the test where a file, or onnxruntime for an ONNX file, is not installed."""
    for file in files:
        if not is_there(file):
            pytest.skip(f"{file.name} is not installed: {file.install}")
        if file.name.endswith(".onnx") and find_spec("onnxruntime") is None:
            pytest.skip("onnxruntime is not installed: pip install 'gnomon[offline]'")


def need_both() -> None:
    """Skip the test without EfficientNet-Lite0 or U2NetP."""
    need(EFFICIENTNET_LITE0, U2NETP)


def photograph(name: str) -> Image.Image:
    """Return "china" or "flower" of scikit-learn, or one of scikit-image, such as "cat"."""
    if name in ("china", "flower"):
        return Image.fromarray(load_sample_image(f"{name}.jpg"))
    if find_spec("skimage") is None:
        pytest.skip("scikit-image, whose photographs this test looks at, is not installed: pip install scikit-image")
    return Image.fromarray(getattr(import_module("skimage.data"), name)()).convert("RGB")


def cutout(name: str) -> Image.Image:
    """Return what stands out in a photograph, with transparent surroundings, cut to it."""
    image = photograph(name)
    salience = SalienceSegmenter().salience(image)
    mask = Image.fromarray((np.clip(salience * 2 - 0.5, 0, 1) * 255).astype(np.uint8)).resize(image.size)
    image.putalpha(mask)
    return image.crop(mask.getbbox())


def pasted(subject: Image.Image, place: Image.Image, height: float, x: float, y: float) -> Image.Image:
    """Return a picture of 640 x 427 with a subject: its height and corner are shares of the picture's sides."""
    picture = place.resize((640, 427))
    scale = height * 427 / subject.height
    small = subject.resize((round(subject.width * scale), round(subject.height * scale)))
    picture.paste(small, (round(x * 640), round(y * 427)), small)
    return picture
