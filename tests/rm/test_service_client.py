"""The client against a real HTTP server that misbehaves on request: nothing is lost, reordered or made up."""

from __future__ import annotations

import asyncio
import json
import pickle
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from PIL import Image

from gnomon.errors import UserError
from rm.background import run_to_end
from rm.service import ScoreRequest, ScoreResponse, ScoreResult, decode_picture
from rm.service_client import MAX_ANSWER_BYTES, ScoreClient, ScoreTask


@dataclass
class Reply:
    """An answer: `body` None for the honest one; `cut` bytes of it are promised and not sent."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    delay: float = 0.0
    drip: float = 0.0
    cut: int = 0


Script = Callable[[int, dict[str, Any]], Reply]


def honest(number: int, request: dict[str, Any]) -> Reply:
    return Reply()


class Service(ThreadingHTTPServer):
    """Scores a picture by the value of its first pixel; `script` says how the n-th request (from 0) is answered."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.script: Script = honest
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.closing = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that hangs up is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        service = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with service.lock:
            number = len(service.requests)
            service.requests.append(request)
            service.headers.append(dict(self.headers))
            service.at_once += 1
            service.most_at_once = max(service.most_at_once, service.at_once)
        reply = service.script(number, request)
        service.closing.wait(reply.delay)
        with service.lock:
            service.at_once -= 1
        body = score(request) if reply.body is None else reply.body
        self.send_response(reply.status)
        for name, value in ({"Content-Length": str(len(body))} | reply.headers).items():
            self.send_header(name, value)
        self.end_headers()
        if reply.drip:
            for place in range(len(body)):
                self.wfile.write(body[place : place + 1])
                service.closing.wait(reply.drip)
        else:
            self.wfile.write(body[: len(body) - reply.cut])

    def log_message(self, format: str, *args: object) -> None:
        """Keep the output of the tests clean."""


def score(request: dict[str, Any]) -> bytes:
    """Return the honest answer, its results in another order than the items."""
    checked = ScoreRequest.model_validate(request)
    results = [
        ScoreResult(
            id=item.id,
            scores={
                "overall": level(item.candidate),
                "references": float(len(item.references)),
                "source": level(item.references[0]) if item.references else -1.0,
                "words": float(item.instruction.removeprefix("number ")),
            },
        )
        for item in checked.items
    ]
    random.Random(len(results)).shuffle(results)
    return ScoreResponse(results=results).model_dump_json().encode()


def level(encoded: str) -> float:
    red, green, _ = decode_picture(encoded).getpixel((0, 0))  # type: ignore[misc]
    return float(256 * red + green)


@pytest.fixture
def service() -> Iterator[Service]:
    running = Service()
    yield running
    running.closing.set()
    running.shutdown()
    running.server_close()


def numbered(value: int) -> Image.Image:
    return Image.new("RGB", (4, 4), (value // 256, value % 256, 0))


def tasks(count: int) -> list[ScoreTask]:
    """Every fifth has two references, the others one of their own or none."""
    return [
        ScoreTask(
            f"{row}:case",
            f"number {row}",
            [numbered(row + 1000)] * (2 if row % 5 == 0 else row % 2),
            numbered(row),
            {"row": row},
        )
        for row in range(count)
    ]


def client(service: Service, **settings: Any) -> ScoreClient:
    return ScoreClient(service.url, **{"backoff": 0.01, "timeout": 5.0, "max_retries": 3, **settings})


def assert_all_right(results: list[ScoreResult]) -> None:
    for row, result in enumerate(results):
        assert result.error is None
        references = 2 if row % 5 == 0 else row % 2
        source = row + 1000 if references else -1
        expected = {"overall": row, "references": references, "source": source, "words": row}
        assert (result.id, result.scores) == (f"{row}:case", expected)


def test_150_pictures_keep_their_rows_whatever_order_the_answers_come_in(service: Service) -> None:
    delays = random.Random(0)
    service.script = lambda number, request: Reply(delay=delays.uniform(0, 0.03))
    assert_all_right(client(service, chunk_size=8, max_concurrency=5).score(tasks(150)))
    assert [len(request["items"]) for request in service.requests].count(8) == 18
    assert len(service.requests) == 19
    assert {request["dimensions"] for request in service.requests} == {None}
    (first,) = [item for request in service.requests for item in request["items"] if item["id"] == "7:case"]
    assert first["meta"] == {"row": 7}


def test_no_more_requests_are_under_way_than_allowed(service: Service) -> None:
    service.script = lambda number, request: Reply(delay=0.03)
    assert_all_right(client(service, chunk_size=1, max_concurrency=3).score(tasks(12)))
    assert service.most_at_once == 3


def test_many_requests_are_all_under_way_and_none_waits_for_a_connection_until_its_time_is_up(
    service: Service,
) -> None:
    everyone = threading.Barrier(110)  # more than httpx allows by default

    def meet(number: int, request: dict[str, Any]) -> Reply:
        everyone.wait(timeout=20)
        return Reply()

    service.script = meet
    results = client(service, chunk_size=1, max_concurrency=110, timeout=20.0, max_retries=0).score(tasks(110))
    assert_all_right(results)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_failure_that_may_pass_is_tried_again_and_loses_nothing(service: Service, status: int) -> None:
    service.script = lambda number, request: Reply(status if number in (0, 1, 3) else 200)
    assert_all_right(client(service, chunk_size=4, max_concurrency=2).score(tasks(12)))
    assert len(service.requests) == 3 + 3


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404, 413, 422])
def test_a_refusal_is_not_asked_again_and_names_what_the_service_said(service: Service, status: int) -> None:
    refusal = Reply(status, headers={"Location": f"{service.url}/elsewhere"}, body=b"  too \n\x00 bad")
    service.script = lambda number, request: refusal if number == 0 else Reply()
    results = client(service, chunk_size=4, max_concurrency=1).score(tasks(8))
    assert [result.error for result in results[:4]] == [f"HTTP {status}: too bad"] * 4
    assert [result.scores["overall"] for result in results[4:] if result.scores] == [4, 5, 6, 7]
    assert len(service.requests) == 2


