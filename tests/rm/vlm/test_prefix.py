"""Shared beginnings change what a call costs, never what it returns; where they cannot be shared, that is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from rm.vlm import prefix
from rm.vlm.conversation import ChoiceScores, Conversation, Message
from rm.vlm.inputs import Picture, Row
from rm.vlm.local import LocalVLM
from rm.vlm.prefix import MIN_PREFIX, batches, can_fork, shared_length, windows
from tests.rm.vlm.families import FAMILIES

families = pytest.mark.parametrize("family", FAMILIES)


def table(scores: list[ChoiceScores]) -> torch.Tensor:
    return torch.tensor([list((score.logprobs or {}).values()) for score in scores])


@families
@pytest.mark.parametrize("choices", [("yes", "no"), ("yes", "no sir", "no way", "yes it is")])
def test_questions_on_the_same_pictures_are_answered_as_one_by_one(
    family: str, choices: tuple[str, ...], local_vlm: Callable[[str], LocalVLM], questions: list[Conversation]
) -> None:
    vlm = local_vlm(family)
    vlm.share_prefixes = False
    vlm.batch_size = 1
    expected = table(vlm.choose(questions, choices))
    assert expected.std(dim=0).min() > 1e-2, "the question makes no difference"
    vlm.share_prefixes = True
    for size in (1, 3, 16):
        vlm.batch_size = size
        torch.testing.assert_close(table(vlm.choose(questions, choices)), expected, atol=1e-4, rtol=0)


@families
def test_the_pictures_are_read_once(
    family: str, local_vlm: Callable[[str], LocalVLM], questions: list[Conversation]
) -> None:
    vlm = local_vlm(family)
    lengths: list[tuple[int, int]] = []

    def look(_module: Any, _args: Any, inputs: dict[str, Any]) -> None:
        placeholder = vlm._stock.config.image_token_id
        lengths.append((inputs["input_ids"].shape[0], int((inputs["input_ids"] == placeholder).sum())))

    hook = vlm._stock.model.register_forward_pre_hook(look, with_kwargs=True)
    try:
        vlm.choose(questions, ["yes", "no"])
    finally:
        hook.remove()
    (first, tokens), (rest, none) = lengths
    assert (first, rest, none) == (1, len(questions), 0)
    assert tokens > 0


@families
def test_a_group_that_shares_a_picture_and_differs_in_another_is_forked_between_them(
    family: str, local_vlm: Callable[[str], LocalVLM], make_picture: Callable[..., Image.Image]
) -> None:
    """Like candidates of one source: the pictures that differ stand behind the shared ones."""
    vlm = local_vlm(family)
    backbone, encoder = vlm._stock.model, vlm.encoder
    source, sizes = make_picture(1, (48, 32)), ((32, 32), (56, 28), (28, 56))
    picture = encoder.pictures()
    rows = []
    for number, size in enumerate(sizes):
        images = (source, make_picture(10 + number, size))
        text = vlm.prompt_text((Message("user", ("Is the circle red? ", images[0], " Answer ", images[1], "?")),))
        rows.append(encoder.row(text, [picture(image) for image in images]))
    ends = [len(row) - 1 for row in rows]
    found: dict[bool, list[torch.Tensor]] = {}
    for share in (True, False):
        last: dict[int, torch.Tensor] = {}
        offsets = set()
        with torch.no_grad():
            for batch in batches(backbone, encoder, rows, [0, 0, 0], ends, batch_size=3, share=share):
                hidden = backbone(**batch.inputs).last_hidden_state
                offsets.add(batch.offset)
                for place, index in enumerate(batch.indices):
                    last[index] = hidden[place, ends[index] - batch.offset]
        assert (offsets != {0}) == share
        found[share] = [last[index] for index in range(3)]
    torch.testing.assert_close(torch.stack(found[True]), torch.stack(found[False]), atol=1e-4, rtol=1e-4)
    assert (found[True][0] - found[True][1]).abs().max() > 1e-2


def test_short_beginnings_and_single_questions_are_not_forked(
    local_vlm: Callable[[str], LocalVLM], questions: list[Conversation]
) -> None:
    vlm = local_vlm("qwen3_vl")
    rows = [Row((1, 2, 3, 4 + k), (False,) * 4, ()) for k in range(3)]
    backbone = vlm._stock.model
    whole = list(batches(backbone, vlm.encoder, rows, ["a", "a", "b"], [3, 3, 3], batch_size=8))
    assert [(batch.indices, batch.offset) for batch in whole] == [((0, 1, 2), 0)]
    single = vlm.encoder.row(vlm.prompt_text((Message("user", ("Is the circle red or is it blue?",)),)), [])
    assert len(single) > MIN_PREFIX
    alone = list(batches(backbone, vlm.encoder, [single], ["a"], [len(single) - 1], batch_size=8))
    assert [batch.offset for batch in alone] == [0]


def test_a_family_that_nobody_tested_runs_whole_and_says_so_once(
    local_vlm: Callable[[str], LocalVLM], questions: list[Conversation], monkeypatch: pytest.MonkeyPatch
) -> None:
    vlm = local_vlm("qwen3_vl")
    expected = table(vlm.choose(questions, ["yes", "no"]))
    monkeypatch.setattr(prefix, "FORKABLE", frozenset({"other"}))
    monkeypatch.setattr(prefix, "_told", set())
    with pytest.warns(UserWarning, match="'qwen3_vl' models do not share prefixes"):
        found = table(vlm.choose(questions, ["yes", "no"]))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    vlm.choose(questions, ["yes", "no"])  # a second warning would be an error


def test_a_model_whose_tokens_look_ahead_is_not_forked(
    local_vlm: Callable[[str], LocalVLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = local_vlm("gemma3")._stock.config
    assert can_fork(config)
    monkeypatch.setattr(config.text_config, "use_bidirectional_attention", True)
    with pytest.warns(UserWarning, match="attend to later ones"):
        assert not can_fork(config)


def _picture(key: str) -> Picture:
    return Picture(key, "", 2, {})


def test_a_beginning_stops_before_a_picture_that_differs_or_would_be_cut() -> None:
    yes, no = True, False
    first = Row((5, 9, 9, 6, 9, 9, 7), (no, yes, yes, no, yes, yes, no), (_picture("a"), _picture("b")))
    second = Row((5, 9, 9, 6, 9, 9, 8), (no, yes, yes, no, yes, yes, no), (_picture("a"), _picture("c")))
    assert first.spans == [(1, 3), (4, 6)]
    assert shared_length([first, first], 6) == 6
    assert shared_length([first, second], 6) == 4
    assert shared_length([first, first], 5) == 4
    assert shared_length([first, first], 2) == 1
    larger = Row((5, 9, 9, 9, 6), (no, yes, yes, yes, no), (Picture("d", "", 3, {}),))
    assert shared_length([first, larger], 4) == 1
    assert first.head(4).pictures == first.pictures[:1]


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 5))
@settings(deadline=None)
def test_windows_cover_everything_once_and_cut_groups_only_when_they_are_large(groups: list[int], size: int) -> None:
    found = list(windows(groups, size))
    assert [index for window in found for index in window] == list(range(len(groups)))
    for window in found[:-1]:
        assert len(window) >= size
        assert len(window) <= 8 * size
        assert groups[window.stop] != groups[window.stop - 1] or len(window) == 8 * size
