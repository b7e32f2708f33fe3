"""A local model behind the chat-completions API, asked by our own client: the same replies, the same probabilities."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from rm.server.app import create_app
from rm.server.limits import Limits
from rm.vlm.api import ApiVLM
from rm.vlm.conversation import Conversation, GenerationParameters, Message
from rm.vlm.local import LocalVLM
from tests.rm.server.serving import serving

Draw = Callable[..., Image.Image]


@pytest.fixture(scope="module")
def local(base_folder: Path) -> LocalVLM:
    return LocalVLM(base_folder, name="tiny")


@pytest.fixture(scope="module")
def address(local: LocalVLM) -> Iterator[str]:
    with serving(create_app(None, chat=local, limits=Limits(pixels=10_000, images=3))) as url:
        yield url


@pytest.fixture(scope="module")
def conversations(make_picture: Draw) -> list[Conversation]:
    """Conversations with no, one and two pictures, and a system text."""
    return [
        (Message("user", ("make the circle red",)),),
        (Message("system", ("yes and no",)), Message("user", (make_picture(1, (48, 32)), "is the square blue"))),
        (Message("user", ("first", make_picture(2), "second", make_picture(3, (32, 64)))),),
    ]


def test_replies_are_those_of_the_model(address: str, local: LocalVLM, conversations: list[Conversation]) -> None:
    api = ApiVLM(model="tiny", base_url=f"{address}/v1")
    for parameters in (
        GenerationParameters(max_tokens=6),
        GenerationParameters(max_tokens=6, temperature=1.0, top_p=0.9, seed=4),
    ):
        ours, theirs = local.generate(conversations, parameters), api.generate(conversations, parameters)
        assert [reply.text for reply in theirs] == [reply.text.strip() for reply in ours]
        assert [reply.status for reply in theirs] == [reply.status for reply in ours]
        assert [reply.usage for reply in theirs] == [reply.usage for reply in ours]
        assert len({reply.text for reply in ours}) > 1


def test_choices_have_the_probabilities_of_the_model(
    address: str, local: LocalVLM, conversations: list[Conversation]
) -> None:
    """The tiny vocabulary fits into the list of likeliest tokens nearly whole, so both words are in it."""
    listed = [dict(tokens) for tokens in local.first_tokens(conversations, 33) if isinstance(tokens, list)]
    words = [word for word in ("circle", "square", "red", "blue", "yes", "no") if all(word in each for each in listed)]
    exact = local.choose(conversations, words)
    for tokens, scores in zip(listed, exact, strict=True):
        assert scores.logprobs is not None
        for word in words:
            assert tokens[word] == pytest.approx(scores.logprobs[word], abs=1e-4)
    api = ApiVLM(model="tiny", base_url=f"{address}/v1")
    likeliest = [set(list(tokens)[:20]) for tokens in listed]
    seen = [word for word in words if all(word in each for each in likeliest)]
    assert seen, "no word is among the likeliest of all conversations"
    for theirs, ours in zip(api.choose(conversations, words), exact, strict=True):
        assert theirs.logprobs is not None
        assert ours.logprobs is not None
        for word in seen:
            assert theirs.logprobs[word] == pytest.approx(ours.logprobs[word], abs=1e-4)


def _ask(address: str, content: Any, **fields: Any) -> httpx.Response:
    body = {"model": "tiny", "messages": [{"role": "user", "content": content}], "max_tokens": 2, **fields}
    return httpx.post(f"{address}/v1/chat/completions", json=body, timeout=30)


def _url(image: Image.Image) -> dict[str, Any]:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    data = base64.b64encode(buffer.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


@pytest.mark.parametrize(
    ("content", "fields", "message"),
    [
        ("a", {"stream": True}, "stream"),
        ("a", {"n": 2}, "n: "),
        ("a", {"stop": ["x"]}, "stop"),
        ("a", {"tools": [{}]}, "tools"),
        ("a", {"response_format": {"type": "json_object"}}, "response_format"),
        ("a", {"logprobs": True}, "max_tokens to 1"),
        ("a", {"top_logprobs": 21}, "top_logprobs"),
        ("a", {"temperature": -1}, "temperature"),
        (
            [{"type": "image_url", "image_url": {"url": "http://169.254.169.254/secret"}}],
            {},
            "addresses are not fetched",
        ),
        ([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}], {}, "PNG"),
        ([{"type": "text"}], {}, "expected text"),
        ([_url(Image.new("RGB", (200, 200)))], {}, "more than 10,000"),
        ([_url(Image.new("RGB", (32, 32)))] * 4, {}, "at most 3 pictures, got 4"),
    ],
)
def test_what_cannot_be_answered_is_a_4xx_that_says_why(
    address: str, content: Any, fields: dict[str, Any], message: str
) -> None:
    answer = _ask(address, content, **fields)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]
    assert _ask(address, "make the circle red").status_code == 200


def test_the_model_is_listed_and_other_fields_are_ignored(address: str) -> None:
    assert [entry["id"] for entry in httpx.get(f"{address}/v1/models").json()["data"]] == ["tiny"]
    assert httpx.get(f"{address}/health").json()["chat"] == "tiny"
    assert _ask(address, "red", user="me", presence_penalty=0.0).status_code == 200
    assert httpx.post(f"{address}/v1/score", json={}).status_code == 404
