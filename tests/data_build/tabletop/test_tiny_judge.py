from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForImageTextToText
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLForConditionalGeneration

from data_build.tabletop.draw import draw
from data_build.tabletop.tiny_judge import make_judge_base, make_processor, save_judge_base
from data_build.tabletop.world import Scene, Shape
from rm.reward_model import RewardModel


def test_what_is_saved_loads_as_any_vision_language_model_and_as_a_judge(tmp_path: Path) -> None:
    torch.manual_seed(0)
    processor = make_processor()
    base = make_judge_base(processor, hidden=64, layers=2)
    save_judge_base(tmp_path, base, processor)
    stock = AutoModelForImageTextToText.from_pretrained(tmp_path)
    assert isinstance(stock, Qwen3VLForConditionalGeneration)
    assert all(torch.equal(a, b) for a, b in zip(stock.state_dict().values(), base.state_dict().values(), strict=True))
    picture = draw(Scene("white", (Shape("circle", "red", "large", 1, 1),)))
    scores = RewardModel.from_base(tmp_path).score(
        instruction="make the red circle blue", references=[picture], candidates=[picture, draw(Scene("black", ()))]
    )
    assert scores.values.shape == (2, 4)
    assert not torch.equal(scores.values[0], scores.values[1])


def test_candidates_of_one_source_share_their_beginning_at_equal_scores_in_the_shipped_judge(repository: Path) -> None:
    model = RewardModel.from_base(repository / "data_build/tabletop/models/judge")
    source = draw(Scene("white", (Shape("circle", "red", "large", 1, 1),)))
    colours = ("red", "green", "blue", "yellow")
    candidates = [
        draw(Scene("white", (Shape("circle", colour, "large", row, column),)))
        for colour in colours
        for row in (0, 1)
        for column in (0, 2)
    ]
    shared, whole = (
        model.score(
            instruction="make the red circle blue", references=[source], candidates=candidates, share_prefix=share
        ).values
        for share in (True, False)
    )
    assert whole.std(dim=0).min() > 1e-2
    torch.testing.assert_close(shared, whole, atol=1e-4, rtol=0)
