"""What goes over the wire and what is read from it, by hand-written bodies."""

from __future__ import annotations

import base64
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from gnomon.images import load_image
from rm.vlm.conversation import GenerationParameters, Message, Usage
from rm.vlm.wire import (
    Prices,
    adjusted,
    chat_messages,
    choice_fields,
    conversation_hash,
    read_choice_scores,
    read_reply,
    reply_fields,
)
from tests.rm.vlm.server import completion


def picture(seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (5, 7, 3), dtype=np.uint8))


def body(*args: Any, **kwargs: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(completion(*args, **kwargs))
    return loaded


def listed(*pairs: tuple[str, float]) -> dict[str, Any]:
    tokens = [{"token": token, "logprob": math.log(probability)} for token, probability in pairs]
    return {"content": [{"token": pairs[0][0], "logprob": 0.0, "top_logprobs": tokens}]}


def test_parts_keep_their_order_and_pictures_their_pixels() -> None:
    first, second = picture(1), picture(2)
    conversation = (Message("system", ("rules",)), Message("user", ("before", first, "between", second)))

    system, user = chat_messages(conversation)

    assert system == {"role": "system", "content": "rules"}
    assert [part["type"] for part in user["content"]] == ["text", "image_url", "text", "image_url"]
    for part, expected in ((user["content"][1], first), (user["content"][3], second)):
        head, _, data = part["image_url"]["url"].partition(",")
        assert head == "data:image/png;base64"
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))), np.asarray(expected))


def test_a_picture_is_sent_as_what_it_says_whatever_its_file_was(tmp_path: Path) -> None:
    """A JPEG under the name of a PNG is a picture that some servers refuse and others misread."""
    picture().save(tmp_path / "photo.jpg")
    loaded = load_image(tmp_path / "photo.jpg")
    (message,) = chat_messages((Message("user", ("look", loaded)),))
    head, _, data = message["content"][1]["image_url"]["url"].partition(",")
    sent = Image.open(io.BytesIO(base64.b64decode(data)))
    assert (head, sent.format) == ("data:image/png;base64", "PNG")
    assert np.array_equal(np.asarray(sent), np.asarray(loaded))


def test_the_hash_tells_apart_whatever_a_model_can_tell_apart() -> None:
    shown = picture()
    conversations = [
        (Message("user", ("a", "b")),),
        (Message("user", ("ab",)),),
        (Message("user", ("b", "a")),),
        (Message("system", ("a", "b")),),
        (Message("user", ("a",)), Message("user", ("b",))),
        (Message("user", ("a", shown)),),
        (Message("user", (shown, "a")),),
        (Message("user", ("a", picture(1))),),
    ]
    assert len({conversation_hash(conversation) for conversation in conversations}) == len(conversations)
    assert conversation_hash(conversations[5]) == conversation_hash((Message("user", ("a", shown.copy())),))


