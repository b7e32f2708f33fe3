"""What the calls of one model share: places in flight and connections; and what ends with a call or a process."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rm.vlm.api import ApiVLM
from rm.vlm.conversation import GenerationParameters, Message, Reply
from tests.rm.vlm.server import Answer, ChatServer, KeptBusy, Request

Serve = Callable[..., ChatServer]


def vlm(server: ChatServer, **settings: Any) -> ApiVLM:
    return ApiVLM(**{"model": "tiny", "base_url": server.url, "backoff": 0.01, "longest_wait": 0.5, **settings})


def replies(model: ApiVLM, *questions: str, **parameters: Any) -> list[Reply]:
    asked = [(Message("user", (question,)),) for question in questions]
    return model.generate(asked, GenerationParameters(**parameters))


def test_threads_share_the_places_in_flight_and_the_connections(serve: Serve) -> None:
    script = KeptBusy(most=6, total=120)
    server = serve(script)
    model = vlm(server, max_concurrency=6)

    with ThreadPoolExecutor(10) as pool:
        calls = [
            pool.submit(replies, model, *(f"{call} {index}" for index in range(12)), temperature=0.5)
            for call in range(10)
        ]
        found = [[reply.text for reply in call.result()] for call in calls]

    assert found == [[f"{call} {index}" for index in range(12)] for call in range(10)]
    assert (script.stalled, script.most_inside, server.most_at_once) == (False, 6, 6)
    assert server.connections == 6
    assert model.max_concurrency == 6


def test_a_client_opens_again_after_it_was_closed(serve: Serve) -> None:
    server = serve()
    model = vlm(server)
    assert [replies(model, "a", "b")[1].text, replies(model, "c")[0].text] == ["b", "c"]
    assert server.connections == 3


def test_ctrl_c_leaves_nothing_in_flight_and_the_model_usable(serve: Serve) -> None:
    server = serve(lambda number, request: Answer(delay=60.0 if number < 3 else 0.0))
    model = vlm(server, max_concurrency=3)

    def interrupt() -> None:
        while len(server.requests) < 3:
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        replies(model, *map(str, range(50)))
    thread.join()
    assert [reply.text for reply in replies(model, "again")] == ["again"]
    assert len(server.requests) == 4  # of the 47 others none was sent


def test_can_be_sent_to_another_process_even_while_it_asks(serve: Serve, tmp_path: Path) -> None:
    sent: list[bytes] = []

    def script(number: int, request: Request) -> Answer:
        sent.append(pickle.dumps(model))
        return Answer()

    model = vlm(serve(script), cache=tmp_path, max_concurrency=3)
    sent.append(pickle.dumps(model))
    replies(model, "a")
    for text, content in zip("bc", sent[:2], strict=True):
        copy = pickle.loads(content)
        assert (copy.fingerprint, copy.max_concurrency) == (model.fingerprint, 3)
        assert [reply.text for reply in replies(copy, text)] == [text]


def test_a_forked_process_asks_by_connections_of_its_own(serve: Serve) -> None:
    forked = threading.Event()

    def script(number: int, request: Request) -> Answer:
        forked.wait(30)
        return Answer()

    server = serve(script)
    model = vlm(server)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(replies, model, "parent")
        while not server.requests:
            time.sleep(0.01)
        child = os.fork()
        if child == 0:
            os._exit(0 if [reply.text for reply in replies(model, "child")] == ["child"] else 1)
        while len(server.requests) < 2:
            time.sleep(0.01)
        forked.set()
        assert os.waitpid(child, 0)[1] == 0
        assert [reply.text for reply in asked.result()] == ["parent"]
        assert [reply.text for reply in replies(model, "after")] == ["after"]
