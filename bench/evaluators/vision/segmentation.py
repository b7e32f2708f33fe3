"""Which pixels of a picture are foreground: what a concept names, or what stands out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import adaptive_avg_pool2d
from transformers import AutoTokenizer, Sam3Model

from bench.evaluators.vision.loading import VisionModel
from gnomon.errors import UserError
from gnomon.hashing import stable_hash

if TYPE_CHECKING:
    from PIL import Image

    from bench.evaluators.vision.detection import OpenVocabularyDetector

Mask = NDArray[np.bool_]
"""Of shape (row, column), stretched over the whole picture; its resolution is the segmenter's, not the picture's."""


class Segmenter(Protocol):
    """Pictures to masks of their foreground.

    Attributes:
        name: for people.
        takes_words: whether it looks at the concepts; one that does not takes what stands out.
    """

    name: str
    takes_words: bool

    @property
    def fingerprint(self) -> str:
        """Hash of weights, preprocessing and settings."""

    def foreground(self, image: Image.Image, concepts: Sequence[str]) -> Mask:
        """Return what shows any of the concepts."""


class InstanceSegmenter(Protocol):
    """Pictures to a mask for each thing that a concept names; see :class:`Segmenter`."""

    name: str

    @property
    def fingerprint(self) -> str:
        """Hash of weights, preprocessing and settings."""

    def instances(self, image: Image.Image, concepts: Sequence[str]) -> list[list[Mask]]:
        """Return the masks of each concept's instances, the surest first; all masks have one shape."""


class Sam3Segmenter:
    """SAM 3 (Carion et al. 2025, arXiv 2511.16719), asked for each concept; the union of all instances is returned.

    The picture goes through the vision encoder once for all concepts.

    Args:
        model: a folder, or a name on the hub.
        threshold: instances below this score do not count; a score is the instance's own times that of the concept
            being there at all.
        mask_threshold: probability from which a pixel belongs to an instance.
        revision: commit, tag or branch on the hub.
        dtype: "float32", "bfloat16" or "float16".
        device: such as "cpu" or "cuda".

    Raises:
        UserError: when there is no such model or device.
    """

    takes_words = True

    def __init__(
        self,
        model: str | Path = "facebook/sam3",
        *,
        threshold: float = 0.5,
        mask_threshold: float = 0.5,
        revision: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
    ) -> None:
        self.threshold, self.mask_threshold = threshold, mask_threshold
        self._loaded = VisionModel(Sam3Model, "a SAM 3 model", model, revision=revision, dtype=dtype, device=device)
        self.name = self._loaded.name
        options: dict[str, Any] = {} if revision is None else {"revision": revision}
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(self._loaded.source, **options)
        except (OSError, ValueError) as error:
            raise UserError(f"expected SAM 3's tokenizer in {self._loaded.source}: {error}") from error

    @property
    def fingerprint(self) -> str:
        """Hash of weights, preprocessing, precision and thresholds."""
        return stable_hash([self._loaded.fingerprint, self.threshold, self.mask_threshold])

    def foreground(self, image: Image.Image, concepts: Sequence[str]) -> Mask:
        """Return the union of all instances of all concepts.

        Raises:
            ValueError: without concepts, and for a picture of an impossible shape.
        """
        if not concepts:
            raise ValueError("expected at least one concept, got none")
        masks = [each.any(0) for each in self._masks(image, concepts)]
        found: Mask = torch.stack(masks).any(0).cpu().numpy()
        return found

    def instances(self, image: Image.Image, concepts: Sequence[str]) -> list[list[Mask]]:
        """Return the masks of each concept's instances, the surest first; empty masks are none.

        Raises:
            ValueError: for a picture of an impossible shape.
        """
        return [[mask for mask in each.cpu().numpy() if mask.any()] for each in self._masks(image, concepts)]

    @torch.inference_mode()
    def _masks(self, image: Image.Image, concepts: Sequence[str]) -> list[torch.Tensor]:
        """Return the masks of each concept's instances, the surest first: shape (instance, row, column)."""
        model = self._loaded.model
        seen = model.get_vision_features(pixel_values=self._loaded.prepare([image]))
        return [self._of_concept(model, seen, concept) for concept in concepts]

    def _of_concept(self, model: Any, seen: Any, concept: str) -> torch.Tensor:
        words = self._tokenizer(
            [concept], return_tensors="pt", padding="max_length", max_length=_MAX_TOKENS, truncation=True
        ).to(model.device)
        outputs = model(vision_embeds=seen, input_ids=words.input_ids, attention_mask=words.attention_mask)
        scores = outputs.pred_logits[0].sigmoid() * outputs.presence_logits[0].sigmoid()
        masks = outputs.pred_masks[0].sigmoid() > self.mask_threshold
        order = scores.argsort(descending=True, stable=True)
        found: torch.Tensor = masks[order][scores[order] > self.threshold]
        return found


class BoxSegmenter:
    """Boxes of an open-vocabulary detector as masks, where no SAM 3 can be had.

    Args:
        detector: finds things by their names.
    """

    def __init__(self, detector: OpenVocabularyDetector) -> None:
        self.detector, self.name = detector, f"boxes of {detector.name}"

    @property
    def fingerprint(self) -> str:
        """The detector's, as boxes."""
        return stable_hash(["boxes", self.detector.fingerprint])

    def instances(self, image: Image.Image, concepts: Sequence[str]) -> list[list[Mask]]:
        """Return the boxes of each concept's instances as masks of the picture's size, the surest first.

        Raises:
            ValueError: for a picture of an impossible shape.
        """
        return [[_filled(box, image.size) for box in found.boxes] for found in self.detector.detect(image, concepts)]


def _filled(box: NDArray[Any], size: tuple[int, int]) -> Mask:
    mask = np.zeros(size[::-1], dtype=np.bool_)
    left, top = (int(side) for side in np.floor(box[:2]))
    right, bottom = (int(side) for side in np.ceil(box[2:]))
    mask[top:bottom, left:right] = True
    return mask


_MAX_TOKENS = 32
"""Of a concept, as SAM 3's own processor has it."""


def shares_of_cells(mask: NDArray[Any], rows: int, columns: int) -> NDArray[np.float32]:
    """Return which share of each cell of a grid is foreground: shape (row, column), in 0..1."""
    pooled = adaptive_avg_pool2d(torch.from_numpy(mask.astype(np.float32))[None, None], (rows, columns))
    shares: NDArray[np.float32] = pooled[0, 0].numpy()
    return shares