def test_as_long_is_waited_as_the_service_asks(service: Service) -> None:
    service.script = lambda number, request: Reply(429, {"Retry-After": "1"}) if number == 0 else Reply()
    start = time.monotonic()
    assert_all_right(client(service).score(tasks(3)))
    assert time.monotonic() - start >= 1.0


def test_but_no_longer_than_allowed(service: Service) -> None:
    service.script = lambda number, request: Reply(429, {"Retry-After": "86400"}) if number == 0 else Reply()
    assert_all_right(client(service, longest_wait=0.05).score(tasks(3)))


@pytest.mark.parametrize("header", ["9" * 400, "Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "soon", "-1"])
def test_a_retry_after_that_makes_no_sense_is_no_reason_to_lose_anything(service: Service, header: str) -> None:
    service.script = lambda number, request: Reply(503, {"Retry-After": header}) if number == 0 else Reply()
    assert_all_right(client(service).score(tasks(3)))


def test_waiting_draws_nothing_from_the_users_random_numbers(service: Service) -> None:
    service.script = lambda number, request: Reply(503 if number == 0 else 200)
    random.seed(3)
    before = random.getstate()
    assert_all_right(client(service).score(tasks(3)))
    assert random.getstate() == before


@pytest.mark.parametrize("slow", [Reply(delay=600), Reply(drip=0.2)])
def test_an_answer_that_takes_too_long_is_asked_for_again(service: Service, slow: Reply) -> None:
    # Dripping never lets the connection fall silent, but takes minutes for the whole answer.
    service.script = lambda number, request: slow if number == 0 else Reply()
    assert_all_right(client(service, timeout=0.8).score(tasks(4)))
    assert len(service.requests) == 2


def test_an_answer_that_never_comes_in_time_is_an_error_of_its_items(service: Service) -> None:
    service.script = lambda number, request: Reply(delay=600 if request["items"][0]["id"] == "0:case" else 0.0)
    start = time.monotonic()
    results = client(service, timeout=0.8, max_retries=1, chunk_size=2).score(tasks(4))
    assert time.monotonic() - start < 15
    assert [result.error for result in results] == ["no answer within 0.8 seconds (2 tries)"] * 2 + [None] * 2


@pytest.mark.parametrize("broken", [Reply(cut=20), Reply(body=b'{"results": [{"id"'), Reply(body=b"")])
def test_a_body_that_is_cut_short_is_asked_for_again(service: Service, broken: Reply) -> None:
    service.script = lambda number, request: broken if number == 0 else Reply()
    assert_all_right(client(service).score(tasks(5)))
    assert len(service.requests) == 2


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"scores": []}', "an answer without a list of results"),
        (b"[]", "an answer without a list of results"),
        (b'{"results": {}}', "an answer without a list of results"),
        (b'{"results": []}', "expected one result for this item, got 0"),
        (pickle.dumps({"results": []}), "an answer that is no JSON"),
        (b"[" * 200_000, "an answer that is no JSON"),
        (b" " * (MAX_ANSWER_BYTES + 1), "an answer of more than 67,108,864 bytes"),
    ],
)
def test_an_answer_in_another_form_is_an_error_of_every_item(service: Service, body: bytes, reason: str) -> None:
    service.script = lambda number, request: Reply(body=body)
    results = client(service, max_retries=0).score(tasks(3))
    assert all((result.error or "").startswith(reason) and result.scores is None for result in results)


