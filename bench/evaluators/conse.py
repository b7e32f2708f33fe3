"""Texts and pictures in one space without CLIP: ConSE over what ImageNet's classes mean.

Source: Norouzi et al. 2014 (arXiv 1312.5650): a picture's vector is the mean of its likeliest classes' text vectors,
weighted by their probabilities. Here the classes are those of EfficientNet-Lite0, and texts, also the classes' own
("tabby: a cat with a grey or tawny coat mottled with black"), become vectors by MiniLM. It knows a thousand things, and
among them hardly any people; it is blind to counts, colours, attributes and relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoTokenizer, BertModel

from bench.evaluators.offline import (
    EFFICIENTNET_LITE0,
    IMAGENET_DEFINITIONS,
    IMAGENET_LEMMAS,
    IMAGENET_SYNSETS,
    MINILM,
    OfflineFile,
    locate,
)
from bench.evaluators.vision.lite0 import lite0_pixels, load_lite0
from gnomon.errors import UserError
from gnomon.hashing import stable_hash

if TYPE_CHECKING:
    from PIL import Image

NUM_CLASSES = 20
"""The likeliest classes that count."""

_BATCH = 64


class SentenceEmbedder:
    """all-MiniLM-L6-v2: the mean of the last layer's vectors over a text's tokens, of unit length.

    Args:
        folder: with the model and its tokenizer; they are looked for where packages are by default.

    Raises:
        UserError: when they are not there.
    """

    max_tokens = 256  # as the model's own file says; it was trained on texts of half of that

    def __init__(self, folder: str | Path | None = None) -> None:
        weights = locate(MINILM, None if folder is None else Path(folder) / MINILM.name)
        try:
            self._model = BertModel.from_pretrained(weights.parent).requires_grad_(False).eval()
            self._tokenizer: Any = AutoTokenizer.from_pretrained(weights.parent)
        except (OSError, ValueError) as error:
            raise UserError(
                f"expected MiniLM's settings and tokenizer beside {weights}: {error}; run: {MINILM.install}"
            ) from error

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a whole text has, with those that mark its beginning and end."""
        return len(self._tokenizer(text, verbose=False)["input_ids"])

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return one vector of unit length per text, float32 [texts, 384]."""
        order = np.argsort([len(text) for text in texts], kind="stable")  # little is filled up beside its like
        found = np.empty((len(texts), self._model.config.hidden_size), dtype=np.float32)
        for places in np.split(order, range(_BATCH, len(texts), _BATCH)):
            words = self._tokenizer(
                [texts[place] for place in places],
                padding=True,
                truncation=True,
                max_length=self.max_tokens,
                return_tensors="pt",
            )
            last, mask = self._model(**words).last_hidden_state, words["attention_mask"][..., None]
            found[places] = torch.nn.functional.normalize((last * mask).sum(1) / mask.sum(1)).numpy()
        return found


class ConseEmbedder:
    """EfficientNet-Lite0 and MiniLM as an embedder of texts and pictures.

    Args:
        lite0: path of Lite0's weights; they are looked for where packages are by default.
        minilm: folder of MiniLM, likewise.

    Raises:
        UserError: when weights or the names of classes are not there.
    """

    name = "ConSE"

    def __init__(self, lite0: str | Path | None = None, minilm: str | Path | None = None) -> None:
        self._network, self._sentences = load_lite0(lite0), SentenceEmbedder(minilm)
        self.max_tokens = self._sentences.max_tokens
        self._class_texts = class_texts()

    @property
    def fingerprint(self) -> str:
        """Hash of all files and of how many classes count."""
        files = [EFFICIENTNET_LITE0, MINILM, IMAGENET_SYNSETS, IMAGENET_LEMMAS, IMAGENET_DEFINITIONS]
        return stable_hash(["conse", 1, [file.sha256 for file in files], NUM_CLASSES])

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a whole text has, with those that mark its beginning and end."""
        return self._sentences.count_tokens(text)

    @torch.inference_mode()
    def embed(self, images: Sequence[Image.Image]) -> NDArray[Any]:
        """Return one vector of unit length per picture, float32 [pictures, 384]."""
        likely = self._network(lite0_pixels(images)).softmax(-1).topk(NUM_CLASSES)
        vectors = (likely.values[..., None] * self._class_vectors[likely.indices]).sum(1)
        found: NDArray[Any] = torch.nn.functional.normalize(vectors).numpy()
        return found

    def embed_texts(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return one vector of unit length per text, float32 [texts, 384]; long ones are cut."""
        return self._sentences.embed(texts)

    @cached_property
    def _class_vectors(self) -> torch.Tensor:
        return torch.from_numpy(self._sentences.embed(self._class_texts))


def class_texts() -> list[str]:
    """Return "name: meaning" for each of ImageNet's thousand classes, in their order.

    Raises:
        UserError: when the files are not there.
    """
    synsets = locate(IMAGENET_SYNSETS).read_text(encoding="utf-8").split()
    lemmas, definitions = _table(IMAGENET_LEMMAS), _table(IMAGENET_DEFINITIONS)
    return [f"{lemmas[synset].partition(',')[0]}: {definitions[synset]}" for synset in synsets]


def _table(file: OfflineFile) -> dict[str, str]:
    """Return a file of synsets and what belongs to each."""
    lines = locate(file).read_text(encoding="utf-8").splitlines()
    return {synset: text for synset, _, text in (line.partition("\t") for line in lines)}
