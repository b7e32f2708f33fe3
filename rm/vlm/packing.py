"""Training prompts that begin alike: one sequence holds their beginning once, and after it the rest of each.

A token sees the beginning and its own prompt, never another's, and stands at the position that it has in its own
prompt; so every value and every gradient is that of one sequence per prompt. Unlike a forked cache
(:mod:`rm.vlm.prefix`), this is one forward: activations may be checkpointed, and ranks that hold a share of each weight
stay in step. It needs layers in which every token may attend to any earlier one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gnomon.errors import UserError
from rm.vlm.inputs import InputEncoder, Picture, Row, grids_of, join_features, position_ids
from rm.vlm.prefix import shared_length

# Model types whose packed prompts are tested against whole ones.
PACKABLE = frozenset({"qwen2_5_vl", "qwen3_vl", "smolvlm"})
# What a token belongs to: a padding, the shared beginning, or (counted from 1) the rest of one prompt.
PADDING, SHARED = -1, 0
_WHOLE = "whole_"


def check_packable(config: Any) -> None:
    """Refuse a model whose prompts cannot lie in one sequence.

    Raises:
        UserError: for another family than the tested ones, or one with layers that see a window or a state.
    """
    layers = set(getattr(config.get_text_config(), "layer_types", None) or ["full_attention"])
    if config.model_type not in PACKABLE or layers != {"full_attention"}:
        raise UserError(
            f"expected model.share_prefix false for {config.model_type!r} models with {', '.join(sorted(layers))}: "
            f"only {', '.join(sorted(PACKABLE))} with full attention read what prompts have in common once in training"
        )


@dataclass(frozen=True)
class _Pack:
    """One sequence.

    Attributes:
        cells: which token of which row stands where, as (row, place).
        segments: what each token belongs to.
        pictures: in the order of their placeholders.
    """

    cells: list[tuple[int, int]]
    segments: list[int]
    pictures: list[Picture]


def pack(
    encoder: InputEncoder, rows: Sequence[Row], groups: Sequence[Hashable], ends: Sequence[int]
) -> dict[str, Tensor]:
    """Return the inputs of all rows, one sequence per group.

    Args:
        encoder: of the model.
        rows: the prompts.
        groups: equal for rows that may share their beginning.
        ends: the token of each row whose output is wanted.

    Returns:
        `segments` [sequences, tokens] and `cells` [sequences, tokens], the place of each token in the whole rows laid
        end to end; `reads` [rows, 2], the sequence and the place of each row's wanted token; the features of the
        pictures, each as often as it stands in a sequence; and what places the tokens of whole rows, by names that
        begin with `whole_`.
    """
    members: dict[Hashable, list[int]] = {}
    for index, group in enumerate(groups):
        members.setdefault(group, []).append(index)
    packs = [_pack(rows, indices, ends) for indices in members.values()]
    whole = encoder.collate([Row(row.ids, row.is_picture, ()) for row in rows]) | grids_of(rows)
    width = whole["input_ids"].shape[1]
    wanted = {(row, end): row for row, end in enumerate(ends)}
    reads = torch.empty(len(rows), 2, dtype=torch.long)
    for number, made in enumerate(packs):
        for place, cell in enumerate(made.cells):
            if cell in wanted:
                reads[wanted[cell]] = torch.tensor([number, place])
    cells = [torch.tensor([row * width + place for row, place in made.cells]) for made in packs]
    segments = [torch.tensor(made.segments) for made in packs]
    return {
        **{f"{_WHOLE}{name}": value for name, value in whole.items()},
        **join_features([picture for made in packs for picture in made.pictures]),
        # Padding repeats a token that is text, or the model would miss a picture for it; nothing reads it.
        "cells": pad_sequence(cells, batch_first=True, padding_value=ends[0]),
        "segments": pad_sequence(segments, batch_first=True, padding_value=PADDING),
        "reads": reads,
    }


def _pack(rows: Sequence[Row], indices: Sequence[int], ends: Sequence[int]) -> _Pack:
    """Lay out the rows of a group."""
    first = rows[indices[0]]
    length = shared_length([rows[index] for index in indices], min(ends[index] for index in indices))
    common = first.pictures_before(length)
    made = _Pack([(indices[0], place) for place in range(length)], [SHARED] * length, [*first.pictures[:common]])
    for number, index in enumerate(indices, start=SHARED + 1):
        made.cells.extend((index, place) for place in range(length, len(rows[index])))
        made.segments.extend([number] * (len(rows[index]) - length))
        made.pictures.extend(rows[index].pictures[common:])
    return made


def is_packed(inputs: Mapping[str, Tensor]) -> bool:
    """Return whether `inputs` are what :func:`pack` makes."""
    return "segments" in inputs


def unpacked(backbone: Any, inputs: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], tuple[Tensor, Tensor]]:
    """Return a model's keyword arguments for packed prompts, and the sequence and the place of each prompt's output.

    Args:
        backbone: the model below the language-model head.
        inputs: from :func:`pack`, on the model's device and in its precision.
    """
    whole = {name.removeprefix(_WHOLE): value for name, value in inputs.items() if name.startswith(_WHOLE)}
    grids = {name: value for name, value in whole.items() if name.endswith("grid_thw")}
    own = {"cells", "segments", "reads"}
    features = {name: value for name, value in inputs.items() if name not in own and not name.startswith(_WHOLE)}
    tokens = {name: value for name, value in whole.items() if name not in grids and name != "attention_mask"}
    cells, segments = inputs["cells"], inputs["segments"]
    placed = position_ids(backbone, whole, grids).flatten(-2)[..., cells]
    laid = {name: value.flatten()[cells] for name, value in tokens.items()}
    return {
        **laid,
        **features,
        "attention_mask": _mask(segments, backbone.dtype),
        "position_ids": placed,
    }, (inputs["reads"][:, 0], inputs["reads"][:, 1])


def _mask(segments: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to attention scores [sequences, 1, queries, keys]: 0, or where nothing is seen, minus much.

    Args:
        segments: of the tokens [sequences, tokens].
        dtype: of the scores.
    """
    keys, queries = segments[:, None, :], segments[:, :, None]
    causal = torch.ones(segments.shape[1], segments.shape[1], dtype=torch.bool, device=segments.device).tril()
    allowed = causal & ((keys == SHARED) | (keys == queries))
    hidden = torch.zeros(allowed.shape, dtype=dtype, device=segments.device)
    return hidden.masked_fill(~allowed, torch.finfo(dtype).min)[:, None]
