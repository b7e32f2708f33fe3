"""`ApiVLM` against a real server that misbehaves on request: nothing is lost, reordered, asked twice or made up."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from gnomon.errors import UserError
from rm.vlm.api import ApiVLM
from rm.vlm.conversation import VLM, Conversation, GenerationParameters, Message, Reply
from rm.vlm.wire import data_url
from tests.rm.vlm.server import Answer, ChatServer, Request, Script, completion, error, texts

Serve = Callable[..., ChatServer]


def vlm(server: ChatServer, **settings: Any) -> ApiVLM:
    return ApiVLM(**{"model": "tiny", "base_url": server.url, "backoff": 0.01, "longest_wait": 0.5, **settings})


def ask(text: str, *images: Image.Image) -> Conversation:
    return (Message("user", (*images, text)),)


def replies(model: ApiVLM, *questions: str, **parameters: Any) -> list[Reply]:
    return model.generate([ask(question) for question in questions], GenerationParameters(**parameters))


def first_times(*answers: Answer) -> Script:
    """Give these answers to the first requests, and honest ones to the others."""
    return lambda number, request: answers[number] if number < len(answers) else Answer()


def test_a_request_holds_what_was_asked(serve: Serve) -> None:
    server = serve()

    (reply,) = vlm(server).generate(
        [ask("what?", Image.new("RGB", (2, 2)))], GenerationParameters(max_tokens=7, seed=3)
    )

    assert (reply.text, reply.status, reply.finish_reason, reply.cached) == ("what?", "ok", "stop", False)
    (request,) = server.requests
    assert request["path"] == "/v1/chat/completions"
    assert (request["model"], request["max_tokens"], request["seed"]) == ("tiny", 7, 3)
    assert [part["type"] for part in request["messages"][0]["content"]] == ["image_url", "text"]
    assert "chat_template_kwargs" not in request


def test_five_hundred_answers_that_arrive_out_of_order_find_their_places(serve: Serve) -> None:
    rng = random.Random(0)
    delays = [rng.uniform(0.0, 0.1) for _ in range(1000)]
    trouble = {number: rng.choice((429, 500, 503)) for number in range(0, 500, 11)}

    def script(number: int, request: Request) -> Answer:
        if number in trouble:
            return error(trouble[number], "busy")
        if number % 37 == 1:
            return Answer(drop=True)
        return Answer(delay=delays[number])

    server, questions = serve(script), [f"question {index}" for index in range(500)]

    found = replies(vlm(server, max_concurrency=64), *questions)

    assert [reply.text for reply in found] == questions
    assert {reply.status for reply in found} == {"ok"}
    # How many meet depends on the machine; that they do, and never more than were allowed, does not.
    assert 8 < server.most_at_once <= 64
    failed = sum(number in trouble or number % 37 == 1 for number in range(len(server.requests)))
    assert len(server.requests) == 500 + failed  # every question was answered once


@pytest.mark.parametrize(
    "trouble",
    [
        error(408, "slow"),
        error(425, "too early"),
        error(429, "busy"),
        error(500, "broken"),
        error(503, "down"),
        Answer(drop=True),
        Answer(cut=20),
        Answer(body=completion()[:-30]),
        Answer(body=b"<html>gateway</html>"),
        Answer(body=b'{"error": {"message": "overloaded", "code": 529}}'),
        Answer(body=b'{"choices": []}'),
        Answer(body=b"[]"),
        Answer(delay=3.0),
    ],
    ids=lambda answer: f"{answer.status}{answer.drop}{answer.cut}{answer.delay}{(answer.body or b'')[:12]!r}",
)
def test_what_may_pass_is_tried_again(serve: Serve, trouble: Answer) -> None:
    server = serve(first_times(trouble, trouble))
    (reply,) = replies(vlm(server, timeout=0.3), "still there?")
    assert (reply.text, reply.status) == ("still there?", "ok")
    assert len(server.requests) == 3


def test_retry_after_is_waited_for(serve: Serve) -> None:
    server = serve(first_times(error(429, "busy", **{"Retry-After": "0.4"})))
    (reply,) = replies(vlm(server), "x")
    assert reply.status == "ok"
    assert reply.seconds is not None
    assert reply.seconds >= 0.4


def test_retries_end(serve: Serve) -> None:
    server = serve(lambda number, request: error(500, "broken for good"))
    (reply,) = replies(vlm(server, max_retries=2), "x")
    assert (reply.text, reply.status, reply.usage) == ("", "api_error", None)
    assert "broken for good" in (reply.error or "")
    assert "(3 tries)" in (reply.error or "")
    assert len(server.requests) == 3


def test_one_bad_item_fails_alone_and_at_once(serve: Serve) -> None:
    def script(number: int, request: Request) -> Answer:
        return error(400, "too long") if texts(request)[-1] == "bad" else Answer()

    server = serve(script)
    found = replies(vlm(server), "good", "bad", "fine")

    assert [reply.status for reply in found] == ["ok", "api_error", "ok"]
    assert "HTTP 400" in (found[1].error or "")
    assert len(server.requests) == 3


def test_a_request_that_is_withheld_for_its_content_is_refused(serve: Serve) -> None:
    server = serve(lambda number, request: error(400, "filtered", code="content_filter"))
    (reply,) = replies(vlm(server), "x", schema={"type": "object"})
    assert reply.status == "refused"
    assert len(server.requests) == 1


def test_a_picture_that_cannot_be_sent_fails_alone(serve: Serve) -> None:
    bad = ask("x", Image.new("F", (2, 2)))
    found = vlm(serve()).generate([ask("a"), bad, ask("b")], GenerationParameters())
    assert [reply.status for reply in found] == ["ok", "unreadable_image", "ok"]


@pytest.mark.parametrize(("status", "part"), [(401, "check api_key_variable"), (404, "check base_url")])
def test_a_wrong_key_or_model_stops_before_thousands_fail(serve: Serve, status: int, part: str) -> None:
    server = serve(lambda number, request: error(status, "no such thing"))

    with pytest.raises(UserError, match=part) as caught:
        replies(vlm(server, max_concurrency=4), *map(str, range(200)))

    assert "no such thing" in str(caught.value)
    assert "'tiny'" in str(caught.value)
    assert len(server.requests) <= 8  # those in flight, and at most as many that took their places meanwhile


def test_a_404_of_a_server_that_has_answered_is_one_item_s(serve: Serve) -> None:
    server = serve(lambda number, request: error(404, "gone") if number else Answer())
    found = replies(vlm(server, max_concurrency=1), "a", "b", "c")
    assert [reply.status for reply in found] == ["ok", "api_error", "api_error"]


def test_a_server_that_is_down_does_not_hold_up_thousands() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
    model = ApiVLM(model="tiny", base_url=url, backoff=0.1, max_retries=3, max_concurrency=8)
    started = time.monotonic()

    found = replies(model, *map(str, range(200)))

    assert {reply.status for reply in found} == {"api_error"}
    assert "no whole answer from" in (found[0].error or "")
    assert time.monotonic() - started < 10  # 200 items with 3 waits each at 8 at once would take 15 seconds


def test_a_schema_is_asked_for_and_a_server_without_is_asked_without_and_said_once(serve: Serve) -> None:
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}}
    willing = serve()
    replies(vlm(willing), "x", schema=schema)
    assert willing.requests[0]["response_format"]["json_schema"]["schema"] == schema

    server = serve(lambda number, request: error(400, "no guide") if "response_format" in request else Answer())
    model = vlm(server, max_concurrency=1)
    with pytest.warns(UserWarning, match="takes no JSON schema") as caught:
        found = replies(model, "a", "b", schema=schema)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found += replies(model, "c", schema=schema)

    assert [reply.text for reply in found] == ["a", "b", "c"]
    assert len(caught) == 1
    assert ["response_format" in request for request in server.requests] == [True, False, False, False]


def test_a_400_for_another_reason_is_not_laid_to_the_schema(serve: Serve) -> None:
    def script(number: int, request: Request) -> Answer:
        return error(400, "too long") if texts(request)[-1] == "bad" else Answer()

    server = serve(script)
    found = replies(vlm(server, max_concurrency=1), "bad", "good", schema={"type": "object"})

    assert [reply.status for reply in found] == ["api_error", "ok"]
    assert "response_format" in server.requests[-1]


@pytest.mark.parametrize("thinking", [True, False])
def test_thinking_is_switched_only_where_the_template_knows_it(serve: Serve, thinking: bool) -> None:
    server = serve()
    replies(vlm(server, thinking_switch=True), "x", thinking=thinking)
    assert server.requests[0]["chat_template_kwargs"] == {"enable_thinking": thinking}


def test_fields_of_requests_are_replaced_and_removed(serve: Serve) -> None:
    server = serve()
    replies(vlm(server, extra_body={"max_tokens": None, "max_completion_tokens": 9, "temperature": None}), "x")
    (request,) = server.requests
    assert request["max_completion_tokens"] == 9
    assert not {"max_tokens", "temperature"} & {*request}


def test_choices_get_the_probabilities_of_the_first_token(serve: Serve) -> None:
    listed = [{"token": "Yes", "logprob": -0.1}, {"token": " No", "logprob": -2.5}]
    answer = completion("Yes", finish_reason="length", logprobs={"content": [{"top_logprobs": listed}]})
    server = serve(lambda number, request: Answer(body=answer))

    found = vlm(server).choose([ask("a"), ask("b")], ["Yes", "No"])

    assert [scores.logprobs for scores in found] == [pytest.approx({"Yes": -0.1, "No": -2.5})] * 2
    assert (server.requests[0]["max_tokens"], server.requests[0]["top_logprobs"]) == (1, 20)


def test_choosing_without_logprobs_is_a_status(serve: Serve) -> None:
    (scores,) = vlm(serve()).choose([ask("a")], ["Yes", "No"])
    assert (scores.logprobs, scores.status) == (None, "api_error")
    assert "no logprobs" in (scores.error or "")


@pytest.mark.parametrize("choices", [[], ["a"], ["a", "a"], ["a", ""]])
def test_choices_must_be_told_apart(serve: Serve, choices: list[str]) -> None:
    with pytest.raises(ValueError, match="at least two different choices"):
        vlm(serve()).choose([ask("a")], choices)


def test_a_cached_answer_is_not_asked_again(serve: Serve, tmp_path: Path) -> None:
    server, shown = serve(), Image.new("RGB", (2, 2), "red")
    question, parameters = ask("a", shown), GenerationParameters()
    first = vlm(server, cache=tmp_path, prompt_price=1.0, completion_price=2.0)
    (asked,) = first.generate([question], parameters)
    second = vlm(server, cache=tmp_path, prompt_price=1.0, completion_price=2.0)

    (kept,) = second.generate([ask("a", shown.copy())], parameters)

    assert (kept.cached, asked.cached, len(server.requests)) == (True, False, 1)
    assert (kept.text, kept.usage) == (asked.text, asked.usage)
    assert first.usage_total().cost == pytest.approx((100 + 2 * 10) / 1e6)
    assert second.usage_total().cost == 0.0
    assert second.usage_total().prompt_tokens == 0


def test_whatever_changes_the_answer_is_asked_anew(serve: Serve, tmp_path: Path) -> None:
    server, other = serve(), serve()
    plain = vlm(server, cache=tmp_path)
    asks: list[Callable[[], object]] = [
        lambda: replies(plain, "a"),
        lambda: replies(plain, "b"),
        lambda: plain.generate([ask("a", Image.new("RGB", (2, 2), "red"))], GenerationParameters()),
        lambda: plain.generate([ask("a", Image.new("RGB", (2, 2), "blue"))], GenerationParameters()),
        lambda: replies(plain, "a", seed=1),
        lambda: replies(plain, "a", temperature=0.5),
        lambda: replies(plain, "a", schema={"type": "object"}),
        lambda: replies(vlm(server, cache=tmp_path, model="other"), "a"),
        lambda: replies(vlm(other, cache=tmp_path), "a"),
        lambda: replies(vlm(server, cache=tmp_path, extra_body={"min_p": 0.1}), "a"),
    ]
    for count, act in enumerate(asks, start=1):
        act()
        act()
        assert len(server.requests) + len(other.requests) == count


def test_failures_are_not_kept(serve: Serve, tmp_path: Path) -> None:
    server = serve(first_times(error(400, "not now")))
    model = vlm(server, cache=tmp_path)
    assert replies(model, "a")[0].status == "api_error"
    assert replies(model, "a")[0].status == "ok"


def test_scores_of_choices_are_kept_too(serve: Serve, tmp_path: Path) -> None:
    listed = [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -2.5}]
    answer = completion("A", logprobs={"content": [{"top_logprobs": listed}]})
    server = serve(lambda number, request: Answer(body=answer))
    model = vlm(server, cache=tmp_path)

    (first,), (second,) = (model.choose([ask("a")], ["A", "B"]) for _ in range(2))
    (third,) = model.choose([ask("a")], ["B", "A"])

    assert (first.cached, second.cached, third.cached) == (False, True, False)
    assert first.logprobs == second.logprobs
    assert len(server.requests) == 2


def test_the_key_goes_to_the_server_and_nowhere_else(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-secret-1")
    caplog.set_level("DEBUG")
    echo = first_times(error(400, "you sent sk-secret-1"))
    server = serve(echo)
    model = vlm(server, api_key_variable="JUDGE_KEY", cache=tmp_path)
    fingerprint = model.fingerprint

    bad, good = replies(model, "a"), replies(model, "b")
    monkeypatch.setenv("JUDGE_KEY", "sk-secret-2")
    again = vlm(server, api_key_variable="JUDGE_KEY", cache=tmp_path)

    assert [headers["authorization"] for headers in server.headers] == ["Bearer sk-secret-1"] * 2
    assert again.fingerprint == fingerprint
    assert replies(again, "b")[0].cached
    kept = "".join(path.read_text() for path in tmp_path.rglob("*.json"))
    shown = [str(bad), str(good), kept, caplog.text, repr(vars(model))]
    assert "you sent ***" in str(bad)
    assert not any("sk-secret" in text for text in shown)


def test_a_key_for_openai_goes_to_no_other_server(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(variable, "sk-secret")
    server = serve()
    replies(vlm(server), "a")
    assert "sk-secret" not in json.dumps(server.headers)


def test_works_inside_a_running_loop(serve: Serve) -> None:
    model = vlm(serve())

    async def notebook() -> list[Reply]:
        return replies(model, "a", "b")

    assert [reply.text for reply in asyncio.run(notebook())] == ["a", "b"]


def test_a_picture_in_many_questions_is_encoded_once(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    picture, other = Image.new("RGB", (2, 2)), Image.new("RGB", (3, 3))

    def counted(image: Image.Image) -> str:
        encoded.append(image.width)
        return data_url(image)

    monkeypatch.setattr("rm.vlm.api.data_url", counted)
    server = serve()
    questions = [ask(str(number), picture, *([other] if number % 2 else [])) for number in range(20)]
    found = vlm(server, max_concurrency=20).generate(questions, GenerationParameters())

    assert [reply.text for reply in found] == [str(number) for number in range(20)]
    assert sorted(encoded) == [2, 3]
    shown = {texts(request)[-1]: len(request["messages"][0]["content"]) for request in server.requests}
    assert shown == {str(number): 2 + number % 2 for number in range(20)}


def test_a_picture_that_cannot_be_sent_spoils_only_the_questions_that_show_it(serve: Serve) -> None:
    good, bad = Image.new("RGB", (2, 2)), Image.new("F", (2, 2))
    found = vlm(serve()).generate([ask("a", good, bad), ask("b", good), ask("c", bad)], GenerationParameters())
    assert [reply.status for reply in found] == ["unreadable_image", "ok", "unreadable_image"]


def test_nothing_to_ask_asks_nothing(serve: Serve) -> None:
    server = serve()
    assert replies(vlm(server)) == []
    assert not server.requests


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"base_url": "localhost"}, "expected an address"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"timeout": 0}, "timeout"),
        ({"max_retries": -1}, "max_retries"),
        ({"prompt_price": 1.0}, "both prompt_price and completion_price"),
        ({"api_key_variable": "sk-abc"}, "NAME of an environment variable"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], part: str) -> None:
    with pytest.raises(UserError, match=part):
        ApiVLM(**{"model": "tiny", "base_url": "http://127.0.0.1:1/v1", **settings})


def test_can_be_named_in_a_config() -> None:
    from jsonargparse import ArgumentParser

    parser = ArgumentParser()
    parser.add_argument("--vlm", type=VLM)
    settings: dict[str, Any] = {
        "model": "tiny",
        "base_url": "http://127.0.0.1:1/v1",
        "extra_body": {"max_tokens": None, "x": [1]},
    }
    configs = [
        {"class_path": "rm.vlm.api.ApiVLM", "init_args": settings},
        {"class_path": "rm.vlm.scripted.ScriptedVLM", "init_args": {"rule": "table", "table": {"a": "b"}}},
    ]
    models = [parser.instantiate(parser.parse_object({"vlm": config})).vlm for config in configs]
    assert [model.name for model in models] == ["tiny", "scripted table"]
    assert models[0].fingerprint == ApiVLM(**settings).fingerprint


def test_says_what_to_install_where_the_client_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(UserError, match=r"gnomon\[api\]"):
        replies(ApiVLM(model="tiny", base_url="http://127.0.0.1:1/v1"), "a")


def test_needs_neither_torch_nor_the_client_to_be_imported() -> None:
    code = (
        "import rm.vlm.api, rm.vlm.scripted, sys; sys.exit(bool({'torch', 'aiohttp', 'transformers'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_what_a_server_calls_itself_is_kept_with_each_answer_and_in_the_cache(serve: Serve, tmp_path: Path) -> None:
    listed = [{"token": "A", "logprob": -0.1}]
    plain = json.loads(completion("A", logprobs={"content": [{"top_logprobs": listed}]}))

    def script(number: int, request: Request) -> Answer:
        # By what is asked: requests may arrive in any order.
        named = {"model": "tiny-0325", "system_fingerprint": "fp_1"} if texts(request)[-1] != "b" else {}
        return Answer(body=json.dumps(plain | named).encode())

    model = vlm(serve(script), cache=tmp_path, max_concurrency=1)
    for _ in range(2):  # the second time from the cache
        assert [reply.served_by for reply in replies(model, "a", "b")] == ["tiny-0325 fp_1", None]
    assert model.choose([ask("c")], ["A", "B"])[0].served_by == "tiny-0325 fp_1"
