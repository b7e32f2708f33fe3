"""States of several cases as one batch: what may stand together, and what has no value."""

from __future__ import annotations

import torch
from torch import Tensor

from rl.conditioning import CaseState, Conditioning, form_of
from rl.samplers import noise_for


def make_state(name: str, mask: list[bool] | None) -> CaseState:
    loop = {
        "prompt_embeds": noise_for((name,), (1, 3, 4)),
        "prompt_embeds_mask": None if mask is None else torch.tensor([mask]),
    }
    return CaseState(
        case_id=name,
        workflow=frozenset({"prompt"}),
        loop=loop,
        after={},
        before_latents={},
        sigmas=torch.tensor([1.0, 0.0]),
        latent_shape=(2, 3),
        latent_dtype=torch.float32,
        form=form_of("loop", loop),
    )


def test_a_mask_that_a_pipeline_leaves_out_where_all_tokens_count_stays_out() -> None:
    padded = [True, True, False]
    states = (make_state("a", None), make_state("b", padded), make_state("c", None), make_state("d", padded))
    conditioning = Conditioning((*states, make_state("e", [True] * 3)))
    assert conditioning.rows_by_form() == [[0, 2], [1, 3], [4]]
    without, masked = (conditioning.select(rows).batch("loop") for rows in ([0, 2], [1, 3]))
    assert without["prompt_embeds_mask"] is None
    assert masked["prompt_embeds_mask"].tolist() == [padded, padded]
    for batch, names in ((without, "ac"), (masked, "bd")):
        embeddings: Tensor = batch["prompt_embeds"]
        assert torch.equal(embeddings, torch.cat([noise_for((name,), (1, 3, 4)) for name in names]))
