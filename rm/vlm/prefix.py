"""Prompts that begin alike read their beginning once: questions on the same pictures, candidates of one source.

The first tokens that all rows of a group share, pictures included, run through the model once; the cache of keys and
values (or the state of linear attention) is copied for each row, and the rest of all rows runs as one batch. Every
token gets the position that it has in its whole prompt, and padding stands on the right, where nothing reads it; so the
values are those of one call per row.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, cast

import torch
from torch import Tensor
from transformers import Cache

from rm.vlm.inputs import InputEncoder, Row, grids_of, position_ids

# Model types whose forked caches are tested against whole forwards.
FORKABLE = frozenset({"gemma3", "gemma4", "qwen2_5_vl", "qwen3_5", "qwen3_vl", "smolvlm"})
# A shorter beginning costs more in a second forward than it saves.
MIN_PREFIX = 16

_told: set[str] = set()


@dataclass(frozen=True)
class Batch:
    """Rows that run together.

    Attributes:
        indices: which rows these are.
        offset: how many of their first tokens are not in `inputs` because the cache holds them.
        inputs: keyword arguments of the model.
    """

    indices: tuple[int, ...]
    offset: int
    inputs: dict[str, Any]


def can_fork(config: Any) -> bool:
    """Return whether rows of such a model may share a prefix; for one that may not, say so once."""
    kind = str(config.model_type)
    bidirectional = getattr(config.get_text_config(), "use_bidirectional_attention", None) in (True, "all")
    if kind in FORKABLE and not bidirectional:
        return True
    if kind not in _told:
        _told.add(kind)
        reason = (
            "its tokens attend to later ones" if bidirectional else "it is not one of those that this is tested for"
        )
        warnings.warn(
            f"prompts of {kind!r} models do not share prefixes ({reason}): every prompt runs alone, with equal values "
            "at more cost",
            stacklevel=2,
        )
    return False


def shared_length(rows: Sequence[Row], limit: int) -> int:
    """Return how many first tokens all `rows` share, so that no picture is cut.

    Args:
        rows: one or more.
        limit: the longest beginning that may be shared; less than the shortest row.
    """
    columns = zip(*(row.ids[:limit] for row in rows), strict=False)
    length = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
    pictures = zip(*(row.pictures for row in rows), strict=False)
    common = sum(1 for _ in takewhile(lambda column: len({picture.key for picture in column}) == 1, pictures))
    for row in rows:
        # Stop before the first picture that differs or that the shared tokens would cut.
        for number, (begin, end) in enumerate(row.spans):
            if begin < length and (number >= common or end > length):
                length = begin
    return length


class SharedPrefix:
    """The beginning of a group of rows, run once.

    Args:
        backbone: the model below the language-model head.
        encoder: makes its inputs.
        row: any row of the group.
        length: how many of its first tokens the group shares.
    """

    def __init__(self, backbone: Any, encoder: InputEncoder, row: Row, length: int) -> None:
        self.backbone, self.encoder, self.length = backbone, encoder, length
        head = row.head(length)
        inputs = whole_inputs(backbone, encoder, [head])
        self.pictures = len(head.pictures)
        self.cache: Cache = backbone(**inputs, use_cache=True).cache

    def inputs(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Return the inputs of the rest of `rows`, each with its own copy of the cache."""
        whole = self.encoder.collate(rows, skip=self.pictures)
        placed = position_ids(self.backbone, whole, grids_of(rows))
        inputs = to_device(whole | {"position_ids": placed[..., self.length :]}, self.backbone)
        inputs["input_ids"] = inputs["input_ids"][:, self.length :]
        # The attention mask and the kinds of tokens are read from the start of the prompt, as keys are.
        return {**inputs, "cache": _fork(self.cache, len(rows)), "use_cache": True}


def whole_inputs(backbone: Any, encoder: InputEncoder, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the inputs of whole rows, padded on the right."""
    inputs = encoder.collate(rows)
    return to_device(inputs | {"position_ids": position_ids(backbone, inputs, grids_of(rows))}, backbone)


def batches(
    backbone: Any,
    encoder: InputEncoder,
    rows: Sequence[Row],
    groups: Sequence[Hashable],
    needed: Sequence[int],
    *,
    batch_size: int,
    share: bool = True,
) -> Iterator[Batch]:
    """Yield the inputs of all rows, in whichever order costs least.

    Args:
        backbone: the model below the language-model head.
        encoder: makes its inputs.
        rows: the prompts.
        groups: equal for rows that may share a prefix.
        needed: the first token of each row whose output is wanted; it is in the batch's inputs.
        batch_size: rows per forward.
        share: False lets every row run whole.
    """
    alone: list[int] = []
    members: dict[Hashable, list[int]] = {}
    for index, group in enumerate(groups):
        members.setdefault(group, []).append(index)
    share = share and any(len(indices) > 1 for indices in members.values()) and can_fork(backbone.config)
    for indices in members.values():
        limit = min(needed[index] for index in indices)
        length = shared_length([rows[index] for index in indices], limit) if share and len(indices) > 1 else 0
        if length < MIN_PREFIX:
            alone += indices
            continue
        prefix = SharedPrefix(backbone, encoder, rows[indices[0]], length)
        for chunk in _chunks(indices, batch_size):
            yield Batch(chunk, length, prefix.inputs([rows[index] for index in chunk]))
    for chunk in _chunks(sorted(alone), batch_size):
        inputs = whole_inputs(backbone, encoder, [rows[index] for index in chunk])
        yield Batch(chunk, 0, {**inputs, "use_cache": False})


def windows(groups: Sequence[Hashable], size: int) -> Iterator[range]:
    """Yield consecutive rows to be encoded together: about `size`, more where a group of neighbours would be cut.

    Preprocessed pictures are far larger than the pictures, so that those of a whole benchmark must not exist at once.
    """
    start = 0
    for index in range(1, len(groups) + 1):
        last = index == len(groups)
        full = index - start >= size and (last or groups[index] != groups[index - 1])
        if last or full or index - start >= 8 * size:
            yield range(start, index)
            start = index


def _chunks(indices: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    for start in range(0, len(indices), size):
        yield tuple(indices[start : start + size])


def _fork(cache: Cache, count: int) -> Cache:
    """Return `count` copies of a cache of one row, as a batch; `cache` itself stays as it is."""
    forked = copy.copy(cache)
    forked.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in forked.layers:
        # Layers of linear attention keep their states in dicts, which a shallow copy would share.
        vars(layer).update({name: dict(value) for name, value in vars(layer).items() if isinstance(value, dict)})
    # Made for beam search, and the one way to multiply rows that layers of every kind know.
    forked.reorder_cache(cast(torch.LongTensor, torch.zeros(count, dtype=torch.long)))
    return forked


def to_device(inputs: dict[str, Tensor], backbone: Any) -> dict[str, Any]:
    """Return `inputs` where the model is, pictures in its precision."""
    return {
        name: value.to(backbone.device, backbone.dtype if value.is_floating_point() else None)
        for name, value in inputs.items()
    }
