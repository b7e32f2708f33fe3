"""CLIP-T: how well a whole picture fits the whole prompt.

Source: Nguyen et al. 2026 (arXiv 2606.15867), section 4: the cosine of CLIP's embeddings (ViT-L/14; Radford et al.
2021, arXiv 2103.00020). CLIP takes 77 tokens with the two that mark beginning and end, and prompts of five people have
more: what is behind is cut off, the end mark stays, and each prompt says whether that happened.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from bench.evaluators.cosine import cosines
from gnomon.hashing import stable_hash
from gnomon.records import Verdict
from rm.judge import JudgeRequest, check_language
from rm.protocols.asking import Asked, Outcome, Shell

if TYPE_CHECKING:
    from PIL import Image

CLIP_T = "clip_t"
READ_WHOLE = "prompt_read_whole"


class Embedder(Protocol):
    """Texts and pictures as vectors in one space.

    Attributes:
        name: for people.
        max_tokens: of a text; what has more is cut.
    """

    name: str
    max_tokens: int

    @property
    def fingerprint(self) -> str:
        """Hash of weights and preprocessing."""

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a whole text has, with those that mark its beginning and end."""

    def embed(self, images: Sequence[Image.Image]) -> NDArray[Any]:
        """Return one vector per picture: shape (picture, dimension)."""

    def embed_texts(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return one vector per text: shape (text, dimension)."""


class TextAlignmentJudge:
    """The cosine of the whole prompt and the whole picture, -1 to 1, as metric `clip_t`.

    A second metric, `prompt_read_whole`, is 1 where the embedder saw all of the prompt and 0 where it was cut, so that
    its mean in every table is the share of prompts that `clip_t` is about as a whole. A verdict's `raw` is JSON with
    `tokens` of the prompt, `max_tokens` and `truncated`.

    Args:
        embedder: such as :class:`bench.evaluators.text_image.TextImageEmbedder`.
        language: of the prompts, "en" or "zh"; CLIP was trained on English.
        batch_size: candidates whose pictures are in memory together.
        name: for people; says the embedder by default.

    Raises:
        UserError: for another language.
    """

    metrics: tuple[str, ...] = (CLIP_T, READ_WHOLE)

    def __init__(
        self, embedder: Embedder, *, language: str = "en", batch_size: int = 8, name: str | None = None
    ) -> None:
        self.embedder, self.language = embedder, check_language(language)
        self.batch_size, self.name = batch_size, name or f"CLIP-T ({embedder.name})"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of embedder and language."""
        return stable_hash([CLIP_T, 1, self.embedder.fingerprint, self.language])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order; `out_of_range` where an embedding has no direction."""
        return Shell(
            self.fingerprint,
            problem=lambda request: (
                None if request.metric in self.metrics else f"the judge's metrics are {', '.join(self.metrics)}"
            ),
            prompt_hash=lambda request: stable_hash(self._prompt(request)),
            answer=lambda asked: [self._answer(one) for one in asked],
            batch_size=self.batch_size * len(self.metrics),
            shown=lambda request: [],
        ).judge(requests)

    def _prompt(self, request: JudgeRequest) -> str:
        return request.case.instruction.get(self.language)

    def _answer(self, asked: Asked) -> Outcome:
        start = time.perf_counter()
        prompt = self._prompt(asked.request)
        tokens, most = self.embedder.count_tokens(prompt), self.embedder.max_tokens
        raw = json.dumps({"tokens": tokens, "max_tokens": most, "truncated": tokens > most})
        words = f"the prompt has {tokens} tokens" + (f", of which {most} are read" if tokens > most else "")
        value = float(tokens <= most) if asked.request.metric == READ_WHOLE else self._cosine(asked, prompt)
        if value is None:
            return Outcome(None, "unreadable_image", "the picture has a shape that the embedder does not take", raw)
        if value != value:
            return Outcome(None, "out_of_range", "an embedding has no direction", raw)
        return Outcome(value, "ok", words, raw, time.perf_counter() - start)

    def _cosine(self, asked: Asked, prompt: str) -> float | None:
        """Return the cosine, NaN where there is none; None for a picture of an impossible shape."""
        try:
            seen = self.embedder.embed([asked.pictures.candidates[0]])
        except ValueError:
            return None
        return float(cosines(self.embedder.embed_texts([prompt]), seen)[0, 0])
