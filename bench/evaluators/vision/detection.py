"""Where things are in a picture: detectors of transformers, of anything that has a name or of fixed classes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForObjectDetection, AutoModelForZeroShotObjectDetection

from bench.evaluators.vision.boxes import Boxes, suppressed
from bench.evaluators.vision.loading import VisionModel
from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from rm.vlm.processor import load_processor

if TYPE_CHECKING:
    from PIL import Image

_ONE_PASS = ("owlvit", "owlv2")
"""Families that look once for all queries; the others see a picture anew for each, so that their words do not mix."""


@dataclass(frozen=True)
class Detections:
    """What was found for one query, best first.

    Attributes:
        boxes: of shape (found, 4), in pixels, within the picture.
        scores: of shape (found,), in 0..1.
    """

    boxes: Boxes
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.scores)


class OpenVocabularyDetector:
    """OWLv2 (Minderer et al. 2023, arXiv 2306.09683), Grounding DINO (Liu et al. 2023, arXiv 2303.05499) or their kin.

    Args:
        model: a folder, or a name on the hub, that AutoModelForZeroShotObjectDetection loads.
        threshold: detections below this score count as none. The families' scores are not on one scale.
        max_overlap: intersection over union above which two boxes of one query are one.
        query: what a name is put into, with {name} for it.
        revision: commit, tag or branch on the hub.
        dtype: "float32", "bfloat16" or "float16".
        device: such as "cpu" or "cuda".

    Raises:
        UserError: when there is no such model or device, and for a threshold or query that makes no sense.
    """

    def __init__(
        self,
        model: str | Path = "google/owlv2-base-patch16-ensemble",
        *,
        threshold: float = 0.2,
        max_overlap: float = 0.5,
        query: str = "{name}",
        revision: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
    ) -> None:
        _check_share(threshold=threshold, max_overlap=max_overlap)
        if "{name}" not in query:
            raise UserError(f"expected a query with {{name}} in it, got {query!r}")
        self.threshold, self.max_overlap, self.query = threshold, max_overlap, query
        self._loaded = VisionModel(
            AutoModelForZeroShotObjectDetection,
            "an open-vocabulary detector",
            model,
            revision=revision,
            dtype=dtype,
            device=device,
        )
        self.name = self._loaded.name
        self._processor: Any = load_processor(self._loaded.source, self._loaded.config, revision=revision)

    @property
    def fingerprint(self) -> str:
        """Hash of weights, preprocessing, precision and settings."""
        return stable_hash([self._loaded.fingerprint, self.threshold, self.max_overlap, self.query])

    @torch.inference_mode()
    def detect(self, image: Image.Image, names: Sequence[str]) -> list[Detections]:
        """Return what is found for each name.

        Raises:
            ValueError: for a picture of an impossible shape.
        """
        queries = [self.query.replace("{name}", name) for name in names]
        if self._loaded.config.model_type in _ONE_PASS:
            inputs = self._processor(text=[queries], images=[image], return_tensors="pt", truncation=True)
            outputs = self._forward(inputs)
            each = [_of_query(outputs, place) for place in range(len(queries))]
        else:
            each = [
                self._forward(self._processor(text=[[query]], images=[image], return_tensors="pt", truncation=True))
                for query in queries
            ]
        return [self._found(outputs, image) for outputs in each]

    def _forward(self, inputs: Any) -> Any:
        model = self._loaded.model
        return model(**inputs.to(model.device, model.dtype))

    def _found(self, outputs: Any, image: Image.Image) -> Detections:
        found = self._processor.post_process_grounded_object_detection(
            outputs, threshold=self.threshold, target_sizes=[(image.height, image.width)]
        )[0]
        detections = _detections(found["boxes"], found["scores"], image)
        kept = suppressed(detections.boxes, detections.scores, self.max_overlap)
        return Detections(detections.boxes[kept], detections.scores[kept])


class ObjectDetector:
    """A detector of fixed classes, such as DETR, RT-DETR or YOLOS trained on COCO.

    Args:
        model: a folder, or a name on the hub, that AutoModelForObjectDetection loads.
        threshold: detections below this score count as none.
        revision: commit, tag or branch on the hub.
        dtype: "float32", "bfloat16" or "float16".
        device: such as "cpu" or "cuda".

    Raises:
        UserError: when there is no such model or device, and for a threshold outside of 0..1.
    """

    def __init__(
        self,
        model: str | Path = "PekingU/rtdetr_r50vd_coco_o365",
        *,
        threshold: float = 0.5,
        revision: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
    ) -> None:
        _check_share(threshold=threshold)
        self.threshold = threshold
        self._loaded = VisionModel(
            AutoModelForObjectDetection, "a detector", model, revision=revision, dtype=dtype, device=device
        )
        self.name = self._loaded.name

    @property
    def fingerprint(self) -> str:
        """Hash of weights, preprocessing, precision and threshold."""
        return stable_hash([self._loaded.fingerprint, self.threshold])

    @property
    def labels(self) -> dict[int, str]:
        """The model's classes by number."""
        labels: dict[int, str] = self._loaded.config.id2label
        return labels

    @torch.inference_mode()
    def detect(self, image: Image.Image, label: str) -> Detections:
        """Return what is found of one class.

        Raises:
            ValueError: for a picture of an impossible shape.
        """
        inputs = self._loaded.processor([image], return_tensors="pt")
        model = self._loaded.model
        outputs = model(**inputs.to(model.device, model.dtype))
        found = self._loaded.processor.post_process_object_detection(
            outputs, threshold=self.threshold, target_sizes=[(image.height, image.width)]
        )[0]
        wanted = [place for place, number in enumerate(found["labels"].tolist()) if self.labels[number] == label]
        return _detections(found["boxes"][wanted], found["scores"][wanted], image)


def _detections(boxes: torch.Tensor, scores: torch.Tensor, image: Image.Image) -> Detections:
    """Sort by score, and cut boxes to the picture; less than a pixel, as in OWLv2's padding, is nothing."""
    sides = np.array([image.width, image.height] * 2, dtype=np.float64)
    within = np.clip(boxes.double().cpu().numpy().reshape(-1, 4), 0, sides)
    sure = scores.double().cpu().numpy()
    order = [place for place in np.argsort(-sure, kind="stable") if (within[place, 2:] - within[place, :2] >= 1).all()]
    return Detections(within[order].reshape(-1, 4), sure[order])


def _of_query(outputs: Any, place: int) -> Any:
    """Return the outputs as if this query had been the only one."""
    alone = copy.copy(outputs)
    alone["logits"] = outputs.logits[..., place : place + 1]
    return alone


def _check_share(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise UserError(f"expected {name} in 0..1, got {value}")
