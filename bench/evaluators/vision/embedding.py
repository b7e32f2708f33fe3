"""Pictures as vectors: one for a whole picture (DINOv2's class token), or one for each cell (DINOv3's patches)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel

from bench.evaluators.vision.loading import VisionModel
from gnomon.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Pictures to vectors whose cosine says how alike the pictures are.

    Attributes:
        name: for people.
        fingerprint: of all that the vectors depend on.
    """

    name: str

    @property
    def fingerprint(self) -> str:
        """Hash of weights and preprocessing."""

    def embed(self, images: Sequence[Image.Image]) -> Vectors:
        """Return one vector per picture: shape (picture, dimension)."""


class CellEmbedder(Protocol):
    """Pictures to vectors on a grid; see :class:`Embedder`."""

    name: str

    @property
    def fingerprint(self) -> str:
        """Hash of weights and preprocessing."""

    def cells(self, image: Image.Image) -> Vectors:
        """Return the vectors of the cells that together are the whole picture: shape (row, column, dimension)."""


class DinoEmbedder:
    """The class token after the last norm, of DINOv2 (Oquab et al. 2024, arXiv 2304.07193) or another ViT.

    Pictures are prepared as the checkpoint says; DINOv2's cut off what is longer than the shorter side, by a central
    square of 224 after a resize of the shorter side to 256.

    Args:
        model: a folder, or a name on the hub.
        revision: commit, tag or branch on the hub.
        dtype: "float32", "bfloat16" or "float16".
        device: such as "cpu" or "cuda".
        batch_size: pictures per forward pass.

    Raises:
        UserError: when there is no such model or device.
    """

    def __init__(
        self,
        model: str | Path = "facebook/dinov2-base",
        *,
        revision: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
        batch_size: int = 16,
    ) -> None:
        self._loaded = VisionModel(AutoModel, "a vision model", model, revision=revision, dtype=dtype, device=device)
        self.name, self.batch_size = self._loaded.name, batch_size

    @property
    def fingerprint(self) -> str:
        """Hash of weights, preprocessing and precision."""
        return self._loaded.fingerprint

    @torch.inference_mode()
    def embed(self, images: Sequence[Image.Image]) -> Vectors:
        """Return one vector per picture: shape (picture, dimension)."""
        vectors = []
        for start in range(0, len(images), self.batch_size):
            pixels = self._loaded.prepare(list(images[start : start + self.batch_size]))
            vectors.append(self._loaded.model(pixel_values=pixels).last_hidden_state[:, 0].float().cpu().numpy())
        found: Vectors = np.concatenate(vectors)
        return found


class DinoCells:
    """The patch tokens after the last norm, of DINOv3 (Siméoni et al. 2025, arXiv 2508.10104), DINOv2 or another ViT.

    The whole picture is resized to the checkpoint's square: nothing is cut off.

    Args:
        model: a folder, or a name on the hub.
        revision: commit, tag or branch on the hub.
        dtype: "float32", "bfloat16" or "float16".
        device: such as "cpu" or "cuda".

    Raises:
        UserError: when there is no such model or device, or its tokens are no patches of one size.
    """

    def __init__(
        self,
        model: str | Path = "facebook/dinov3-vitb16-pretrain-lvd1689m",
        *,
        revision: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
    ) -> None:
        self._loaded = VisionModel(AutoModel, "a vision model", model, revision=revision, dtype=dtype, device=device)
        self.name = self._loaded.name
        config: Any = self._loaded.config
        if not isinstance(getattr(config, "patch_size", None), int):
            raise UserError(f"expected a vision transformer with patches, such as DINOv3's, at {self._loaded.source}")
        self._patch, self._skipped = config.patch_size, 1 + getattr(config, "num_register_tokens", 0)

    @property
    def fingerprint(self) -> str:
        """Hash of weights, preprocessing and precision."""
        return self._loaded.fingerprint

    @torch.inference_mode()
    def cells(self, image: Image.Image) -> Vectors:
        """Return the vectors of all patches: shape (row, column, dimension)."""
        processor = self._loaded.processor
        side = processor.crop_size if getattr(processor, "do_center_crop", None) else processor.size
        whole = {"height": side["height"], "width": side["width"]}
        pixels = self._loaded.prepare([image], size=whole, do_center_crop=False)
        tokens = self._loaded.model(pixel_values=pixels).last_hidden_state[0, self._skipped :]
        rows, columns = (length // self._patch for length in pixels.shape[-2:])
        found: Vectors = tokens.reshape(rows, columns, -1).float().cpu().numpy()
        return found
