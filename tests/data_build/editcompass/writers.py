"""A small model that writes what is asked for by rule, different for every conversation; and one picture of noise."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence

import numpy as np
from PIL import Image

from rm.vlm.conversation import ChoiceScores, Conversation, GenerationParameters, Reply
from rm.vlm.scripted import prompt_text
from rm.vlm.wire import conversation_hash


class Writer:
    """Writes as many instructions as a question asks for, or one prompt; `broken` questions get nonsense instead."""

    def __init__(self, name: str = "writer", delay: float = 0.0, broken: str | None = None) -> None:
        self.name, self.delay, self.broken = name, delay, broken
        self.fingerprint = f"writer {name}"
        self.max_concurrency = 1
        self.num_asked = 0

    def generate(self, conversations: Sequence[Conversation], parameters: GenerationParameters) -> list[Reply]:
        """Answer each conversation, `delay` seconds for each."""
        return [self._reply(conversation) for conversation in conversations]

    def choose(self, conversations: Sequence[Conversation], choices: Sequence[str]) -> list[ChoiceScores]:
        """Take no side."""
        raise NotImplementedError

    def _reply(self, conversation: Conversation) -> Reply:
        time.sleep(self.delay)
        self.num_asked += 1
        text, mark = prompt_text(conversation), conversation_hash(conversation)[:8]
        if self.broken is not None and self.broken in text:
            return Reply("Let me think about that.", finish_reason="stop")
        if asked := re.search(r"Write (\d+) instructions", text):
            entries = [{"en": f"Change {mark} number {n}.", "zh": f"修改{mark}第{n}处。"} for n in range(int(asked[1]))]
            return Reply(json.dumps({"instructions": entries}, ensure_ascii=False), finish_reason="stop")
        return Reply(json.dumps({"prompt": f"A sharp photograph of {mark}."}), finish_reason="stop")


def noise(seed: int, size: int = 24) -> Image.Image:
    """Return a picture that no other seed gives."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8))
