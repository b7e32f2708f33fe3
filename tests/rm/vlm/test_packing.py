"""Prompts in one sequence have the values and the gradients that they have alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor

from gnomon.errors import UserError
from rm.vlm.conversation import Message
from rm.vlm.inputs import Row, grids_of, position_ids
from rm.vlm.local import LocalVLM
from rm.vlm.packing import PACKABLE, PADDING, SHARED, check_packable, is_packed, pack, unpacked
from tests.rm.vlm.families import FAMILIES

Draw = Callable[..., Image.Image]
packable = pytest.mark.parametrize("family", sorted(PACKABLE))
GROUPS = ["a", "b", "a", "c", "b", "d", "a"]


@pytest.fixture
def rows(make_picture: Draw) -> Callable[[LocalVLM], list[Row]]:
    """A function that makes prompts of four groups, interleaved: with two, one, no and three references."""

    def make(vlm: LocalVLM) -> list[Row]:
        picture = vlm.encoder.pictures()
        sources = {
            "a": [make_picture(1, (48, 32)), make_picture(2, (28, 56))],
            "b": [make_picture(3)],
            "c": [],
            "d": [make_picture(seed) for seed in (4, 5, 6)],
        }
        texts = {"a": "Is the circle red?", "b": "Is the square blue, or is the circle red?", "c": "red", "d": "Answer"}
        sizes = [(32, 32), (56, 28), (28, 56), (40, 40), (32, 32), (48, 32), (32, 32)]
        made = []
        for number, (group, size) in enumerate(zip(GROUPS, sizes, strict=True)):
            images = [*sources[group], make_picture(10 + number, size)]
            message = Message("user", (*images[:-1], texts[group], images[-1], " yes" * (number % 3)))
            made.append(vlm.encoder.row(vlm.prompt_text((message,)), [picture(image) for image in images]))
        return made

    return make


def _read(vlm: LocalVLM, rows: list[Row], *, packed: bool) -> Tensor:
    """Return the last hidden state of each row's last token [rows, hidden]."""
    backbone, ends = vlm._stock.model, [len(row) - 1 for row in rows]
    if packed:
        inputs, (sequences, places) = unpacked(backbone, pack(vlm.encoder, rows, GROUPS, ends))
    else:
        inputs = vlm.encoder.collate(rows)
        inputs["position_ids"] = position_ids(backbone, inputs, grids_of(rows))
        sequences, places = torch.arange(len(rows)), torch.tensor(ends)
    hidden: Tensor = backbone(**inputs, use_cache=False).last_hidden_state[sequences, places]
    return hidden


def _gradients(vlm: LocalVLM, rows: list[Row], *, packed: bool) -> dict[str, Tensor]:
    vlm._stock.requires_grad_(True).zero_grad()
    try:
        hidden = _read(vlm, rows, packed=packed)
        # Not the sum of squares, which the last norm keeps constant.
        (hidden * torch.linspace(-1, 1, hidden.numel()).view_as(hidden)).sum().backward()
        return {name: value.grad.clone() for name, value in vlm._stock.named_parameters() if value.grad is not None}
    finally:
        vlm._stock.zero_grad()
        vlm._stock.requires_grad_(False)


@packable
def test_packed_prompts_have_the_values_of_whole_ones(
    family: str, local_vlm: Callable[[str], LocalVLM], rows: Callable[[LocalVLM], list[Row]]
) -> None:
    vlm = local_vlm(family)
    made = rows(vlm)
    with torch.no_grad():
        whole, packed = _read(vlm, made, packed=False), _read(vlm, made, packed=True)
    assert whole.std(dim=0).min() > 1e-2
    torch.testing.assert_close(packed, whole, atol=1e-5, rtol=1e-4)


@packable
@pytest.mark.parametrize("checkpointing", [False, True])
def test_packed_prompts_have_the_gradients_of_whole_ones(
    family: str, checkpointing: bool, local_vlm: Callable[[str], LocalVLM], rows: Callable[[LocalVLM], list[Row]]
) -> None:
    vlm = local_vlm(family)
    made = rows(vlm)
    expected = _gradients(vlm, made, packed=False)
    if checkpointing:
        vlm._stock.activation_checkpointing_enable({"use_reentrant": False})
        vlm._stock.train()
    try:
        found = _gradients(vlm, made, packed=True)
    finally:
        vlm._stock.activation_checkpointing_disable()
        vlm._stock.eval()
    assert found.keys() == expected.keys()
    assert len(found) > 20
    # A bias of keys has none in theory: it moves all scores of a query alike.
    assert min(value.abs().max() for name, value in expected.items() if "k_proj.bias" not in name) > 1e-4
    for name, value in expected.items():
        torch.testing.assert_close(
            found[name], value, atol=1e-5 * max(1.0, value.abs().max().item()), rtol=1e-3, msg=name
        )


@packable
def test_what_is_shared_stands_there_once(
    family: str, local_vlm: Callable[[str], LocalVLM], rows: Callable[[LocalVLM], list[Row]]
) -> None:
    vlm = local_vlm(family)
    made = rows(vlm)
    inputs = pack(vlm.encoder, made, GROUPS, [len(row) - 1 for row in made])
    assert is_packed(inputs)
    assert inputs["segments"].shape[0] == 4
    arguments, _ = unpacked(vlm._stock.model, inputs)
    placeholder = vlm._stock.config.image_token_id
    shown = int((arguments["input_ids"] == placeholder).sum())
    whole = sum(sum(row.is_picture) for row in made)
    repeated = 2 * sum(picture.tokens for picture in made[0].pictures[:2]) + made[1].pictures[0].tokens
    assert shown == whole - repeated
    first = inputs["segments"][0]
    assert [int(value) for value in first.unique_consecutive() if value != PADDING] == [SHARED, 1, 2, 3]


def test_no_prompt_sees_another(local_vlm: Callable[[str], LocalVLM], rows: Callable[[LocalVLM], list[Row]]) -> None:
    """A change of one candidate changes its own output alone, bit by bit, wherever it lies in the sequence."""
    vlm = local_vlm("qwen3_vl")
    made = rows(vlm)
    with torch.no_grad():
        before = _read(vlm, made, packed=True)
        for changed in (0, 2, 6):
            ids = (*made[changed].ids[:-2], made[changed].ids[-2] + 1, made[changed].ids[-1])
            others = [*made]
            others[changed] = Row(ids, made[changed].is_picture, made[changed].pictures)
            after = _read(vlm, others, packed=True)
            moved = [index for index in range(len(made)) if not torch.equal(before[index], after[index])]
            assert moved == [changed]


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - PACKABLE))
def test_a_family_with_windows_or_states_is_refused(family: str, local_vlm: Callable[[str], LocalVLM]) -> None:
    with pytest.raises(UserError, match=r"expected model\.share_prefix false for"):
        check_packable(local_vlm(family)._stock.config)


@packable
def test_a_tested_family_is_taken_with_full_attention_alone(family: str, local_vlm: Callable[[str], LocalVLM]) -> None:
    config: Any = copy.deepcopy(local_vlm(family)._stock.config)
    check_packable(config)
    config.get_text_config().layer_types = ["full_attention", "sliding_attention"]
    with pytest.raises(UserError, match="sliding_attention"):
        check_packable(config)
