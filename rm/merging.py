"""Merging a reward model's adapter into its base, and the proof that the scores stayed what they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gnomon.errors import UserError
from rm.reward_model import RewardModel

# The share of a score's size that rounding may take; sixteen-bit weights keep 8 or 11 bits of a merged update.
TOLERANCE = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}


def merge(model: str | Path, out: str | Path, *, base: str | Path | None = None) -> float:
    """Write a reward model without an adapter: a plain base model with the update in its weights, and the heads.

    Args:
        model: folder of the reward model.
        out: where to; the base goes to its subfolder `base`, which any program that runs the architecture can load.
        base: where the base model is now, when it has moved.

    Returns:
        The largest difference of a score between both models, on a picture of noise.

    Raises:
        UserError: when the model has no adapter, the folder holds something else, or the merged model scores
            differently (it is left there to be looked at).
    """
    adapted = RewardModel.from_pretrained(model, base=base)
    if adapted.lora is None:
        raise UserError(f"expected a reward model with an adapter in {model}, it has heads alone: nothing to merge")
    adapted.save_pretrained(out, notes={"merged from": Path(model).resolve().name}, include_base=True)
    ours, theirs = (_probe(each) for each in (adapted, RewardModel.from_pretrained(out)))
    difference = float(np.abs(ours - theirs).max())
    allowed = TOLERANCE[adapted.dtype_name] * max(1.0, float(np.abs(ours).max()))
    if not difference <= allowed:
        raise UserError(
            f"the merged model in {out} scores {difference:.3g} apart from {model} (allowed: {allowed:.3g}); "
            "do not use it: keep the adapter, or merge in float32"
        )
    return difference


def _probe(model: RewardModel) -> NDArray[np.float32]:
    """Return the scores of a picture of noise as an edit of another one."""
    noise = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)
    source, candidate = (Image.fromarray(picture) for picture in noise)
    values = model.score(instruction="add noise", references=[source], candidates=[candidate]).values
    return np.asarray(values, dtype=np.float32)
