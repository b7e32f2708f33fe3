"""The arithmetic of batches."""

from __future__ import annotations

from typing import Any

import pytest

from gnomon.errors import UserError
from rl.settings import RolloutSettings


def test_the_layout_of_the_tabletop_recipe() -> None:
    settings = RolloutSettings(num_prompts=8, num_candidates=12, micro_batch_size=48, window_size=3)
    assert settings.num_samples == 96
    assert settings.num_micro_batches == 6
    assert "3 per optimizer step = 2 optimizer steps per iteration" in settings.layout(3)


def test_accumulation_that_leaves_a_smaller_last_step_is_refused() -> None:
    with pytest.raises(UserError, match="accumulate_grad_batches to divide the 6 micro-batches"):
        RolloutSettings().layout(4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_candidates": 1}, "num_candidates >= 2"),
        ({"num_prompts": 0}, "num_prompts >= 1"),
        ({"micro_batch_size": 36}, "divides .* 8 x 12 = 96, got 36"),
        ({"noise_level": 0.0}, "noise_level"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        RolloutSettings(**change)
