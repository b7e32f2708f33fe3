"""Answers kept on disk, so that asking the same model the same thing again costs nothing.

One small file per answer, written under a temporary name and renamed. That is safe with any number of processes, after
a kill at any moment and on the network file systems of clusters, where SQLite's locks and its write-ahead log are not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from gnomon.files import atomic_write_bytes
from gnomon.hashing import stable_hash
from rm.vlm.conversation import ChoiceScores, Reply

Answer = TypeVar("Answer", Reply, ChoiceScores)

KEPT = ("ok", "truncated", "refused")
"""What a model answers for good; anything else is asked again."""

_ADAPTERS: dict[type, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (Reply, ChoiceScores)}


class ReplyCache:
    """A folder of answers.

    Attributes:
        folder: where they lie, in 256 subfolders; may be deleted at any time.
    """

    def __init__(self, folder: str | Path) -> None:
        """Use `folder`, which is made when the first answer is kept."""
        self.folder = Path(folder)

    def key(self, fingerprint: str, conversation: str, question: object) -> str:
        """Return the name of an answer.

        Args:
            fingerprint: of the model.
            conversation: the hash of texts and pixels.
            question: what else decides the answer: the generation parameters, or the choices.
        """
        return stable_hash([fingerprint, conversation, question])

    def get(self, key: str, kind: type[Answer]) -> Answer | None:
        """Return a kept answer, or None. A file that is broken counts as none and is replaced by the next answer."""
        try:
            found: Answer = _ADAPTERS[kind].validate_json(self._path(key, kind).read_bytes())
        except (OSError, ValidationError):
            return None
        return found

    def put(self, key: str, answer: Reply | ChoiceScores) -> None:
        """Keep an answer, unless asking again might bring a better one.

        Raises:
            UserError: when the system refuses to write.
        """
        # A reply of no words is nothing that a model said: servers give one at times, and the next is a whole one.
        is_empty = isinstance(answer, Reply) and answer.status == "ok" and not answer.text
        if answer.status in KEPT and not is_empty:
            atomic_write_bytes(self._path(key, type(answer)), _ADAPTERS[type(answer)].dump_json(answer))

    def _path(self, key: str, kind: type[Reply] | type[ChoiceScores]) -> Path:
        return self.folder / key[:2] / f"{key}.{kind.__name__}.json"
