"""The scalar heads of a reward model: one row per dimension, and one more each where the model states its doubt."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

# exp of these: beyond them a step of the optimizer could only make zeros and infinities.
LOG_SIGMA_RANGE = (-6.0, 3.0)


class Scores(NamedTuple):
    """What the heads say of some candidates.

    Attributes:
        mean: the scores, float32 [candidates, dimensions].
        log_sigma: natural logarithm of each score's standard deviation, float32 [candidates, dimensions]; None for
            heads without uncertainty.
    """

    mean: Tensor
    log_sigma: Tensor | None


class ScoreHead(nn.Module):
    """Linear heads in float32, whatever precision the rest of the model runs in.

    The rows of the weight are the dimensions' means, then, with uncertainty, the dimensions' log sigmas.

    Args:
        width: of the hidden states.
        dimensions: how many.
        uncertainty: whether each score comes with a standard deviation.
    """

    def __init__(self, width: int, dimensions: int, *, uncertainty: bool = False) -> None:
        super().__init__()
        self.dimensions, self.uncertainty = dimensions, uncertainty
        rows = dimensions * (2 if uncertainty else 1)
        layer = nn.Linear(width, rows, dtype=torch.float32)
        # The hidden states come out of a norm with entries near 1; this makes first scores of about unit spread.
        nn.init.normal_(layer.weight, std=width**-0.5)
        nn.init.zeros_(layer.bias)
        if uncertainty:
            # A first sigma of 1 for every candidate: doubt is to be learnt, not drawn.
            nn.init.zeros_(layer.weight[dimensions:])
        self.weight, self.bias = layer.weight, layer.bias

    def extra_repr(self) -> str:
        """Return what stands in the brackets of the printed module."""
        return f"dimensions={self.dimensions}, width={self.weight.shape[1]}, uncertainty={self.uncertainty}"

    def forward(self, hidden: Tensor) -> Scores:
        """Return the scores of hidden states [candidates, width]."""
        # Sixteen-bit heads round different candidates to equal scores, so autocast must not reach this line.
        with torch.autocast(device_type=hidden.device.type, enabled=False):
            values = linear(hidden.float(), self.weight.float(), self.bias.float())
        if not self.uncertainty:
            return Scores(values, None)
        mean, log_sigma = values.split(self.dimensions, dim=-1)
        return Scores(mean, log_sigma.clamp(*LOG_SIGMA_RANGE))
