"""Reference retrieval on real pictures: queries and pools are embedded, each picture once, and ranked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.cogcanvas.retrieval import Query, Ranked, RetrievalResult, RetrievalSlot, rank, summarized
from bench.evaluators.cosine import cosines
from bench.evaluators.reference_cache import ReferenceCache
from bench.report.formatting import interval, number
from bench.text import aligned
from gnomon.datasets import resolve
from gnomon.errors import UserError
from gnomon.files import atomic_write_text
from gnomon.hashing import to_plain
from gnomon.images import content_hash, load_image
from gnomon.progress import track

if TYPE_CHECKING:
    from PIL import Image


class PictureEmbedder(Protocol):
    """Pictures to vectors.

    One that embeds texts in the same space also has `embed_texts(texts)`, and `is_cut(text)` for texts that it takes
    the beginning of. Vectors are compared by their cosine, or by its `similarity(first, second)` where it has one.

    Attributes:
        name: for people.
    """

    name: str

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the vectors depend on."""

    def embed(self, images: Sequence[Image.Image]) -> NDArray[Any]:
        """Return a vector for each picture [pictures, dimensions], NaN where there is nothing to compare."""


def retrieve(
    root: Path,
    slots: Sequence[RetrievalSlot],
    embedder: PictureEmbedder,
    *,
    query: Query = "text",
    cache: str | Path | None = None,
    n_alone: int = 0,
) -> RetrievalResult:
    """Rank the pool of each slot by how alike its pictures and the query are.

    A slot with a picture that cannot be read, in the pool or as query, has that status and no value; one whose query
    has no vector is ranked by lot.

    Args:
        root: the folder below which pictures are.
        slots: what is asked.
        embedder: of pictures, and of texts for `query="text"`.
        query: by what is asked.
        cache: folder for vectors; None keeps them in memory.
        n_alone: slots that are not asked for want of a choice, for the report.

    Raises:
        UserError: when there are no slots, or the embedder or a slot has nothing for such a query.
    """
    if not slots:
        raise UserError("expected identities with two pictures at least, there are none: nothing to choose from")
    if query == "text" and not hasattr(embedder, "embed_texts"):
        raise UserError(f"expected an embedder of texts for --query text, {embedder.name} embeds pictures alone")
    if lacking := [slot.id for slot in slots if getattr(slot, query) is None]:
        raise UserError(
            f"expected slots with {query} for --query {query}, {len(lacking)} have none, such as {lacking[0]}"
        )
    asked = [slot.image for slot in slots if query == "image"]
    paths = dict.fromkeys(path for slot in slots for path in slot.pool) | dict.fromkeys(filter(None, asked))
    kept = ReferenceCache(cache)
    vectors = {
        path: _vector(root, path, embedder, kept) for path in track(list(paths), f"embedding by {embedder.name}")
    }
    ranked = [_ranked(slot, embedder, vectors, query) for slot in slots]
    is_cut = getattr(embedder, "is_cut", None)
    n_cut = 0 if query == "image" or is_cut is None else sum(bool(is_cut(slot.text)) for slot in slots)
    return summarized(
        ranked, embedder=embedder.name, fingerprint=embedder.fingerprint, query=query, n_alone=n_alone, n_cut=n_cut
    )


def _vector(root: Path, path: str, embedder: PictureEmbedder, cache: ReferenceCache) -> NDArray[Any] | str:
    """Return the vector of a picture [1, dimensions], or why it has none."""
    try:
        image = load_image(resolve(root, path))
    except UserError as error:
        return str(error)
    return cache.get(f"{embedder.fingerprint}/picture", content_hash(image), partial(embedder.embed, [image]))


def _ranked(
    slot: RetrievalSlot, embedder: PictureEmbedder, vectors: Mapping[str, NDArray[Any] | str], query: Query
) -> Ranked:
    found = [vectors[path] for path in slot.pool + ([slot.image] if query == "image" and slot.image else [])]
    usable = [vector for vector in found if not isinstance(vector, str)]
    if broken := [vector for vector in found if isinstance(vector, str)]:
        return Ranked(slot.id, slot.case_id, len(slot.pool), status="unreadable_image", reason=broken[0])
    pool = np.concatenate(usable[: len(slot.pool)])
    asked: NDArray[Any] = usable[-1] if query == "image" else getattr(embedder, "embed_texts")([slot.text])  # noqa: B009
    compare = getattr(embedder, "similarity", cosines)
    return rank(slot, compare(asked, pool)[0])


def write_retrieval(path: Path, result: RetrievalResult) -> None:
    """Write a result as JSON.

    Raises:
        UserError: when the system refuses.
    """
    atomic_write_text(path, json.dumps(to_plain(result), ensure_ascii=False, allow_nan=False, indent=2) + "\n")


def retrieval_text(result: RetrievalResult) -> str:
    """Return a table of the figures, with what chance would give, and what was left out."""
    rows = [("figure", "value", "95 % interval", "by lot")]
    for name, found, chance in (
        ("Precision", result.precision, result.chance_precision),
        ("Recall", result.recall, result.chance_recall),
    ):
        rows += [(f"{name}@{k}", number(one.value), interval(one), number(chance[k])) for k, one in found.items()]
    failed = "".join(f", {count} {status}" for status, count in result.failed.items())
    lines = [f"{result.n_scored} of {result.n_slots} slots ranked by {result.embedder}{failed}"]
    if result.n_alone:
        lines.append(f"{result.n_alone} more have one picture and nothing to choose from")
    if result.n_cut:
        lines.append(f"too long and cut: {result.n_cut} of {result.n_slots} texts")
    return "\n".join([aligned(rows), *lines])
