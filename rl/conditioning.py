"""What a pipeline computed once per case, and how rows of several cases become one batch for its denoiser.

The blocks before a pipeline's loop leave a state of tensors, lists and settings behind. This module knows nothing of
any family: it learns from the state of a single case which entries have a batch dimension, and batches only rows
whose states have the same form (the same number and sizes of references, the same position ids).
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnomon.errors import UserError

# One step would give these the length 1, which looks like a batch dimension.
_SHARED = ("timesteps", "sigmas")


@dataclass(frozen=True, eq=False)
class CaseState:
    """The block state of one case, all without gradient.

    Attributes:
        case_id: whose state it is.
        workflow: names of the inputs that were given; a pipeline chooses its blocks by them.
        loop: inputs of the denoising loop, except the latents.
        after: inputs of the blocks behind the loop (unpacking, decoding), except the latents.
        before_latents: inputs of the block that draws the initial latents.
        sigmas: noise shares, float32 `[steps + 1]` on the CPU, decreasing to 0.
        latent_shape: shape of one sample's latents, `[tokens, channels]`.
        latent_dtype: dtype that the pipeline gives its latents.
        form: equal for states that may stand in one batch.
    """

    case_id: str
    workflow: frozenset[str]
    loop: dict[str, Any]
    after: dict[str, Any]
    before_latents: dict[str, Any]
    sigmas: Tensor
    latent_shape: tuple[int, ...]
    latent_dtype: torch.dtype
    form: Hashable


@dataclass(frozen=True, eq=False)
class Conditioning:
    """One state per row of a batch; the rows of a group point at the same state, nothing is computed twice."""

    states: tuple[CaseState, ...]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.states)

    @property
    def case_ids(self) -> list[str]:
        """The case of each row."""
        return [state.case_id for state in self.states]

    @property
    def sigmas(self) -> Tensor:
        """The schedule that all rows share, float32 `[steps + 1]` on the CPU.

        Raises:
            UserError: when the rows make pictures of different sizes, which cannot be stacked.
        """
        self.check_one_size()
        return self.states[0].sigmas

    def check_one_size(self) -> None:
        """Refuse rows that cannot be stacked.

        Raises:
            UserError: when they make pictures of different sizes.
        """
        first = self.states[0]
        for state in self.states:
            if state.latent_shape != first.latent_shape or not torch.equal(state.sigmas, first.sigmas):
                raise UserError(
                    f"expected all cases of a batch to make pictures of one size, got latents "
                    f"{list(first.latent_shape)} for '{first.case_id}' and {list(state.latent_shape)} for "
                    f"'{state.case_id}'; set height and width of the generator"
                )

    def select(self, rows: Sequence[int]) -> Conditioning:
        """Return the given rows, in the given order."""
        return Conditioning(tuple(self.states[row] for row in rows))

    def expand(self, count: int) -> Conditioning:
        """Return each row `count` times, one after the other: the members of a group are neighbours."""
        return Conditioning(tuple(state for state in self.states for _ in range(count)))

    def rows_by_form(self) -> list[list[int]]:
        """Group the rows that may stand in one batch, in order of first appearance."""
        rows: dict[Hashable, list[int]] = {}
        for row, state in enumerate(self.states):
            rows.setdefault(state.form, []).append(row)
        return list(rows.values())

    def batch(self, part: str) -> dict[str, Any]:
        """Stack `part` ("loop" or "after") of all rows, which must have one form."""
        unique = {id(state): state for state in self.states}
        positions = {key: position for position, key in enumerate(unique)}
        index = [positions[id(state)] for state in self.states]
        trees = [getattr(state, part) for state in unique.values()]
        return {name: _stack(name, [tree[name] for tree in trees], index) for name in trees[0]}


def _stack(name: str, values: list[Any], index: list[int]) -> Any:
    first = values[0]
    if isinstance(first, dict):
        return {key: _stack(key, [value[key] for value in values], index) for key in first}
    if isinstance(first, Tensor) and _is_batched(name, first):
        rows = torch.cat(values) if len(values) > 1 else first
        return rows.index_select(0, torch.tensor(index, device=rows.device))
    if isinstance(first, list | tuple) and len(first) == 1:
        return [values[position][0] for position in index]
    return first


def _is_batched(name: str, value: Tensor) -> bool:
    return value.ndim > 0 and value.shape[0] == 1 and name not in _SHARED


def form_of(name: str, value: Any) -> Hashable:
    """Describe what must agree between two states that are to be stacked.

    Floating tensors with a batch dimension may differ in their numbers. Whole numbers (position ids) and whatever the
    rows of a batch share must be equal: two references of 64 x 64 have as many tokens as one of 128 x 64.
    """
    if isinstance(value, dict):
        return tuple((key, form_of(key, item)) for key, item in sorted(value.items()))
    if isinstance(value, Tensor):
        form = (tuple(value.shape), str(value.dtype))
        if value.is_floating_point() and _is_batched(name, value):
            return form
        content = value.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
        return *form, hashlib.sha256(content).digest()
    if isinstance(value, list | tuple):
        # The items of a list of one are themselves rows (a tensor per sample), hence the added batch dimension.
        return tuple(
            form_of(name, item[None] if isinstance(item, Tensor) and len(value) == 1 else item) for item in value
        )
    return "generator" if isinstance(value, torch.Generator) else repr(value)
