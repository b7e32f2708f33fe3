"""Which pixels of a straightened face are no face: neck, clothes and jewellery, by the names of a parser's classes.

By name and never by number, because implementations of BiSeNet (Yu et al. 2018, arXiv 1808.00897) order the same
classes differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForSemanticSegmentation

from bench.evaluators.faces.arcface import pixels_of
from bench.evaluators.onnx import OnnxModel
from bench.evaluators.vision.loading import VisionModel
from gnomon.errors import UserError
from gnomon.hashing import stable_hash

if TYPE_CHECKING:
    from PIL import Image

NECK = frozenset({"neck", "neck_l", "necklace"})
CLOTHES = frozenset({"cloth", "clothes", "clothing"})
"""As CelebAMask-HQ (Lee et al. 2020, arXiv 1907.11922) and its users call them; `neck_l` is a necklace there."""

BISENET_LABELS = (
    *("background", "skin", "l_brow", "r_brow", "l_eye", "r_eye", "eye_g", "l_ear", "r_ear", "ear_r"),
    *("nose", "mouth", "u_lip", "l_lip", "neck", "neck_l", "cloth", "hair", "hat"),
)
"""The classes of the BiSeNet that facexlib has, in its order."""

_MEAN = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]


class SegmentationFaceParser:
    """A face parser of transformers, such as a SegFormer trained on CelebAMask-HQ.

    Args:
        model: a folder, or a name on the hub, that AutoModelForSemanticSegmentation loads.
        labels: names of its classes in their order; the checkpoint's own by default.
        size: of the straightened faces that are parsed, in pixels; the model resizes them as its checkpoint says.
        revision: commit, tag or branch on the hub.
        dtype: "float32", "bfloat16" or "float16".
        device: such as "cpu" or "cuda".

    Raises:
        UserError: when there is no such model or device, or no class is called a neck or clothes.
    """

    def __init__(
        self,
        model: str | Path = "jonathandinu/face-parsing",
        *,
        labels: Sequence[str] | None = None,
        size: int = 512,
        revision: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
    ) -> None:
        self._loaded = VisionModel(
            AutoModelForSemanticSegmentation, "a face parser", model, revision=revision, dtype=dtype, device=device
        )
        self.name, self.size = self._loaded.name, size
        names: dict[int, str] = self._loaded.config.id2label
        if labels is not None and len(labels) != len(names):
            raise UserError(f"expected labels for the {len(names)} classes of {self.name}, got {len(labels)}")
        self._excluded = excluded_classes([names[place] for place in sorted(names)] if labels is None else labels)

    @property
    def fingerprint(self) -> str:
        """Hash of weights, preprocessing and what is excluded."""
        return stable_hash(["face-parser", 1, self._loaded.fingerprint, self.size, self._excluded])

    @torch.inference_mode()
    def excluded(self, faces: Sequence[Image.Image]) -> list[NDArray[Any]]:
        """Return for each straightened face which pixels do not count, bool [size, size]."""
        logits = self._loaded.model(pixel_values=self._loaded.prepare(list(faces))).logits
        return _masks(logits.float().cpu(), self.size, self._excluded)


class OnnxFaceParser:
    """A face parser from an ONNX file that takes pictures by ImageNet's mean and deviation, such as facexlib's BiSeNet.

    Args:
        path: the file; its first output is a score for each class and pixel.
        labels: names of the classes in their order.
        name: for people; the file's name by default.
        device: such as "cpu" or "cuda".

    Raises:
        UserError: when the file is no such network, onnxruntime is not installed, or no class is called a neck or
            clothes.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        labels: Sequence[str] = BISENET_LABELS,
        name: str | None = None,
        device: str = "cpu",
    ) -> None:
        self._model = OnnxModel(path, device=device)
        shape = self._model.output_shape
        if len(shape) != 3 or shape[0] != len(labels):
            raise UserError(
                f"expected scores of {len(labels)} classes by pixel as the first output of {path}, got {shape}"
            )
        self.name, self.size = name or Path(path).stem, self._model.side
        self._excluded = excluded_classes(labels)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the file and of what is excluded."""
        return stable_hash(["onnx-face-parser", 1, self._model.fingerprint, self._excluded])

    def excluded(self, faces: Sequence[Image.Image]) -> list[NDArray[Any]]:
        """Return for each straightened face which pixels do not count, bool [size, size]."""
        logits = self._model.run((pixels_of(faces, mean=0, std=255) - _MEAN) / _DEVIATION)
        return _masks(torch.from_numpy(logits), self.size, self._excluded)


def excluded_classes(labels: Sequence[str]) -> list[int]:
    """Return the numbers of the classes that are neck or clothes.

    Raises:
        UserError: when there is no class of either.
    """
    names = [label.strip().lower() for label in labels]
    for wanted in (NECK, CLOTHES):
        if not wanted & set(names):
            raise UserError(
                f"expected a face parser with a class {' or '.join(sorted(wanted))}, got {', '.join(labels)}; name its "
                "classes by `labels`, in their order"
            )
    return [place for place, name in enumerate(names) if name in NECK | CLOTHES]


def _masks(logits: torch.Tensor, size: int, excluded: Sequence[int]) -> list[NDArray[Any]]:
    """Return where an excluded class is the likeliest; scores [n, classes, h, w] are brought to `size` first."""
    scores = torch.nn.functional.interpolate(logits, (size, size), mode="bilinear", align_corners=False)
    return list(torch.isin(scores.argmax(dim=1), torch.tensor(excluded)).numpy())