def test_items_that_are_missing_twice_there_or_not_finite_fail_alone(service: Service) -> None:
    def spoil(number: int, request: dict[str, Any]) -> Reply:
        results = json.loads(score(request))["results"]
        by_id = {result["id"]: result for result in results}
        results.remove(by_id["1:case"])
        results.append(by_id["2:case"])
        by_id["3:case"]["scores"]["overall"] = float("nan")
        by_id["4:case"] |= {"scores": None, "error": "no face found"}
        by_id["5:case"]["id"] = "somebody else"
        return Reply(body=json.dumps({"results": results}).encode())

    service.script = spoil
    results = client(service, dimensions=("overall",)).score(tasks(8))
    assert [result.scores is None for result in results] == [False, True, True, True, True, True, False, False]
    assert [results[row].scores["overall"] for row in (0, 6, 7)] == [0, 6, 7]  # type: ignore[index]
    assert "got 0; 1 results are for unknown ids, such as 'somebody else'" in (results[1].error or "")
    assert "got 2" in (results[2].error or "")
    assert "finite" in (results[3].error or "")
    assert results[4].error == "no face found"
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (ScoreTask("1:case", "number 1", [], Image.new("F", (4, 4))), "cannot be sent: floating-point"),
        (ScoreTask("1:case", "number 1", [], Image.new("L", (4, 4)), {"scene": object()}), "cannot be sent: Unable"),
        (ScoreTask("1:case", "number \ud800", [], Image.new("L", (4, 4))), "cannot be sent: Error serializing"),
    ],
)
def test_what_cannot_be_sent_fails_alone(service: Service, task: ScoreTask, reason: str) -> None:
    asked = tasks(3)
    asked[1] = task
    results = client(service).score(asked)
    assert [result.id for result in results] == ["0:case", "1:case", "2:case"]
    assert reason in (results[1].error or "")
    assert results[0].error is results[2].error is None


def test_a_score_that_is_not_required_may_be_missing_or_no_number(service: Service) -> None:
    def spoil(number: int, request: dict[str, Any]) -> Reply:
        results = json.loads(score(request))["results"]
        by_id = {result["id"]: result for result in results}
        del by_id["0:case"]["scores"]["words"]
        by_id["1:case"]["scores"]["words"] = None
        by_id["2:case"]["scores"]["words"] = float("inf")
        by_id["3:case"]["scores"]["words"] = 10**400
        by_id["4:case"]["scores"]["overall"] = None
        return Reply(body=json.dumps({"results": results}).encode())

    service.script = spoil
    results = client(service, dimensions=("overall", "words"), required=("overall",)).score(tasks(6))
    assert service.requests[0]["dimensions"] == ["overall", "words"]
    found = [result.scores and (result.scores["overall"], result.scores.get("words")) for result in results]
    assert found == [(0, None), (1, None), (2, None), (3, None), None, (5, 5)]
    strict = client(service, dimensions=("overall", "words")).score(tasks(6))
    assert [result.scores is None for result in strict] == [True] * 5 + [False]


def test_a_service_that_is_down_for_a_while_loses_nothing() -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    late: list[Service] = []
    timer = threading.Timer(0.3, lambda: late.append(Service(port)))
    timer.start()
    asked = ScoreClient(f"http://127.0.0.1:{port}", chunk_size=4, backoff=0.1, max_retries=8)
    assert_all_right(asked.score(tasks(40)))
    timer.join()
    late[0].shutdown()
    late[0].server_close()


def test_a_service_that_stays_down_fails_every_item_with_a_reason_and_is_not_waited_for_by_every_chunk() -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{place.getsockname()[1]}"
    asked = ScoreClient(url, chunk_size=1, max_concurrency=2, backoff=0.1, max_retries=2)
    results = asked.score(tasks(40))
    assert all(result.scores is None for result in results)
    assert (results[0].error or "").startswith(f"no connection to {url}: ")
    assert (results[0].error or "").endswith("(3 tries)")
    assert all((result.error or "").endswith("(1 try)") for result in results[2:])


