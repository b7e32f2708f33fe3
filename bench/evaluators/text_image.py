"""Texts and pictures as vectors in one space: CLIP (Radford et al. 2021, arXiv 2103.00020), SigLIP and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from bench.evaluators.vision.loading import VisionModel
from gnomon.errors import UserError

if TYPE_CHECKING:
    from PIL import Image


class TextImageEmbedder:
    """A model of transformers with `get_text_features` and `get_image_features`.

    Args:
        model: a folder, or a name on the hub.
        revision: commit, tag or branch on the hub.
        dtype: "float32", "bfloat16" or "float16".
        device: such as "cpu" or "cuda".

    Attributes:
        max_tokens: of a text, with those that mark its beginning and end; what is behind is cut, the end mark stays.

    Raises:
        UserError: when there is no such model or device.
    """

    def __init__(
        self,
        model: str | Path = "openai/clip-vit-large-patch14",
        *,
        revision: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
    ) -> None:
        self._loaded = VisionModel(
            AutoModel, "a model of texts and pictures", model, revision=revision, dtype=dtype, device=device
        )
        self.name = self._loaded.name
        options: dict[str, Any] = {} if revision is None else {"revision": revision}
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(self._loaded.source, **options)
        except (OSError, ValueError) as error:
            raise UserError(f"expected a tokenizer beside the model at {self._loaded.source}: {error}") from error
        if not hasattr(self._loaded.model, "get_text_features"):
            raise UserError(f"expected a model of texts and pictures, such as CLIP, at {self._loaded.source}")
        self.max_tokens: int = self._loaded.config.text_config.max_position_embeddings

    @property
    def fingerprint(self) -> str:
        """Hash of weights, preprocessing and precision."""
        return self._loaded.fingerprint

    @torch.inference_mode()
    def embed(self, images: Sequence[Image.Image]) -> NDArray[Any]:
        """Return a vector of unit length for each RGB picture, float32 [pictures, dimensions]."""
        return _unit(self._loaded.model.get_image_features(pixel_values=self._loaded.prepare(list(images))))

    @torch.inference_mode()
    def embed_texts(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return a vector of unit length for each text, float32 [texts, dimensions]; long ones are cut."""
        model = self._loaded.model
        # SigLIP was trained on texts that are filled up to the longest length, without a mask for the rest.
        is_filled = self._loaded.config.model_type.startswith("siglip")
        padding = "max_length" if is_filled else True
        words = self._tokenizer(
            list(texts), padding=padding, truncation=True, max_length=self.max_tokens, return_tensors="pt"
        ).to(model.device)
        mask = None if is_filled else words.get("attention_mask")
        return _unit(model.get_text_features(input_ids=words["input_ids"], attention_mask=mask))

    def is_cut(self, text: str) -> bool:
        """Tell whether a text has more tokens than the model takes."""
        return self.count_tokens(text) > self.max_tokens

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a whole text has, with those that mark its beginning and end."""
        return len(self._tokenizer(text, verbose=False)["input_ids"])


def _unit(output: Any) -> NDArray[Any]:
    vectors: NDArray[Any] = torch.nn.functional.normalize(output.pooler_output.float()).cpu().numpy()
    return np.ascontiguousarray(vectors)