def test_fields_follow_the_parameters() -> None:
    schema = {"type": "object"}
    parameters = GenerationParameters(max_tokens=5, temperature=0.5, top_p=0.9, seed=3, thinking=True, schema=schema)

    fields = reply_fields(parameters, thinking_switch=True)

    assert fields.pop("response_format")["json_schema"]["schema"] == schema
    template = {"enable_thinking": True}
    expected = {"max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "seed": 3, "chat_template_kwargs": template}
    assert fields == expected
    plain = reply_fields(GenerationParameters(seed=None, thinking=True), thinking_switch=False)
    assert {*plain} == {"max_tokens", "temperature", "top_p"}
    assert choice_fields(7, thinking_switch=True)["chat_template_kwargs"] == {"enable_thinking": False}
    assert choice_fields(7, thinking_switch=False)["top_logprobs"] == 7


def test_extra_fields_replace_and_remove() -> None:
    assert adjusted({"max_tokens": 5, "top_p": 1.0}, {"max_tokens": None, "x": 1}) == {"top_p": 1.0, "x": 1}


@pytest.mark.parametrize(
    ("answer", "text", "status"),
    [
        (body("fine"), "fine", "ok"),
        (body(None), "", "ok"),
        (body([{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]), "in parts", "ok"),
        (body("half a", finish_reason="length"), "half a", "truncated"),
        (body("", finish_reason="content_filter"), "", "refused"),
        (body(None, refusal="I will not"), "", "refused"),
        (body("fine", refusal=None), "fine", "ok"),
        (body("fine", finish_reason="tool_calls"), "fine", "ok"),
    ],
)
def test_a_reply_has_the_status_of_its_ending(answer: dict[str, Any], text: str, status: str) -> None:
    reply = read_reply(answer)
    assert (reply.text, reply.status) == (text, status)
    assert (reply.error is None) == (status == "ok")


@pytest.mark.parametrize(
    "answer",
    [
        body("answer", reasoning_content="why"),
        body("answer", reasoning="why"),
        body("<think>why</think>answer"),
        body("why</think>\nanswer"),
    ],
)
def test_thinking_is_told_apart_wherever_a_server_puts_it(answer: dict[str, Any]) -> None:
    reply = read_reply(answer)
    assert (reply.text, reply.thinking) == ("answer", "why")


def test_a_thought_that_was_cut_off_is_no_answer() -> None:
    reply = read_reply(body("<think>so far", finish_reason="length"))
    assert (reply.text, reply.thinking, reply.status) == ("", "so far", "truncated")


def test_tokens_cost_their_price() -> None:
    # 100 * 2 $/M + 10 * 30 $/M = 0.0005 $
    usage = read_reply(body(), Prices(2.0, 30.0)).usage
    assert usage == Usage(100, 10, pytest.approx(0.0005))  # type: ignore[arg-type]
    assert read_reply(body()).usage == Usage(100, 10, None)
    assert read_reply({**body(), "usage": None}).usage is None


def test_choices_add_up_their_tokens_and_the_others_get_what_is_left() -> None:
    # "Yes" is spelt twice (0.5 + 0.2), "N" alone begins "No"; nothing is listed for "Maybe": the list leaves 0.06, its
    # least likely token has 0.04.
    logprobs = listed(("Yes", 0.5), (" Yes", 0.2), ("N", 0.2), ("The", 0.04))
    scores = read_choice_scores(body("Yes", finish_reason="length", logprobs=logprobs), ["Yes", "No", "Maybe"])

    assert scores.status == "ok"
    assert scores.logprobs is not None
    assert {choice: math.exp(value) for choice, value in scores.logprobs.items()} == pytest.approx(
        {"Yes": 0.7, "No": 0.2, "Maybe": 0.04}
    )


def test_what_is_not_listed_gets_no_more_than_the_rest_of_the_mass() -> None:
    scores = read_choice_scores(body(logprobs=listed(("Yes", 0.9), ("The", 0.08))), ["Yes", "No"])
    assert scores.logprobs is not None
    assert math.exp(scores.logprobs["No"]) == pytest.approx(0.02)


@given(
    st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=6),
    st.floats(0.1, 1.0),
    st.sampled_from([["A", "B"], ["A", "B", "C", "D"]]),
)
def test_no_choice_is_likelier_than_its_list_allows(weights: list[float], share: float, choices: list[str]) -> None:
    masses = [weight / sum(weights) * share for weight in weights]
    pairs = list(zip(["A", "B", "x", "y", "z", "w"], masses, strict=False))

    scores = read_choice_scores(body(logprobs=listed(*pairs)), choices)

    assert scores.logprobs is not None
    assert {*scores.logprobs} == {*choices}
    for token, mass in pairs[:2]:
        if token in choices:
            assert math.exp(scores.logprobs[token]) == pytest.approx(mass)
    for choice in choices[len(masses) :]:
        if choice not in dict(pairs):
            assert math.exp(scores.logprobs[choice]) <= min(masses) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("answer", "choices", "status", "part"),
    [
        (body("Yes"), ["Yes", "No"], "api_error", "no logprobs"),
        (body("Yes", logprobs={"content": []}), ["Yes", "No"], "api_error", "no logprobs"),
        (body("1", logprobs=listed(("1", 0.9))), ["1", "10"], "api_error", "'1' begins the choices ['1', '10']"),
        (body(logprobs=listed(("<think>", 0.99))), ["Yes", "No"], "parse_error", "<think>"),
        (body(None, refusal="I will not"), ["Yes", "No"], "refused", "I will not"),
    ],
)
def test_no_probabilities_are_made_up(answer: dict[str, Any], choices: list[str], status: str, part: str) -> None:
    scores = read_choice_scores(answer, choices)
    assert (scores.logprobs, scores.status) == (None, status)
    assert part in (scores.error or "")
