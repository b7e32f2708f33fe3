"""Several rewards as one: a weighted sum, with the parts left visible for GDPO and for the curves."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL.Image import Image
from torch import Tensor

from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.records import Case
from rl.rewards.base import RESERVED_METRICS, Reward, RewardOutput, ask_reward, checked_weights, weighted_sum


class CombinedReward:
    """Adds up named parts.

    The breakdown holds the total of each part under its name, and the part's own breakdown under `part/dimension`. A
    row that one part could not judge has failed: the sum of the others would be a number on another scale.
    """

    def __init__(self, parts: dict[str, Reward], *, weights: dict[str, float] | None = None) -> None:
        """Name the parts.

        Args:
            parts: rewards by name.
            weights: of each part's total, 1 by default; one for every part, none of them 0 (what should only be
                watched is a monitor). Negative ones punish.

        Raises:
            UserError: when weights and parts do not have the same names, or a part is called like something else.
        """
        if not parts:
            raise UserError("expected one or more parts of a combined reward, got none")
        # `a/b` would be the part b of a part a as well, and one would be taken for the other.
        refused = [name for name in parts if not name or "/" in name or name in RESERVED_METRICS]
        if refused:
            raise UserError(
                "expected names of parts of a combined reward without '/' and other than those that the trainer logs "
                f"by itself, got {', '.join(map(repr, refused))}; rename them"
            )
        self.parts = dict(parts)
        self.weights = checked_weights(weights, default=dict.fromkeys(parts, 1.0), owner="a combined reward")
        if set(self.weights) != set(self.parts) or not all(self.weights.values()):
            raise UserError(
                f"expected a weight other than 0 for each of the parts {', '.join(self.parts)}, got {self.weights}; "
                "what should only be watched goes to model.monitors"
            )

    @property
    def fingerprint(self) -> str:
        """Hash of the parts' fingerprints and the weights."""
        return stable_hash(
            [{name: getattr(part, "fingerprint", None) for name, part in self.parts.items()}, self.weights]
        )

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> RewardOutput:
        """Ask every part about every picture."""
        breakdown: dict[str, Tensor] = {}
        failed = torch.zeros(len(images), dtype=torch.bool)
        reasons: dict[int, str] = {}
        for name, part in self.parts.items():
            output = ask_reward(part, cases=cases, references=references, images=images)
            breakdown |= {name: output.total, **{f"{name}/{key}": values for key, values in output.breakdown.items()}}
            failed |= output.failed
            for row, reason in output.reasons.items():
                reasons[row] = "; ".join(filter(None, (reasons.get(row), f"{name}: {reason}")))
        return RewardOutput(weighted_sum(breakdown, self.weights), breakdown, failed, reasons)