def test_a_service_that_comes_back_is_given_its_retries_again(service: Service) -> None:
    # The first chunk gets nothing at all; the second is answered, so the third may be tried twice again.
    broken = Reply(cut=10)
    service.script = lambda number, request: broken if number in (0, 1, 3) else Reply()
    results = client(service, chunk_size=2, max_concurrency=1, max_retries=1).score(tasks(6))
    assert ["connection broke" in (result.error or "") for result in results] == [True] * 2 + [False] * 4
    assert len(service.requests) == 5


def test_the_key_comes_from_the_environment_and_shows_up_nowhere(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-very-secret"
    monkeypatch.setenv("REWARD_KEY", key)
    service.script = lambda number, request: Reply(401, body=f"no such key: {key}".encode())
    asked = client(service, api_key_variable="REWARD_KEY")
    results = asked.score(tasks(2))
    assert service.headers[0]["Authorization"] == f"Bearer {key}"
    assert [result.error for result in results] == ["HTTP 401: no such key: ***"] * 2
    assert key not in repr(asked) + str(vars(asked))
    client(service).score(tasks(1))
    assert "Authorization" not in service.headers[-1]


def test_what_a_service_says_of_an_item_is_one_short_line_without_the_key(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWARD_KEY", "sk-very-secret")
    said = {"results": [{"id": "0:case", "error": "no\nsuch\x1b key: sk-very-secret " + "!" * 5000}]}
    service.script = lambda number, request: Reply(body=json.dumps(said).encode())
    (result,) = client(service, api_key_variable="REWARD_KEY").score(tasks(1))
    assert (result.error or "").startswith("no such key: *** !!!")
    assert len(result.error or "") == 200


def test_a_missing_key_is_said_before_any_work_and_a_key_in_the_wrong_place_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("REWARD_KEY", raising=False)
    with pytest.raises(UserError, match="environment variable REWARD_KEY"):
        ScoreClient("http://127.0.0.1:1", api_key_variable="REWARD_KEY")
    monkeypatch.setenv("REWARD_KEY", "two\nlines")
    for url, variable in (
        ("http://127.0.0.1:1", "REWARD_KEY"),
        ("http://127.0.0.1:1", "sk-two"),
        ("http://me:sk-two@127.0.0.1:1", None),
        ("me:sk-two@127.0.0.1", None),
    ):
        with pytest.raises(UserError) as caught:
            ScoreClient(url, api_key_variable=variable)
        assert "two" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": "127.0.0.1:8000"}, "http://127.0.0.1:8000 as url"),
        ({"url": "ftp://host"}, "as url"),
        ({"url": "http://"}, "as url"),
        ({"url": "http://host:port"}, "as url"),
        ({"url": "http://host?key=1"}, "as url"),
        ({"chunk_size": 0}, "chunk_size above 0"),
        ({"max_concurrency": 0}, "max_concurrency above 0"),
        ({"timeout": 0.0}, "timeout above 0"),
        ({"timeout": float("nan")}, "timeout above 0"),
        ({"backoff": -1.0}, "backoff above 0"),
        ({"max_retries": -1}, "max_retries of 0 or more"),
    ],
)
def test_settings_out_of_range_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ScoreClient(**{"url": "http://127.0.0.1:8000", **settings})


def test_two_tasks_with_one_id_are_refused_before_anything_is_sent(service: Service) -> None:
    with pytest.raises(ValueError, match="0:case more than once"):
        client(service).score([*tasks(2), *tasks(1)])
    assert service.requests == []


def test_it_works_where_an_event_loop_is_running_already(service: Service) -> None:
    async def notebook() -> list[ScoreResult]:
        return client(service).score(tasks(4))

    assert_all_right(asyncio.run(notebook()))


def test_an_interrupt_in_a_notebook_leaves_nothing_in_the_background(service: Service) -> None:
    service.script = lambda number, request: Reply(delay=600)

    def interrupt() -> None:
        deadline = time.monotonic() + 10
        while not service.requests and time.monotonic() < deadline:
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    async def notebook() -> None:
        client(service, timeout=600.0).score(tasks(2))

    async def others() -> int:
        return len(asyncio.all_tasks()) - 1

    thread = threading.Thread(target=interrupt)
    thread.start()
    # A loop by itself, as a notebook has it: asyncio.run would take the interrupt for its own.
    loop = asyncio.new_event_loop()
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(notebook())
    thread.join()
    loop.close()
    assert run_to_end(others()) == 0


def test_nothing_to_score_asks_nobody(service: Service) -> None:
    assert client(service).score([]) == []
    assert service.requests == []
