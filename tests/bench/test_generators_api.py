"""The images API against a real server that misbehaves on request: every case gets its picture, or says why not."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import bench.generators_api
from bench.generators import Failure
from bench.generators_api import ImagesApiGenerator
from bench.workflow import generate
from gnomon.cli import main
from gnomon.datasets import write_records
from gnomon.errors import UserError
from gnomon.images import load_image
from gnomon.records import Case, Text
from rm.service import read_picture
from tests.bench.images_server import ImagesServer, colour_of, file_of, picture_answer, url_answer
from tests.rm.vlm.server import Answer, Request, Script, error

Serve = Callable[..., ImagesServer]
KEY = "sk-secret-of-this-test-0123456789"


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers = []

    def start(script: Script | None = None) -> ImagesServer:
        servers.append(ImagesServer(script))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def generator(server: ImagesServer, **settings: Any) -> ImagesApiGenerator:
    return ImagesApiGenerator(
        **{"model": "m", "base_url": server.url, "backoff": 0.01, "longest_wait": 0.3, **settings}
    )


def case(name: str) -> Case:
    return Case(id=name, benchmark="b", task="t", instruction=Text(en=name, zh=f"画{name}"))


def make(model: ImagesApiGenerator, *names: str, references: list[Image.Image] | None = None) -> list[Any]:
    return model.generate([case(name) for name in names], [references or []] * len(names), list(range(len(names))))


def colour(picture: Any) -> Any:
    assert isinstance(picture, Image.Image), picture
    return picture.getpixel((0, 0))


def first_times(*answers: Answer) -> Script:
    return lambda number, request: answers[number] if number < len(answers) else Answer()


def test_a_case_without_references_is_generated_and_one_with_some_is_edited(serve: Serve) -> None:
    server, references = serve(), [Image.new("RGB", (4, 2), name) for name in ("red", "lime", "blue")]
    model = generator(server, parameters={"size": "64x64", "quality": "high"})
    assert colour(make(model, "a cat")[0]) == colour_of("a cat")
    assert colour(make(model, "a dog", references=references)[0]) == colour_of("a dog")
    assert make(model, "a bird", references=references[:1])

    text, several, single = server.requests
    assert text["path"] == "/v1/images/generations"
    assert {name: text[name] for name in ("model", "prompt", "n", "size", "quality")} == {
        "model": "m", "prompt": "a cat", "n": 1, "size": "64x64", "quality": "high"
    }  # fmt: skip
    assert "seed" not in text
    assert several["path"] == "/v1/images/edits"
    assert {name: several[name] for name in ("model", "prompt", "n", "size", "quality")} == {
        "model": "m", "prompt": "a dog", "n": "1", "size": "64x64", "quality": "high"
    }  # fmt: skip
    assert several["image_field"] == "image[]"
    sent = [(kind, read_picture(content)) for _, kind, content in several["image"]]
    assert [(kind, picture.size, picture.getpixel((0, 0))) for kind, picture in sent] == [
        ("image/png", (4, 2), (255, 0, 0)), ("image/png", (4, 2), (0, 255, 0)), ("image/png", (4, 2), (0, 0, 255))
    ]  # fmt: skip
    assert len({name for name, _, _ in several["image"]}) == 3
    assert len(single["image"]) == 1


def test_the_language_of_instructions_and_the_seed_are_settings(serve: Serve) -> None:
    server = serve()
    make(generator(server, language="zh", send_seed=True), "x")
    assert (server.requests[0]["prompt"], server.requests[0]["seed"]) == ("画x", 0)
    make(generator(server, language="mixed"), *map(str, range(20)))
    chinese = [request["prompt"].startswith("画") for request in server.requests[1:]]
    assert 0 < sum(chinese) < 20
    generator(server, send_seed=True).generate([case("y")], [[]], [2**62 + 5])
    assert server.requests[-1]["seed"] == 5


def test_pictures_that_arrive_out_of_order_find_their_cases_and_no_more_are_asked_for_at_once(serve: Serve) -> None:
    rng = random.Random(0)
    trouble = {number: rng.choice((429, 500, 503)) for number in range(0, 60, 7)}

    def script(number: int, request: Request) -> Answer:
        if number in trouble:
            return error(trouble[number], "busy")
        return Answer(drop=number % 13 == 1, delay=rng.uniform(0.0, 0.1))

    server, names = serve(script), [f"case {index}" for index in range(60)]
    made = make(generator(server, max_concurrency=6), *names)
    assert [colour(picture) for picture in made] == [colour_of(name) for name in names]
    assert 2 <= server.most_at_once <= 6


@pytest.mark.parametrize(
    "trouble",
    [
        error(408, "slow"),
        error(429, "busy"),
        error(500, "broken"),
        Answer(drop=True),
        Answer(cut=20),
        Answer(delay=3.0),
        Answer(body=picture_answer(b"x")[:-9]),
        Answer(body=b"<html>gateway</html>"),
        Answer(body=b'{"error": {"message": "overloaded"}}'),
        Answer(body=b'{"data": []}'),
        Answer(body=b'{"data": [{"b64_json": null}]}'),
        Answer(body=b'{"data": ["x"]}'),
    ],
    ids=lambda answer: f"{answer.status}{answer.drop}{answer.cut}{answer.delay}{(answer.body or b'')[:12]!r}",
)
def test_what_may_pass_is_tried_again(serve: Serve, trouble: Answer) -> None:
    server = serve(first_times(trouble, trouble))
    assert colour(make(generator(server, timeout=0.5), "still there?")[0]) == colour_of("still there?")
    assert len(server.requests) == 3


def test_the_server_says_how_long_to_wait(serve: Serve) -> None:
    server = serve(first_times(error(429, "busy", **{"Retry-After": "0.2"})))
    start = time.monotonic()
    assert colour(make(generator(server), "x")[0]) == colour_of("x")
    assert time.monotonic() - start >= 0.2


def test_trouble_that_does_not_pass_is_an_api_error_of_its_case_alone(serve: Serve) -> None:
    def script(number: int, request: Request) -> Answer:
        return error(500, "broken for good") if request["prompt"] == "bad" else Answer()

    server = serve(script)
    good, bad, other = make(generator(server, max_retries=2), "good", "bad", "other")
    assert bad == Failure("api_error", "HTTP 500: broken for good (3 tries)")
    assert (colour(good), colour(other)) == (colour_of("good"), colour_of("other"))
    assert len(server.requests) == 5


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation", "moderation_blocked", "contentFilter"])
def test_a_request_withheld_for_its_content_is_refused_and_asked_once(serve: Serve, code: str) -> None:
    server = serve(first_times(error(400, "not allowed", code)))
    assert make(generator(server), "x") == [Failure("refused", "HTTP 400: not allowed")]
    assert len(server.requests) == 1


def test_another_refusal_is_an_api_error_and_asked_once(serve: Serve) -> None:
    server = serve(first_times(error(400, "size is too large", "invalid_value")))
    assert make(generator(server), "x") == [Failure("api_error", "HTTP 400: size is too large")]
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        picture_answer(b"<svg/>"),
        picture_answer(file_of((1, 2, 3))[:45]),
        picture_answer(file_of((1, 2, 3), "GIF")),
        b'{"data": [{"b64_json": "no base64!"}]}',
    ],
    ids=["svg", "cut", "gif", "text"],
)
def test_a_file_that_is_no_picture_is_unreadable_and_not_paid_for_twice(serve: Serve, body: bytes) -> None:
    server = serve(first_times(Answer(body=body)))
    (failure,) = make(generator(server), "x")
    assert failure.status == "unreadable_image"
    assert failure.reason.startswith("not a picture from the server: ")
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_other_kinds_of_files_are_read(serve: Serve, kind: str) -> None:
    server = serve(first_times(Answer(body=picture_answer(file_of((200, 200, 200), kind)))))
    assert max(abs(level - 200) for level in colour(make(generator(server), "x")[0])) < 3


def test_an_address_is_followed_only_when_asked_and_gets_no_key(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGES_KEY", KEY)
    server = serve()
    server.files["/picture.png?signature=secret"] = file_of((9, 8, 7))
    host = server.url.removesuffix("/v1")
    server.script = lambda number, request: Answer(body=url_answer(f"{host}/picture.png?signature=secret"))

    (failure,) = make(generator(server, api_key_variable="IMAGES_KEY"), "x")
    assert failure.status == "api_error"
    assert "follow_urls: true" in failure.reason
    assert server.fetched == []
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"

    assert colour(make(generator(server, api_key_variable="IMAGES_KEY", follow_urls=True), "x")[0]) == (9, 8, 7)
    assert "authorization" not in server.fetched[0]


@pytest.mark.parametrize(
    ("address", "status", "named"),
    [
        ("file:///etc/passwd", "api_error", "not of http or https"),
        ("http://[", "api_error", "not of http or https"),
        (
            "http://127.0.0.1:9/x?signature=secret",
            "api_error",
            "no whole picture from 127.0.0.1: ConnectError (2 tries)",
        ),
        ("/nothing", "unreadable_image", "not a picture"),
    ],
)
def test_an_address_that_leads_nowhere_is_a_failure(serve: Serve, address: str, status: str, named: str) -> None:
    server = serve()
    address = server.url.removesuffix("/v1") + address if address.startswith("/") else address
    server.script = lambda number, request: Answer(body=url_answer(address))
    (failure,) = make(generator(server, follow_urls=True, max_retries=1), "x")
    assert failure.status == status
    assert named in failure.reason
    assert "secret" not in failure.reason
    assert len(server.requests) == 1  # the picture that was made is not made again


def test_a_file_that_is_too_large_is_not_read(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.generators_api, "MAX_PICTURE_BYTES", 10)
    server = serve()
    server.files["/large.png"] = file_of((1, 2, 3))
    server.script = lambda number, request: Answer(body=url_answer(server.url.removesuffix("/v1") + "/large.png"))
    (failure,) = make(generator(server, follow_urls=True), "x")
    assert "larger than" in failure.reason


def test_a_wrong_key_or_model_stops_the_run(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGES_KEY", KEY)
    server = serve(lambda number, request: error(401, f"wrong key {KEY}"))
    with pytest.raises(UserError, match=r"the key in IMAGES_KEY") as raised:
        make(generator(server, api_key_variable="IMAGES_KEY"), "x", "y")
    assert KEY not in str(raised.value)
    server = serve(lambda number, request: error(404, "no such model"))
    with pytest.raises(UserError, match="for the model 'm', got HTTP 404"):
        make(generator(server), "x")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"base_url": "http://user:password@host/v1"}, "without user and password"),
        ({"base_url": "host"}, "base_url"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"timeout": 0.0}, "timeout"),
        ({"max_retries": -1}, "max_retries"),
        ({"language": "fr"}, "'fr'"),
        ({"parameters": {"prompt": "x", "n": 2}}, "without n, prompt"),
        ({"parameters": {"seed": 1}, "send_seed": True}, "without seed"),
        ({"api_key_variable": "NO_SUCH_KEY"}, "NO_SUCH_KEY"),
        ({"api_key_variable": KEY}, "NAME of an environment variable"),
    ],
)
def test_a_wrong_setting_is_named(serve: Serve, settings: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=named) as raised:
        generator(serve(), **settings)
    assert "password@" not in str(raised.value)
    assert KEY not in str(raised.value)


def test_the_fingerprint_tells_what_decides_pictures_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGES_KEY", KEY)

    def fingerprint(**settings: Any) -> str:
        return ImagesApiGenerator(**{"model": "m", "base_url": "http://host/v1", **settings}).fingerprint

    same: list[dict[str, Any]] = [
        {},
        {"base_url": "http://host/v1/"},
        {"api_key_variable": "IMAGES_KEY"},
        {"timeout": 1.0},
    ]
    others: list[dict[str, Any]] = [
        {"model": "n"}, {"base_url": "http://other/v1"}, {"parameters": {"size": "1x1"}}, {"language": "zh"},
        {"send_seed": True},
    ]  # fmt: skip
    assert len({fingerprint(**settings) for settings in same}) == 1
    assert len({fingerprint(**settings) for settings in [{}, *others]}) == 1 + len(others)


def test_a_run_from_the_command_line_is_finished_by_the_same_command_and_holds_no_key(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IMAGES_KEY", KEY)
    write_records(tmp_path / "cases/cases.jsonl", [case(name) for name in ("one", "two", "three")])
    server = serve(lambda number, request: error(500, "broken") if request["prompt"] == "two" else Answer())
    config: dict[str, Any] = {
        "class_path": "bench.generators_api.ImagesApiGenerator",
        "init_args": {"model": "m", "base_url": server.url, "api_key_variable": "IMAGES_KEY", "max_retries": 0},
    }
    (tmp_path / "config.yaml").write_text(json.dumps({"generator": config}))
    flags = ["--cases", str(tmp_path / "cases"), "--out", str(tmp_path / "run"), "--name", "m"]
    command = ["bench", "generate", "--config", str(tmp_path / "config.yaml"), *flags]
    assert main(command) == 0
    assert "3 candidates of 3 cases" in capsys.readouterr().out
    server.script = lambda number, request: Answer()
    asked = len(server.requests)
    assert main(command) == 0
    assert ", 0 failed" in capsys.readouterr().out
    assert [request["prompt"] for request in server.requests[asked:]] == ["two"]
    assert colour(load_image(tmp_path / "run/images/two_0.png")) == colour_of("two")
    for file in (path for path in (tmp_path / "run").rglob("*") if path.is_file()):
        assert KEY.encode() not in file.read_bytes()


def test_a_run_counts_refusals_and_errors(serve: Serve, tmp_path: Path) -> None:
    answers: dict[str, Answer] = {"one": error(400, "no", "content_filter"), "two": error(400, "bad size")}
    server = serve(lambda number, request: answers.get(request["prompt"], Answer()))
    write_records(tmp_path / "cases/cases.jsonl", [case(name) for name in ("one", "two", "three")])
    run = generate(tmp_path / "cases", tmp_path / "run", generator(server), name="m")
    assert [candidate.status for candidate in run.candidates()] == ["refused", "api_error", "ok"]


def test_no_picture_that_is_there_is_paid_for_again(serve: Serve, tmp_path: Path) -> None:
    server, names = serve(), [f"case {number}" for number in range(6)]
    write_records(tmp_path / "cases/cases.jsonl", [case(name) for name in names])
    run = tmp_path / "run"
    generate(tmp_path / "cases", run, generator(server), name="m", batch_size=2)
    lines = (run / "candidates.jsonl").read_text().splitlines(keepends=True)
    (run / "candidates.jsonl").write_text("".join(lines[:3]))  # killed while the second batch was recorded
    server.requests.clear()
    generate(tmp_path / "cases", run, generator(server), name="m", batch_size=6)
    assert sorted(request["prompt"] for request in server.requests) == names[3:]
    assert (run / "candidates.jsonl").read_text() == "".join(lines)
